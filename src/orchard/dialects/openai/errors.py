"""OpenAI's error body, the same in all of its dialects, and Azure's."""

from typing import Any, NamedTuple

import msgspec

from orchard.core.errors import FailureKind, OrchardError

_DEFAULT_RETRY_AFTER = 1
# Azure's code is never null, and where nothing says more, the status.
_AZURE_CODES: dict[FailureKind, str] = {
    "invalid_request": "BadRequest",
    "unauthorized": "401",
    "forbidden": "403",
    "not_found": "404",
    "model_not_found": "DeploymentNotFound",
    "overloaded": "429",
    "internal": "InternalServerError",
}


class _OpenAIShape(NamedTuple):
    status: int
    type: str
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


# The SDKs retry 408, 409, 429 and everything from 500 up, unless the header x-should-retry says otherwise.
_SHAPES: dict[FailureKind, _OpenAIShape] = {
    "invalid_request": _OpenAIShape(400, "invalid_request_error"),
    "unauthorized": _OpenAIShape(401, "invalid_request_error", "invalid_api_key", (("www-authenticate", "Bearer"),)),
    "forbidden": _OpenAIShape(403, "invalid_request_error", "forbidden"),
    "not_found": _OpenAIShape(404, "invalid_request_error", "unknown_url"),
    "model_not_found": _OpenAIShape(404, "invalid_request_error", "model_not_found"),
    "request_not_found": _OpenAIShape(404, "invalid_request_error", "request_not_found"),
    "response_not_found": _OpenAIShape(404, "invalid_request_error", "response_not_found"),
    "conversation_not_found": _OpenAIShape(404, "invalid_request_error", "conversation_not_found"),
    "completion_not_found": _OpenAIShape(404, "invalid_request_error", "completion_not_found"),
    "item_not_found": _OpenAIShape(404, "invalid_request_error", "item_not_found"),
    "method_not_allowed": _OpenAIShape(405, "invalid_request_error", "method_not_supported"),
    "head_too_large": _OpenAIShape(431, "invalid_request_error", "head_too_large"),
    "payload_too_large": _OpenAIShape(413, "invalid_request_error", "payload_too_large"),
    "context_length_exceeded": _OpenAIShape(400, "invalid_request_error", "context_length_exceeded"),
    "overloaded": _OpenAIShape(429, "rate_limit_error", "rate_limit_exceeded"),
    "shutting_down": _OpenAIShape(503, "server_error", "shutting_down"),
    "cancelled": _OpenAIShape(499, "invalid_request_error", "cancelled"),
    # What makes a load fail (a broken folder, too little memory) is still there when the SDK tries again.
    "model_failed": _OpenAIShape(500, "server_error", "model_failed", (("x-should-retry", "false"),)),
    # The worker is started again for the next request, so trying again helps.
    "worker_crashed": _OpenAIShape(503, "server_error", "worker_crashed"),
    "unavailable": _OpenAIShape(503, "server_error", "unavailable"),
    "timeout": _OpenAIShape(408, "invalid_request_error", "request_timeout"),
    "internal": _OpenAIShape(500, "server_error", "internal_error"),
}


def error_body(error: OrchardError) -> dict[str, Any]:
    """Give the error as OpenAI's object: `{"error": {"message", "type", "param", "code"}}`."""
    shape = _SHAPES[error.kind]
    param = error.param
    if param is None and error.kind == "context_length_exceeded":
        param = "messages"
    # A message may quote a file name that is no UTF-8; telling of an error must not fail on that.
    message = error.message.encode(errors="replace").decode()
    return {"error": {"message": message, "type": shape.type, "param": param, "code": shape.code}}


def fail(error: OrchardError, request_id: str = "") -> tuple[int, dict[str, str], bytes]:
    """Give the status, the headers and the JSON body of the answer that tells of an error.

    The request's id is in a header of its own, not in OpenAI's body.
    """
    return _answer(error, error_body(error))


def fail_azure(error: OrchardError, request_id: str = "") -> tuple[int, dict[str, str], bytes]:
    """Give the answer that tells of an error as Azure OpenAI does, with codes of its own."""
    body = error_body(error)
    body["error"]["code"] = _AZURE_CODES.get(error.kind, body["error"]["code"])
    return _answer(error, body)


def _answer(error: OrchardError, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    shape = _SHAPES[error.kind]
    headers = {"content-type": "application/json", **dict(shape.headers)}
    retry_after = error.retry_after
    if retry_after is None and error.kind == "overloaded":
        retry_after = _DEFAULT_RETRY_AFTER
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    return shape.status, headers, msgspec.json.encode(body)
