"""The bodies of the Responses and Conversations APIs: https://platform.openai.com/docs/api-reference/responses.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from orchard.core.request import Overflow
from orchard.dialects.common.fields import INT64_MAX, BodyType, ModelFields, NonEmpty, Refused
from orchard.dialects.common.media import Detail
from orchard.dialects.openai.fields import ConversationFields, Effort, ImageUrl, InputAudio, VideoUrl
from orchard.dialects.openai.stored import Metadata, MetadataUpdate

MAX_ITEMS = 8192
MAX_PARTS = 4096
MAX_TOOLS = 512
MAX_TOP_LOGPROBS = 20
MAX_INCLUDES = 64
MAX_ADDED_ITEMS = 20

IGNORED = (
    "access_programs",
    "image",
    "prompt_cache_retention",
    "stream_options",
)
"""OpenAI's fields that have no effect here; the documentation lists them."""

IGNORED_BY_COMPACTION = ("image", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier")

Count = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Identifier = Annotated[str, Meta(min_length=1, max_length=256)]


class Part(Struct):
    """A part of a message, of a reasoning or of a tool's output; which fields make sense depends on the type."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageUrl | None = None
    detail: Detail | None = None
    input_audio: InputAudio | None = None
    video_url: str | VideoUrl | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


Parts = Annotated[list[Part], Meta(max_length=MAX_PARTS)]


class ToolFormat(Struct):
    """The format of the input of a custom tool."""

    type: Literal["text", "grammar"]
    syntax: Literal["lark", "regex"] | None = None
    definition: NonEmpty | None = None


class NamedTool(Struct):
    """A tool; which fields make sense depends on the type."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    format: ToolFormat | None = None


class ToolEntry(NamedTool):
    """A tool, or a namespace that has tools."""

    tools: Annotated[list[NamedTool], Meta(max_length=MAX_TOOLS)] | None = None


class Item(Struct):
    """One item of a conversation; which fields make sense depends on the type, and a message needs none."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | Parts | None = None
    summary: Parts | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    input: str | None = None
    arguments: str | dict[str, Any] | None = None
    output: str | Parts | Part | None = None
    action: Any = None
    actions: Any = None
    tools: Annotated[list[ToolEntry], Meta(max_length=MAX_TOOLS)] | None = None


class AllowedTool(Struct):
    """A tool that may be called."""

    type: str | None = None
    name: str | None = None


class ToolChoice(Struct):
    """A tool choice beyond `none`, `auto` and `required`."""

    type: str
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: Annotated[list[AllowedTool], Meta(max_length=MAX_TOOLS)] | None = None


class TextFormat(Struct):
    """The format of the answer's text."""

    type: Literal["text", "json_schema", "json_object"]
    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | bool | None = field(name="schema", default=None)
    strict: bool | None = None


class TextConfig(Struct):
    """The format and the verbosity of the answer's text."""

    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


Summary = Literal["auto", "concise", "detailed"]


class ReasoningConfig(Struct):
    """How the model thinks, and how its reasoning is shown."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None


class PromptCacheOptions(Struct):
    """How to cache the prompt; `prewarm`: only cache it."""

    prewarm: bool | None = None


class ConversationName(Struct):
    """A stored conversation."""

    id: Identifier


class Body(ConversationFields, kw_only=True):
    """A request to create a response, or to count the tokens of its input."""

    input: str | Annotated[list[Item], Meta(max_length=MAX_ITEMS)] | None = None
    instructions: str | None = None
    previous_response_id: Identifier | None = None
    conversation: Identifier | ConversationName | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    include: Annotated[list[str], Meta(max_length=MAX_INCLUDES)] | None = None

    max_output_tokens: Count | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    context_overflow: Overflow | None = None
    context_management: Annotated[
        Any, Meta(description="An entry of the type 'compaction' does what `context_overflow` 'summarize' does.")
    ] = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None

    tools: Annotated[list[ToolEntry], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Count | None = None

    metadata: Metadata | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: PromptCacheOptions | None = None

    prompt: Refused = None
    moderation: Refused = None

    @property
    def items(self) -> list[Item]:
        """The input as items."""
        if isinstance(self.input, str):
            return [Item("message", role="user", content=self.input)]
        return self.input or []

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation that the response belongs to."""
        named = self.conversation
        return named.id if isinstance(named, ConversationName) else named

    @property
    def warms_up(self) -> bool:
        """Whether the prompt is only cached, so that the answer is empty."""
        return bool(self.prompt_cache_options and self.prompt_cache_options.prewarm)


class CompactBody(ModelFields, kw_only=True):
    """A request to compact a conversation."""

    input: str | Annotated[list[Item], Meta(max_length=MAX_ITEMS)] | None = None
    instructions: str | None = None
    previous_response_id: Identifier | None = None


class ConversationBody(Struct):
    """A request to create a conversation. `pinned`: it is kept until somebody deletes it."""

    items: Annotated[list[Item], Meta(max_length=MAX_ADDED_ITEMS)] | None = None
    metadata: Metadata | None = None
    pinned: bool | None = None


class ConversationUpdate(MetadataUpdate):
    """A request to replace a conversation's metadata and, if `pinned` is not null, to pin it or no longer."""

    pinned: bool | None = None


class ItemsBody(Struct):
    """A request to add items to a conversation."""

    items: Annotated[list[Item], Meta(min_length=1, max_length=MAX_ADDED_ITEMS)]


BODY = BodyType(Body, IGNORED)
COMPACT_BODY = BodyType(CompactBody, IGNORED_BY_COMPACTION)
