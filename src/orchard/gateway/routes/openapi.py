"""The descriptions of routes in the server's OpenAPI document."""

from collections.abc import Sequence
from typing import Any, get_args

from starlette.responses import Response

from orchard.core.request import Priority
from orchard.dialects.common.fields import PRIORITY_HEADER

_PRIORITY = {"name": PRIORITY_HEADER, "in": "header", "schema": {"type": "string", "enum": get_args(Priority)}}
TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}


def object_schema(**fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that requires these fields."""
    return {"type": "object", "required": list(fields), "properties": fields}


OPENAI_ERROR = object_schema(error=object_schema(message=TEXT, type=TEXT, param=_TEXT_OR_NULL, code=_TEXT_OR_NULL))


def error_responses(schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of routes whose errors have this schema."""
    content = {"application/json": {"schema": schema}}
    return {
        "4XX": {"description": "The request can't be served; the message says why.", "content": content},
        "5XX": {"description": "The server failed, or is going away.", "content": content},
    }


_EVENTS: dict[str, Any] = {"text/event-stream": {}}  # a schema would be taken for that of each event
_JSON = {"application/json": {"schema": {"type": "object"}}}
LINES: dict[str, Any] = {"application/x-ndjson": {"schema": TEXT}} | _JSON
PICTURE: dict[str, Any] = {"image/*": {"schema": {"type": "string", "format": "binary"}}}
SOUND: dict[str, Any] = {"audio/*": {"schema": {"type": "string", "format": "binary"}}}


def route_options(
    body: dict[str, Any] | None = None,
    *,
    form: dict[str, Any] | None = None,
    parameters: Sequence[dict[str, Any]] = (_PRIORITY,),
    answer: dict[str, Any] = _JSON,
) -> dict[str, Any]:
    """Return the arguments that describe a route with a body whose response is `answer` or server-sent events.

    `body` is the schema of its JSON body, `form` that of its form with files; None: it takes none. `parameters` are its
    headers.
    """
    bodies = {"multipart/form-data": form, "application/json": body}
    content = {kind: {"schema": one} for kind, one in bodies.items() if one}
    return {
        "response_class": Response,
        "responses": {200: {"description": "The answer, whole or streamed.", "content": answer | _EVENTS}},
        "openapi_extra": {
            "requestBody": {"required": True, "content": content},
            "parameters": list(parameters),
        },
    }
