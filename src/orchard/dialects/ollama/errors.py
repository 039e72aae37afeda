"""Ollama's error body: `{"error": "message"}`."""

from orchard.core.errors import OrchardError
from orchard.dialects.common.errors import STATUSES, ErrorAnswer, error_answer, message_of


def ollama_error_body(error: OrchardError) -> dict[str, str]:
    """Return the error as Ollama's object, in which there is nothing but the message."""
    return {"error": message_of(error)}


def ollama_error_answer(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error; the request's id is in a header."""
    return error_answer(error, dict(ollama_error_body(error)), STATUSES[error.kind])
