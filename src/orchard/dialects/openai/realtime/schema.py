"""The events of a client of the Realtime API: https://platform.openai.com/docs/api-reference/realtime-client-events.

A field that isn't here is ignored, whatever its value. In sessions, `null` sets a field to nothing; in all others it
means absent.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from orchard.dialects.common.fields import INT64_MAX, ModelName, NonEmpty, Refused
from orchard.dialects.openai.speech import VoiceId, VoiceName
from orchard.dialects.openai.stored import Metadata

MAX_TOOLS = 512
MAX_PARTS = 256
MAX_ITEMS = 1024
MAX_AUDIO_CHARS = 15 * 2**20

ItemId = Annotated[str, Meta(min_length=1, max_length=64)]
Modality = Literal["text", "audio"]
TokenLimit = Annotated[int, Meta(ge=1, le=INT64_MAX)] | Literal["inf"]


class ClientEvent(Struct, kw_only=True):
    """What all events have; the client's id is in the error that answers an event."""

    type: NonEmpty
    event_id: Annotated[str, Meta(max_length=512)] | None = None


class AudioFormat(Struct):
    """A format of audio: `audio/pcm` (24 kHz, 16 bits, little-endian), or G.711 at 8 kHz."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[24000] | None = None


class ServerVad(Struct, kw_only=True, frozen=True, tag_field="type", tag="server_vad"):
    """A turn ends after a silence; times are in milliseconds."""

    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=10_000)] = 300
    silence_duration_ms: Annotated[int, Meta(ge=0, le=10_000)] = 500
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: Refused = None
    eagerness: Refused = None


class SemanticVad(Struct, kw_only=True, frozen=True, tag_field="type", tag="semantic_vad"):
    """A turn ends where a model hears that somebody has finished."""

    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True
    threshold: Refused = None
    prefix_padding_ms: Refused = None
    silence_duration_ms: Refused = None
    idle_timeout_ms: Refused = None

    @property
    def longest_silence_ms(self) -> int:
        """After how much silence a turn ends, whatever the model hears. The numbers are OpenAI's."""
        return {"low": 8000, "medium": 4000, "high": 2000, "auto": 4000}[self.eagerness]


TurnDetection = ServerVad | SemanticVad


class Transcription(Struct, kw_only=True, frozen=True):
    """How the client's speech is transcribed."""

    model: ModelName | None = None
    language: Annotated[str, Meta(max_length=64)] | None = None
    prompt: Annotated[str, Meta(max_length=65_536)] | None = None
    delay: Refused = None
    keywords: Refused = None
    languages: Refused = None


class AudioInput(Struct, kw_only=True):
    """The client's audio."""

    format: AudioFormat | UnsetType = UNSET
    transcription: Transcription | UnsetType | None = UNSET
    turn_detection: TurnDetection | UnsetType | None = UNSET
    noise_reduction: Refused = None


class AudioOutput(Struct, kw_only=True):
    """The answers' audio."""

    format: AudioFormat | UnsetType = UNSET
    voice: VoiceName | VoiceId | UnsetType = UNSET
    speed: Annotated[float, Meta(ge=0.25, le=1.5)] | UnsetType = UNSET


class Audio(Struct, kw_only=True):
    """The audio of a session or of a response, which has an output only."""

    input: AudioInput | UnsetType = UNSET
    output: AudioOutput | UnsetType = UNSET


class RealtimeTool(Struct):
    """A function."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FunctionChoice(Struct):
    """The function that must be called."""

    type: str
    name: str | None = None


class ReasoningConfig(Struct):
    """How the model thinks."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class AnswerFields(Struct, kw_only=True):
    """What a session and a response say about answers."""

    output_modalities: Annotated[list[Modality], Meta(min_length=1, max_length=2)] | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: Annotated[list[RealtimeTool], Meta(max_length=MAX_TOOLS)] | UnsetType | None = UNSET
    tool_choice: Literal["none", "auto", "required"] | FunctionChoice | UnsetType | None = UNSET
    max_output_tokens: TokenLimit | UnsetType | None = UNSET
    parallel_tool_calls: bool | UnsetType | None = UNSET
    reasoning: ReasoningConfig | UnsetType | None = UNSET
    audio: Audio | UnsetType = UNSET
    prompt: Refused = None


class SessionFields(AnswerFields, kw_only=True):
    """What a client sets of a session."""

    type: Literal["realtime", "transcription"]
    model: ModelName | UnsetType = UNSET
    truncation: Literal["auto", "disabled"] | UnsetType = UNSET
    include: Refused = None
    tracing: Annotated[Any, Meta(description="Accepted and ignored.")] = None


class ContentPart(Struct, omit_defaults=True):
    """A part of a message; which fields make sense depends on the type."""

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio"]
    text: str | None = None
    audio: Annotated[str, Meta(max_length=MAX_AUDIO_CHARS)] | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


class ItemFields(Struct, kw_only=True):
    """An item of a conversation; which fields make sense depends on the type."""

    type: str
    id: ItemId | None = None
    role: Literal["system", "user", "assistant"] | None = None
    content: Annotated[list[ContentPart], Meta(max_length=MAX_PARTS)] | None = None
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    name: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    arguments: str | None = None
    output: str | None = None


class ResponseFields(AnswerFields, kw_only=True):
    """What a client asks of one response."""

    conversation: Literal["auto", "none"] | None = None
    input: Annotated[list[ItemFields], Meta(max_length=MAX_ITEMS)] | None = None
    metadata: Metadata | None = None


class SessionUpdate(ClientEvent, kw_only=True):
    """Sets fields of the session."""

    session: SessionFields


class AudioAppend(ClientEvent, kw_only=True):
    """Audio in base64."""

    audio: Annotated[str, Meta(max_length=MAX_AUDIO_CHARS)]


class ItemCreate(ClientEvent, kw_only=True):
    """Adds an item after another; `previous_item_id` None: at the end, `root`: at the beginning."""

    item: ItemFields
    previous_item_id: ItemId | None = None


class ItemEvent(ClientEvent, kw_only=True):
    """Retrieves or deletes an item."""

    item_id: ItemId


class ItemTruncate(ItemEvent, kw_only=True):
    """Cuts an answer's audio off where the person has stopped to listen."""

    content_index: Annotated[int, Meta(ge=0, le=INT64_MAX)]
    audio_end_ms: Annotated[int, Meta(ge=0, le=INT64_MAX)]


class ResponseCreate(ClientEvent, kw_only=True):
    """Asks for a response."""

    response: ResponseFields | None = None


class ResponseCancel(ClientEvent, kw_only=True):
    """Cancels a response."""

    response_id: str | None = None


class BareEvent(ClientEvent, kw_only=True):
    """An event without fields."""


EVENTS: dict[str, type[ClientEvent]] = {
    "session.update": SessionUpdate,
    "input_audio_buffer.append": AudioAppend,
    "input_audio_buffer.commit": BareEvent,
    "input_audio_buffer.clear": BareEvent,
    "conversation.item.create": ItemCreate,
    "conversation.item.retrieve": ItemEvent,
    "conversation.item.delete": ItemEvent,
    "conversation.item.truncate": ItemTruncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
}
"""The events that are served, by type."""
REFUSED_EVENTS = {"output_audio_buffer.clear": "it is for WebRTC and SIP, which are not served"}
