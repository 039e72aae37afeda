"""Errors of version 1 of LM Studio's REST API: https://lmstudio.ai/docs/developer/rest/streaming-events#error."""

import re
from typing import Any

from orchard.core.errors import FailureKind, OrchardError
from orchard.dialects.common.errors import STATUSES, ErrorAnswer, error_answer, message_of

_TYPES: dict[FailureKind, str] = {"model_not_found": "model_not_found", "request_not_found": "job_not_found"}
# By OpenAI's names, which the worker and the stored responses have.
_NAMES = {
    "messages": "input",
    "instructions": "system_prompt",
    "repetition_penalty": "repeat_penalty",
    "reasoning.effort": "reasoning",
    "enable_thinking": "reasoning",
}
# The items of `input` are the parts of one message there.
_IMAGE = re.compile(r"input\[0\]\.content\[(\d+)\]\.image_url")


def rename_field(error: OrchardError) -> OrchardError:
    """Return the error with this API's name of the field to blame."""
    param = _NAMES.get(error.param or "", error.param)
    if param is None and error.kind == "context_length_exceeded":
        param = "input"
    param, message = (text and _IMAGE.sub(r"input[\1].data_url", text) for text in (param, error.message))
    return OrchardError(error.kind, message or "", param=param, retry_after=error.retry_after)


def lmstudio_error_body(error: OrchardError) -> dict[str, Any]:
    """Return the error as LM Studio's object: `{"error": {"type", "message", "code"}}`, and `param` if there is one."""
    status = STATUSES[error.kind]
    other = "internal_error" if status >= 500 else "unknown" if status in (408, 409, 429, 499) else "invalid_request"
    told = {"type": _TYPES.get(error.kind, other), "message": message_of(error), "code": error.kind}
    return {"error": told | ({"param": error.param} if error.param else {})}


def lmstudio_error_answer(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error; the request's id is in a header."""
    return error_answer(error, lmstudio_error_body(rename_field(error)), STATUSES[error.kind])
