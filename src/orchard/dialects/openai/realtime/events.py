"""Events of the Realtime API: those of a client are read, those of the server are written."""

from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.events import Usage
from orchard.dialects.common.json_body import decode_body, invalid_choice, invalid_field
from orchard.dialects.openai.errors import openai_error_body
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.realtime.schema import EVENTS, REFUSED_EVENTS, ClientEvent


class _Head(Struct):
    type: Any = None
    event_id: Any = None


_head_decoder = msgspec.json.Decoder(_Head)
_decoders: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(event) for name, event in EVENTS.items()}
_json = msgspec.json.Encoder().encode
_MOST_ID_CHARS = 512


def parse_event(data: bytes) -> ClientEvent:
    """Read an event of a client. Raise OrchardError (invalid_request), whose `param` names the field to blame."""
    kind = decode_body(_head_decoder, data).type
    if kind is None:
        raise invalid_field("type", "is required: it names the event.")
    if isinstance(kind, str) and kind in REFUSED_EVENTS:
        raise invalid_field("type", f"'{kind}' is not supported: {REFUSED_EVENTS[kind]}.")
    if kind not in EVENTS:
        raise invalid_choice("type", EVENTS)
    event: ClientEvent = decode_body(_decoders[kind], data)
    return event


def client_event_id(data: bytes) -> str | None:
    """Return the id that a client gave to an event that may be wrong."""
    try:
        found = _head_decoder.decode(data).event_id
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return found[:_MOST_ID_CHARS] if isinstance(found, str) else None


class RealtimeError(OrchardError):
    """A failure that has a code of its own in the API."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__("invalid_request", message, param=param)
        self.code = code


class EventWriter:
    """Writes the events of one session, each with an id."""

    def __init__(self, hex_: str) -> None:
        self._hex = hex_
        self._count = 0

    def write(self, kind: str, **fields: Any) -> str:
        """Return an event as JSON."""
        self._count += 1
        return _json({"type": kind, "event_id": f"event_{self._hex[:20]}{self._count}", **fields}).decode()

    def write_error(self, error: OrchardError, event_id: str | None = None) -> str:
        """Return the event that reports an error. `event_id` is that of the client's event."""
        told = openai_error_body(error)["error"] | {"event_id": event_id}
        if isinstance(error, RealtimeError):
            told["code"] = error.code
        return self.write("error", error=told)


def failure_details(error: OrchardError) -> Fields:
    """Return the `status_details` of a response that failed."""
    told = openai_error_body(error)["error"]
    # The SDK's type has no message, but OpenAI's server sends one.
    return {"type": "failed", "error": {name: told[name] for name in ("type", "code", "message")}}


def response_usage_fields(used: Usage, audio_tokens: int) -> Fields:
    """Return the usage of a response. `audio_tokens`: those of its speech, which no other number includes."""
    output = used.completion_tokens + audio_tokens
    return {
        "total_tokens": used.prompt_tokens + output,
        "input_tokens": used.prompt_tokens,
        "output_tokens": output,
        "input_token_details": {
            "text_tokens": used.prompt_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": used.cached_tokens,
            "cached_tokens_details": {"text_tokens": used.cached_tokens, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": used.completion_tokens, "audio_tokens": audio_tokens},
    }
