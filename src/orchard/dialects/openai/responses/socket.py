"""Responses over a WebSocket: https://developers.openai.com/api/docs/guides/websocket-mode.

A client's event holds the body of a request; the server's events are those of the stream.
"""

from typing import Any, Literal

import msgspec

from orchard.core.errors import OrchardError
from orchard.dialects.common.fields import BodyType, Refused
from orchard.dialects.common.json_body import invalid_field, refuse_fields
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.responses.errors import rename_param
from orchard.dialects.openai.responses.parse import Draft, make_draft
from orchard.dialects.openai.responses.schema import Body, PromptCacheOptions


class CreateEvent(Body, kw_only=True):
    """The event that requests a response. `generate` false: only cache the prompt."""

    type: Literal["response.create"]
    generate: bool | None = None
    stream_id: Refused = None


_EVENT = BodyType(CreateEvent)


def parse(event: bytes, default: str | None) -> Draft:
    """Read a client's event; `default` is the model if it names none.

    Raise OrchardError (invalid_request), whose `param` names the field to blame.
    """
    body = _EVENT.decode(event, default=default)
    if body.background:
        raise invalid_field("background", "can't be used over a WebSocket: the events come over it.")
    if body.stream is False:
        raise invalid_field("stream", "must be left out or true over a WebSocket: events are all it carries.")
    refuse_fields(body, {"stream_id": "a connection answers one event after the other"})
    body.stream = True
    if body.generate is False:
        body.prompt_cache_options = PromptCacheOptions(prewarm=True)
    return make_draft(body, event)


def payload(event: bytes) -> str:
    """Return the JSON of a server-sent event."""
    return event.split(b"\ndata: ", 1)[1].rstrip().decode()


def error_event(error: OrchardError) -> str:
    """Return the event that says why there is no response."""
    status, headers, _ = openai_errors.openai_error_answer(error)
    told = openai_errors.openai_error_body(rename_param(error))["error"]
    if error.kind == "response_not_found":
        status, told["code"], told["param"] = 400, "previous_response_not_found", "previous_response_id"
    if retry_after := headers.get("retry-after"):
        told["headers"] = {"retry-after": retry_after}
    return _encode_error(status, told)


def too_old_event(seconds: float) -> str:
    """Return the event for a connection that has reached its maximal duration of `seconds`."""
    message = f"This connection has been open for {seconds / 60:g} minutes, which is the limit: open a new one."
    code = "websocket_connection_limit_reached"
    return _encode_error(400, {"message": message, "type": "invalid_request_error", "param": None, "code": code})


def _encode_error(status: int, error: dict[str, Any]) -> str:
    return msgspec.json.encode({"type": "error", "status": status, "error": error}).decode()
