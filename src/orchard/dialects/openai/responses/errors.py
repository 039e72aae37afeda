"""Errors of Responses: OpenAI's, with the field names of this API."""

from orchard.core.errors import OrchardError
from orchard.dialects.common.errors import ErrorAnswer
from orchard.dialects.openai import errors


def in_own_words(error: OrchardError) -> OrchardError:
    """Return the error with this API's name of the field to blame: the worker says `messages` for `input`."""
    if error.param == "messages" or (error.param is None and error.kind == "context_length_exceeded"):
        return OrchardError(error.kind, error.message, param="input", retry_after=error.retry_after)
    return error


def fail(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error."""
    return errors.fail(in_own_words(error), request_id)


def fail_azure(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error as Azure OpenAI does."""
    return errors.fail_azure(in_own_words(error), request_id)
