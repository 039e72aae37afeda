"""The body of a Chat Completions request: https://platform.openai.com/docs/api-reference/chat/create.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from orchard.core.request import Overflow
from orchard.dialects.common.fields import BodyType, Natural, NonEmpty, Refused
from orchard.dialects.common.media import Detail
from orchard.dialects.openai.fields import (
    Choices,
    ConversationFields,
    Effort,
    ImageUrl,
    InputAudio,
    Limit,
    StreamOptions,
    VideoUrl,
)
from orchard.dialects.openai.speech import VoiceId, VoiceName
from orchard.dialects.openai.tools import InputGrammar

MAX_MESSAGES = 8192
MAX_TOOLS = 512
MAX_PARTS = 4096
MAX_CALLS = 1024
MAX_TOP_LOGPROBS = 20
MAX_MODALITIES = 16

IGNORED = (
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
    "verbosity",
)
"""OpenAI's fields that have no effect here; the documentation lists them."""


class File(Struct):
    """A file in the request, as base64 or as a data: URL."""

    file_data: NonEmpty | None = None
    file_id: str | None = None
    filename: str | None = None


class ContentPart(Struct):
    """A part of a message: `text`, a medium of a user or a tool, or `refusal` in a message of the assistant.

    Texts, images and videos may also have the type names of Responses.
    """

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: NonEmpty | ImageUrl | None = None
    detail: Detail | None = None
    input_audio: InputAudio | None = None
    video_url: NonEmpty | VideoUrl | None = None
    file: File | None = None
    file_id: Refused = None


class FunctionCall(Struct):
    """A call that the assistant made; `arguments` is JSON text, or an object."""

    name: NonEmpty
    arguments: str | dict[str, Any] | None = None


class CustomCall(Struct):
    """A call of a custom tool that the assistant made."""

    name: NonEmpty
    input: str


class ToolCall(Struct):
    """A call that the assistant made, with the id that its result refers to."""

    id: NonEmpty
    type: Literal["function", "custom"] | None = None
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class AudioReference(Struct):
    """A spoken answer, by its id; what else clients send of it is ignored."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]


class Message(Struct):
    """One turn; which fields make sense depends on the role. `images` are Ollama's."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[ContentPart], Meta(max_length=MAX_PARTS)] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Annotated[list[ToolCall], Meta(max_length=MAX_CALLS)] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    prefix: bool | None = None
    images: Annotated[list[NonEmpty], Meta(max_length=MAX_PARTS)] | None = None
    audio: AudioReference | None = None


Messages = Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]


class Function(Struct):
    """A function that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class InputFormat(Struct):
    """The format of a custom tool's input."""

    type: Literal["text", "grammar"]
    grammar: InputGrammar | None = None


class Custom(Struct):
    """A tool that takes free text."""

    name: str
    description: str | None = None
    format: InputFormat | None = None


class ToolEntry(Struct):
    """A tool."""

    type: Literal["function", "custom"] | None = None
    function: Function | None = None
    custom: Custom | None = None


class FunctionName(Struct):
    """A function, or a custom tool, to call."""

    name: str


class ToolName(Struct):
    """A tool that may be called."""

    type: Literal["function", "custom"] | None = None
    function: FunctionName | None = None
    custom: FunctionName | None = None


class AllowedTools(Struct):
    """The tools that may be called in this answer."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[ToolName], Meta(min_length=1, max_length=MAX_TOOLS)]


class ToolChoice(Struct):
    """A tool choice beyond `none`, `auto` and `required`: a tool, or those that are allowed."""

    type: Literal["function", "custom", "allowed_tools"] | None = None
    function: FunctionName | None = None
    custom: FunctionName | None = None
    allowed_tools: AllowedTools | None = None


class JsonSchema(Struct):
    """The schema to enforce; absent: any JSON object. `strict`: reject a schema that can't be enforced completely."""

    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | None = field(default=None, name="schema")
    strict: bool | None = None


class ResponseFormat(Struct):
    """The format of the answer; llama.cpp, LM Studio and Together put the schema into `schema`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None
    bare_schema: dict[str, Any] | None = field(default=None, name="schema")


class Reasoning(Struct):
    """How to think, in OpenRouter's form; `exclude`: leave reasoning out of the answer."""

    effort: Effort | None = None
    max_tokens: Natural | None = None
    exclude: bool | None = None
    enabled: bool | None = None


class PredictedPart(Struct):
    """A part of a predicted answer."""

    type: Literal["text"]
    text: str


class Prediction(Struct):
    """Text that most of the answer will repeat, such as a file that needs small changes."""

    type: Literal["content"]
    content: str | Annotated[list[PredictedPart], Meta(max_length=MAX_PARTS)]


class AudioFields(Struct):
    """How the answer is spoken."""

    format: Literal["wav", "aac", "mp3", "flac", "opus", "pcm16"]
    voice: VoiceName | VoiceId | None = None


class Body(ConversationFields, kw_only=True):
    """A Chat Completions request."""

    messages: Messages

    max_completion_tokens: Limit | None = None
    max_tokens: Limit | None = None
    n: Choices | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None

    tools: Annotated[list[ToolEntry], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[list[Function], Meta(max_length=MAX_TOOLS)] | None = None
    function_call: Literal["none", "auto"] | FunctionName | None = None

    reasoning_effort: Effort | None = None
    reasoning: Literal["hide"] | Reasoning | None = None
    include_reasoning: bool | None = None

    context_overflow: Overflow | None = None
    store: bool | None = None
    metadata: Annotated[
        Any, Meta(description="Up to 16 strings of 512 characters, kept with an answer that is stored; else ignored.")
    ] = None

    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    response_format: ResponseFormat | None = None
    prediction: Prediction | None = None
    modalities: Annotated[list[Literal["text", "audio"]], Meta(max_length=MAX_MODALITIES)] | None = None
    audio: AudioFields | None = None
    moderation: Refused = None
    web_search_options: Refused = None


BODY = BodyType(Body, IGNORED)
