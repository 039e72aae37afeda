"""Anthropic's error body: https://platform.claude.com/docs/en/api/errors."""

from typing import Any, NamedTuple

import msgspec

from orchard.core.errors import FailureKind, OrchardError

_DEFAULT_RETRY_AFTER = 1


class _AnthropicShape(NamedTuple):
    status: int
    type: str
    headers: tuple[tuple[str, str], ...] = ()


# The SDKs retry 408, 409, 429 and everything from 500 up, unless the header x-should-retry says otherwise.
_SHAPES: dict[FailureKind, _AnthropicShape] = {
    "invalid_request": _AnthropicShape(400, "invalid_request_error"),
    "unauthorized": _AnthropicShape(401, "authentication_error", (("www-authenticate", "Bearer"),)),
    "forbidden": _AnthropicShape(403, "permission_error"),
    "not_found": _AnthropicShape(404, "not_found_error"),
    "model_not_found": _AnthropicShape(404, "not_found_error"),
    "request_not_found": _AnthropicShape(404, "not_found_error"),
    "response_not_found": _AnthropicShape(404, "not_found_error"),
    "conversation_not_found": _AnthropicShape(404, "not_found_error"),
    "completion_not_found": _AnthropicShape(404, "not_found_error"),
    "item_not_found": _AnthropicShape(404, "not_found_error"),
    "method_not_allowed": _AnthropicShape(405, "invalid_request_error"),
    "head_too_large": _AnthropicShape(431, "invalid_request_error"),
    "payload_too_large": _AnthropicShape(413, "request_too_large"),
    "context_length_exceeded": _AnthropicShape(400, "invalid_request_error"),
    "overloaded": _AnthropicShape(529, "overloaded_error"),
    "shutting_down": _AnthropicShape(503, "api_error"),
    "cancelled": _AnthropicShape(499, "invalid_request_error"),
    # What makes a load fail (a broken folder, too little memory) is still there when the SDK tries again.
    "model_failed": _AnthropicShape(500, "api_error", (("x-should-retry", "false"),)),
    # The worker is started again for the next request, so trying again helps.
    "worker_crashed": _AnthropicShape(503, "api_error"),
    "unavailable": _AnthropicShape(503, "api_error"),
    "timeout": _AnthropicShape(408, "timeout_error"),
    "internal": _AnthropicShape(500, "api_error"),
}


def error_body(error: OrchardError, request_id: str) -> dict[str, Any]:
    """Give the error as Anthropic's object: `{"type": "error", "error": {"type", "message"}, "request_id"}`."""
    # A message may quote a file name that is no UTF-8; telling of an error must not fail on that.
    message = error.message.encode(errors="replace").decode()
    if error.kind == "context_length_exceeded":
        message = f"prompt is too long: {message}"  # what coding agents look for, to shorten the conversation
    shape: dict[str, Any] = {"type": _SHAPES[error.kind].type, "message": message}
    if error.kind == "response_not_found":
        shape["details"] = {"error_code": "thread_not_found"}  # the SDK then sends the whole conversation
    return {"type": "error", "error": shape, "request_id": request_id}


def fail(error: OrchardError, request_id: str) -> tuple[int, dict[str, str], bytes]:
    """Give the status, the headers and the JSON body of the answer that tells of an error."""
    shape = _SHAPES[error.kind]
    headers = {"content-type": "application/json", **dict(shape.headers)}
    retry_after = error.retry_after
    if retry_after is None and error.kind == "overloaded":
        retry_after = _DEFAULT_RETRY_AFTER
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    return shape.status, headers, msgspec.json.encode(error_body(error, request_id))
