"""OpenAI's Speech: a text becomes an audio file, or server-sent events with the bytes of one."""

import base64
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Event, Failed, Finished, Output, Usage
from orchard.core.request import Request
from orchard.core.tasks.speak import MAX_INPUT_CHARS, Sound, SoundFormat, Speak
from orchard.core.voices import OPENAI_VOICES
from orchard.dialects.common.fields import BodyType, ServingFields, header_priority, make_request
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.openai.errors import openai_error_body
from orchard.dialects.openai.voices import voice_fields

VoiceName = Annotated[str, Meta(min_length=1, max_length=256)]

_MEDIA_TYPES: dict[SoundFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}

_json = msgspec.json.Encoder().encode


class VoiceId(Struct):
    """A voice by its id, which is the same as its name here."""

    id: VoiceName


class SpeechBody(ServingFields, kw_only=True):
    """A Speech request."""

    input: Annotated[str, Meta(min_length=1, max_length=MAX_INPUT_CHARS)]
    voice: VoiceName | VoiceId | None = None
    instructions: Annotated[str, Meta(max_length=MAX_INPUT_CHARS)] | None = None
    response_format: SoundFormat | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    stream_format: Literal["audio", "sse"] | None = None


BODY = BodyType(SpeechBody, model_kind="speech model")


class SpeechCall(Struct, frozen=True):
    """A parsed body: its request, the type of the file, and whether to send it in server-sent events."""

    request: Request
    media_type: str
    sse: bool

    def encoder(self) -> "SoundFile | SpeechEvents":
        """Return the encoder of the answer."""
        return SpeechEvents() if self.sse else SoundFile(self.media_type)


def voice_name(voice: str | VoiceId | None) -> str | None:
    """Return the name of a voice."""
    return voice.id if isinstance(voice, VoiceId) else voice


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> SpeechCall:
    """Turn a body into a call for `model`, else its own model, else `default`. Raise OrchardError (invalid_request)."""
    asked = BODY.decode(body, model, default)
    if not asked.input.strip():
        raise invalid_field("input", "must have more than white space.")
    format = asked.response_format or "mp3"
    speed = 1.0 if asked.speed is None else asked.speed
    task = Speak(asked.input, voice_name(asked.voice), asked.instructions or None, speed, format)
    request = make_request(asked, request_id, task, header_priority(priority))
    return SpeechCall(request, _MEDIA_TYPES[format], asked.stream_format == "sse")


class SoundFile:
    """Encodes events as the file itself."""

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the bytes of the file that these events have."""
        return b"".join(event.read(Sound).data for event in events if isinstance(event, Output))


class SpeechEvents:
    """Encodes the file as server-sent events."""

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the server-sent events for these events."""
        return b"".join(b"data: " + _json(told) + b"\n\n" for event in events for told in _speech_events(event))


def _speech_events(event: Event) -> Iterator[dict[str, Any]]:
    match event:
        case Output():
            data = base64.b64encode(event.read(Sound).data).decode()
            yield {"type": "speech.audio.delta", "audio": data}
        case Finished():
            yield {"type": "speech.audio.done", "usage": _speech_usage(event.usage)}
        case Failed():
            yield openai_error_body(event.error())


def _speech_usage(used: Usage) -> dict[str, int]:
    total = used.prompt_tokens + used.completion_tokens
    return {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens, "total_tokens": total}


def voice_list(
    models: Sequence[tuple[str, Sequence[str]]], made: Sequence[tuple[str, str, int]], is_known: bool
) -> dict[str, Any]:
    """Return the list of voices; `models` are pairs of a model's id and its voices.

    `made` are the id, the name and the time of each voice that the caller has made from a recording. `voices`, which
    Open WebUI reads, has names that requests may use. A caller without a key (`is_known` False) sees nothing else.
    """
    names = dict.fromkeys([*(voice for _, own in models for voice in own), *OPENAI_VOICES])
    voices = [
        {"id": voice, "object": "audio.voice", "name": voice, "model": model}
        for model, own in (models if is_known else ())
        for voice in own
    ]
    voices += [voice_fields(*one) for one in made]
    return {"object": "list", "data": voices, "voices": [{"id": name, "name": name} for name in names]}
