"""An error becomes a response in the dialect of the request it answers."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Scope

from orchard.core.errors import OrchardError
from orchard.dialects.anthropic.messages import encode as anthropic_messages
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.responses import encode as openai_responses

# fail(error, request id): the status, the headers and the JSON body of the answer that tells of the error.
Fail = Callable[[OrchardError, str], tuple[int, dict[str, str], bytes]]


def failure(scope: Scope, error: OrchardError) -> Response:
    """Make the response to the request of `scope`."""
    if "/responses" in scope["path"]:
        error = openai_responses.in_own_words(error)
    status, headers, body = _dialect(scope)(error, scope["state"]["id"])
    if error.kind in ("payload_too_large", "timeout"):
        headers["connection"] = "close"  # there may be more of that body
    return Response(body, status, headers, media_type="application/json")


def is_anthropic(scope: Scope) -> bool:
    """Whether a request speaks Anthropic's dialect, by its path, or by its header where OpenAI has the same path."""
    is_own_path = scope["path"].startswith(("/v1/messages", "/anthropic/"))
    return is_own_path or any(name == b"anthropic-version" for name, _ in scope["headers"])


def _dialect(scope: Scope) -> Fail:
    if scope["path"].startswith("/openai/"):
        return openai_errors.fail_azure
    return anthropic_messages.fail if is_anthropic(scope) else openai_errors.fail
