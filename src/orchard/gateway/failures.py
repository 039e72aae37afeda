"""An error becomes a response in the dialect of the request it answers."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Scope

from orchard.core.errors import OrchardError
from orchard.dialects import openai_errors

# fail(error, request id): the status, the headers and the JSON body of the answer that tells of the error.
Fail = Callable[[OrchardError, str], tuple[int, dict[str, str], bytes]]


def failure(scope: Scope, error: OrchardError) -> Response:
    """Make the response to the request of `scope`."""
    status, headers, body = _dialect(scope)(error, scope["state"]["id"])
    if error.kind in ("payload_too_large", "timeout"):
        headers["connection"] = "close"  # there may be more of that body
    return Response(body, status, headers, media_type="application/json")


def _dialect(scope: Scope) -> Fail:
    return openai_errors.fail
