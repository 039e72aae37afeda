"""OpenAI's error body, which all of its dialects share, and Azure's."""

from typing import Any

from orchard.core.errors import FailureKind, OrchardError
from orchard.dialects.common.errors import STATUSES, ErrorAnswer, error_answer, message_of

# The code is the name of the kind, except for these.
_CODES: dict[FailureKind, str | None] = {
    "invalid_request": None,
    "unauthorized": "invalid_api_key",
    "not_found": "unknown_url",
    "method_not_allowed": "method_not_supported",
    "overloaded": "rate_limit_exceeded",
    "timeout": "request_timeout",
    "internal": "internal_error",
}
# Azure's code is never null. By default it is the status.
_AZURE_CODES: dict[FailureKind, str] = {
    "invalid_request": "BadRequest",
    "unauthorized": "401",
    "forbidden": "403",
    "not_found": "404",
    "model_not_found": "DeploymentNotFound",
    "overloaded": "429",
    "internal": "InternalServerError",
}


def openai_error_body(error: OrchardError) -> dict[str, Any]:
    """Return the error as OpenAI's object: `{"error": {"message", "type", "param", "code"}}`."""
    status = STATUSES[error.kind]
    type_ = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    param = error.param
    if param is None and error.kind == "context_length_exceeded":
        param = "messages"
    code = _CODES.get(error.kind, error.kind)
    return {"error": {"message": message_of(error), "type": type_, "param": param, "code": code}}


def openai_error_answer(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error; the request's id is in a header, not in OpenAI's body."""
    return error_answer(error, openai_error_body(error), STATUSES[error.kind])


def azure_error_answer(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error as Azure OpenAI does, with its own codes."""
    body = openai_error_body(error)
    body["error"]["code"] = _AZURE_CODES.get(error.kind, body["error"]["code"])
    return error_answer(error, body, STATUSES[error.kind])
