"""The body of a Chat Completions request: https://platform.openai.com/docs/api-reference/chat/create.

A field that isn't here is ignored, whatever it holds. `null` means absent, for every field.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from orchard.core.request import Priority

MAX_MESSAGES = 8192
MAX_CHOICES = 16
MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_TOOLS = 512
MAX_PARTS = 4096
MAX_CALLS = 1024
MAX_TOP_LOGPROBS = 20
MAX_MODALITIES = 16
_INT64_MAX = 2**63 - 1

IGNORED = (
    "metadata",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
    "verbosity",
)
"""OpenAI's fields that change nothing in the answer of a local server; the docs list them."""

Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]
NonEmpty = Annotated[str, Meta(min_length=1)]
Refused = Annotated[Any, Meta(description="Not supported: a request that sets it is refused.")]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1, le=_INT64_MAX)]
Natural = Annotated[int, Meta(ge=0, le=_INT64_MAX)]


class ContentPart(Struct):
    """A part of a message: `text`, or `refusal` where the assistant speaks."""

    type: str
    text: str | None = None
    refusal: str | None = None


class FunctionCall(Struct):
    """A call the assistant made; `arguments` is JSON text, and an object is taken as well."""

    name: NonEmpty
    arguments: str | dict[str, Any] | None = None


class ToolCall(Struct):
    """A call the assistant made, with the id that its result refers to."""

    id: NonEmpty
    type: str | None = None
    function: FunctionCall | None = None


class Message(Struct):
    """One turn; which fields make sense depends on the role."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[ContentPart], Meta(max_length=MAX_PARTS)] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Annotated[list[ToolCall], Meta(max_length=MAX_CALLS)] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    audio: Refused = None


class Function(Struct):
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolEntry(Struct):
    """A tool; only functions are supported."""

    type: str | None = None
    function: Function | None = None


class FunctionName(Struct):
    """A function to call."""

    name: str


class NamedToolChoice(Struct):
    """A tool choice beyond `none`, `auto` and `required`."""

    type: str | None = None
    function: FunctionName | None = None


class ResponseFormat(Struct):
    """The form of the answer; only `text` is supported."""

    type: str


class StreamOptions(Struct):
    """What a stream tells besides the answer."""

    include_usage: bool | None = None


class Body(Struct):
    """A Chat Completions request."""

    model: Annotated[str, Meta(min_length=1, max_length=1024)]
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]

    max_completion_tokens: Count | None = None
    max_tokens: Count | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=_INT64_MAX)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    xtc_probability: Annotated[float, Meta(ge=0, le=1)] | None = None
    xtc_threshold: Annotated[float, Meta(ge=0, le=0.5)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_context_size: Natural | None = None
    presence_context_size: Natural | None = None
    frequency_context_size: Natural | None = None
    logit_bias: dict[Natural, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=_INT64_MAX)] | None = None

    tools: Annotated[list[ToolEntry], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[list[Function], Meta(max_length=MAX_TOOLS)] | None = None
    function_call: Literal["none", "auto"] | FunctionName | None = None

    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    enable_thinking: bool | None = None
    thinking_budget: Natural | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    priority: Priority | None = None
    response_format: ResponseFormat | None = None
    modalities: Annotated[list[Literal["text", "audio"]], Meta(max_length=MAX_MODALITIES)] | None = None
    audio: Refused = None
    moderation: Refused = None
    web_search_options: Refused = None


def body_schema() -> dict[str, Any]:
    """Give the JSON schema of the body, whole in itself (no `$ref`)."""
    schema = msgspec.json.schema(Body)
    whole: dict[str, Any] = _inlined(schema, schema.pop("$defs"))
    whole["properties"].update({name: {"description": "Accepted and ignored."} for name in IGNORED})
    return whole


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    match node:
        case {"$ref": str(reference)}:
            return _inlined(definitions[reference.rsplit("/", 1)[-1]], definitions)
        case dict():
            return {key: _inlined(value, definitions) for key, value in node.items()}
        case list():
            return [_inlined(value, definitions) for value in node]
    return node
