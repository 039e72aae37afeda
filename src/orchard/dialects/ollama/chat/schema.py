"""The body of a chat: https://docs.ollama.com/api/chat.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from orchard.dialects.common.fields import BodyType, NonEmpty
from orchard.dialects.ollama.fields import AnswerFields, Images

MAX_MESSAGES = 32_768
MAX_CALLS = 512
MAX_TOOLS = 512


class CalledFunction(Struct):
    """A function that the assistant called; `arguments` is an object, or JSON text."""

    name: NonEmpty
    arguments: dict[str, Any] | str | None = None


class ChatToolCall(Struct):
    """A call that the assistant made."""

    function: CalledFunction
    id: str | None = None


class ChatMessage(Struct):
    """One turn; which fields make sense depends on the role."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: Images | None = None
    tool_calls: Annotated[list[ChatToolCall], Meta(max_length=MAX_CALLS)] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class OllamaFunction(Struct):
    """A function that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OllamaTool(Struct):
    """A tool."""

    function: OllamaFunction
    type: Literal["function"] | None = None


class Body(AnswerFields, kw_only=True):
    """A chat."""

    messages: Annotated[list[ChatMessage], Meta(max_length=MAX_MESSAGES)] | None = None
    tools: Annotated[list[OllamaTool], Meta(max_length=MAX_TOOLS)] | None = None


BODY = BodyType(Body, ("shift",))
