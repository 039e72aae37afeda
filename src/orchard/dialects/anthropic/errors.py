"""Anthropic's error body: https://platform.claude.com/docs/en/api/errors."""

from typing import Any

from orchard.core.errors import OrchardError
from orchard.dialects.common.errors import STATUSES, ErrorAnswer, error_answer, message_of

_STATUSES = STATUSES | {"overloaded": 529}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    500: "api_error",
    503: "api_error",
    507: "api_error",
    529: "overloaded_error",
}


def anthropic_error_body(error: OrchardError, request_id: str) -> dict[str, Any]:
    """Return the error as Anthropic's object: `{"type": "error", "error": {"type", "message"}, "request_id"}`."""
    message = message_of(error)
    if error.kind == "context_length_exceeded":
        message = f"prompt is too long: {message}"  # coding agents look for this text
    elif error.param and "[" in error.param and error.param not in message:
        message = f"`{error.param}`: {message}"  # the body has no field for it
    told: dict[str, Any] = {"type": _TYPES.get(_STATUSES[error.kind], "invalid_request_error"), "message": message}
    if error.kind == "response_not_found":
        told["details"] = {"error_code": "thread_not_found"}  # the SDK then resends the whole conversation
    return {"type": "error", "error": told, "request_id": request_id}


def anthropic_error_answer(error: OrchardError, request_id: str) -> ErrorAnswer:
    """Return the response that reports an error."""
    return error_answer(error, anthropic_error_body(error, request_id), _STATUSES[error.kind])
