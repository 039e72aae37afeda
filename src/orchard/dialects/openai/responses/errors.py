"""Errors of Responses: OpenAI's, with the field names of this API."""

from orchard.core.errors import OrchardError
from orchard.dialects.common.errors import ErrorAnswer
from orchard.dialects.openai import errors


def rename_param(error: OrchardError) -> OrchardError:
    """Return the error with this API's name of the field to blame: the worker says `messages` for `input`."""
    if error.param == "messages" or (error.param is None and error.kind == "context_length_exceeded"):
        return OrchardError(error.kind, error.message, param="input", retry_after=error.retry_after)
    return error


def responses_error_answer(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error."""
    return errors.openai_error_answer(rename_param(error), request_id)


def azure_responses_error_answer(error: OrchardError, request_id: str = "") -> ErrorAnswer:
    """Return the response that reports an error as Azure OpenAI does."""
    return errors.azure_error_answer(rename_param(error), request_id)
