"""The body of a Messages request: https://platform.claude.com/docs/en/api/messages/create.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from orchard.core.request import Overflow
from orchard.dialects.common.fields import BodyType, Natural, Refused, ServingFields, Speculation, Stop
from orchard.dialects.common.media import Frames, FramesPerSecond, Pixels, ResizeShape

MAX_MESSAGES = 32_768
MAX_BLOCKS = 4096
MAX_TOOLS = 512
MAX_STOPS = 64
MAX_SERVERS = 64

IGNORED = (
    "anthropic_beta",
    "anthropic_version",
    "betas",
    "billing_policy",
    "cache_control",
    "container",
    "diagnostics",
    "fallback_credit_token",
    "fallbacks",
    "inference_geo",
    "metadata",
    "service_tier",
    "speed",
    "user_profile_id",
    "workspace_id",
)
"""Anthropic's fields that have no effect here; the documentation lists them."""


class ImageSource(Struct):
    """Where an image is: in `data`, or at `url`. File ids are not supported."""

    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class AnyBlock(Struct):
    """A block of any kind. A text may also have the type that OpenAI's Responses uses, `input_text`."""

    type: str

    def __post_init__(self) -> None:
        if self.type == "input_text":
            self.type = "text"


class InnerBlock(AnyBlock):
    """A block within a document or a search result: `text` or `image`."""

    text: str | None = None
    source: ImageSource | None = None


class Source(ImageSource):
    """Where an image or a document is; a document may consist of blocks."""

    content: str | Annotated[list[InnerBlock], Meta(max_length=MAX_BLOCKS)] | None = None


class ShownBlock(AnyBlock):
    """A block that the model is shown. `source` of a search result is a string."""

    text: str | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None


class ResultBlock(ShownBlock):
    """A block of what a tool returned."""

    content: str | Annotated[list[InnerBlock], Meta(max_length=MAX_BLOCKS)] | dict[str, Any] | None = None
    tool_name: str | None = None


class ToolEntry(Struct):
    """A tool: the caller's own with an `input_schema`, or one that Anthropic defined, named by its `type`."""

    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChange(Struct):
    """A tool that is added during the conversation: by its definition, or by the name of one of `tools`."""

    type: str | None = None
    definition: ToolEntry | None = None


class Block(ShownBlock):
    """A block of a message; which fields make sense depends on the type."""

    thinking: str | None = None
    content: str | Annotated[list[ResultBlock], Meta(max_length=MAX_BLOCKS)] | dict[str, Any] | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    is_error: bool | None = None
    tool: ToolChange | None = None


class Message(Struct):
    """One turn. `clear_at` "next_user_message", of a system message, hides it once a user message follows."""

    role: Literal["user", "assistant", "system"]
    content: str | Annotated[list[Block], Meta(max_length=MAX_BLOCKS)] | None = None
    clear_at: Literal["next_user_message", "never"] | None = None


class SystemBlock(AnyBlock):
    """A block of the system prompt; only `text` is known."""

    text: str | None = None


class Thinking(Struct):
    """Whether the model thinks before it answers, for how many tokens at most, and whether its thinking is shown."""

    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: Natural | None = None
    display: Literal["summarized", "omitted", "updates"] | None = None


class ToolChoice(Struct):
    """Whether tools must be called, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class OutputFormat(Struct):
    """The format of the answer's text."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Struct):
    """The effort of the answer, and its format."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class Body(ServingFields, kw_only=True):
    """A Messages request, or one that counts the tokens of its prompt."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]

    system: str | Annotated[list[SystemBlock], Meta(max_length=MAX_BLOCKS)] | None = None
    max_tokens: Natural | None = None
    stop_sequences: Annotated[list[Stop], Meta(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Natural | None = None
    thinking: Thinking | None = None
    tools: Annotated[list[ToolEntry], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    mcp_servers: Annotated[list[Any], Meta(max_length=MAX_SERVERS)] | None = None
    resize_shape: ResizeShape | None = None
    min_pixels: Pixels | None = None
    max_pixels: Pixels | None = None
    fps: FramesPerSecond | None = None
    max_frames: Frames | None = None
    speculation: Speculation | None = None
    context_overflow: Overflow | None = None
    context_management: Annotated[
        Any, Meta(description="An edit 'compact_20260112' does what `context_overflow` 'summarize' does.")
    ] = None
    compaction: Refused = None
    thread: Annotated[Any, Meta(description="{'type': 'continue'} is refused: no conversation is stored.")] = None


BODY = BodyType(Body, IGNORED)
