"""The HTTP responses to failed requests: what all dialects share."""

from typing import Any

import msgspec

from orchard.core.errors import FailureKind, OrchardError

ErrorAnswer = tuple[int, dict[str, str], bytes]
"""The status, the headers and the JSON body of the response to a failed request."""

# The SDKs retry 408, 409, 429 and everything from 500 up, unless the header x-should-retry says otherwise.
STATUSES: dict[FailureKind, int] = {
    "invalid_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "model_not_found": 404,
    "request_not_found": 404,
    "response_not_found": 404,
    "conversation_not_found": 404,
    "completion_not_found": 404,
    "voice_not_found": 404,
    "item_not_found": 404,
    "method_not_allowed": 405,
    "head_too_large": 431,
    "payload_too_large": 413,
    "store_full": 507,
    "context_length_exceeded": 400,
    "overloaded": 429,
    "shutting_down": 503,
    "cancelled": 499,
    "model_in_use": 409,
    "model_failed": 500,
    "insufficient_memory": 503,
    # The worker is started again for the next request, so trying again helps.
    "worker_crashed": 503,
    "unavailable": 503,
    "timeout": 408,
    "internal": 500,
}
_HEADERS: dict[FailureKind, dict[str, str]] = {
    "unauthorized": {"www-authenticate": "Bearer"},
    # The cause of a failed load (a broken folder, too little memory) still exists when the SDK tries again.
    "model_failed": {"x-should-retry": "false"},
    "model_in_use": {"x-should-retry": "false"},  # the requests that keep the model last longer than a retry waits
    "store_full": {"x-should-retry": "false"},  # until somebody deletes a conversation
    "overloaded": {"retry-after": "1"},
}


def message_of(error: OrchardError) -> str:
    """Return the error's message; replace what UTF-8 can't encode, as in a file's name, by question marks."""
    return error.message.encode(errors="replace").decode()


def error_answer(error: OrchardError, body: dict[str, Any], status: int) -> ErrorAnswer:
    """Return the response that reports an error with a dialect's `body`."""
    headers = {"content-type": "application/json", **_HEADERS.get(error.kind, {})}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return status, headers, msgspec.json.encode(body)
