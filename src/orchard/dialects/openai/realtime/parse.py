"""Read the events of a client of the Realtime API."""

from typing import Any

import msgspec
from msgspec import Struct

from orchard.dialects.common.json_body import decode_body, invalid_choice, invalid_field
from orchard.dialects.openai.realtime.schema import EVENTS, REFUSED_EVENTS, ClientEvent


class _Head(Struct):
    type: Any = None
    event_id: Any = None


_head_decoder = msgspec.json.Decoder(_Head)
_decoders: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(event) for name, event in EVENTS.items()}
_MOST_ID_CHARS = 512


def parse(data: bytes) -> ClientEvent:
    """Read an event of a client. Raise OrchardError (invalid_request), whose `param` names the field to blame."""
    kind = decode_body(_head_decoder, data).type
    if kind is None:
        raise invalid_field("type", "is required: it names the event.")
    if not isinstance(kind, str):
        raise invalid_choice("type", EVENTS)
    if kind in REFUSED_EVENTS:
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
