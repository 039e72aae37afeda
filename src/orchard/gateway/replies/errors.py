"""Responses that tell of errors, each in the dialect of its route, whatever the names in the address look like."""

import logging
from collections.abc import Callable, Iterable

from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from orchard.core.errors import OrchardError
from orchard.dialects.anthropic import errors as anthropic_errors
from orchard.dialects.common.errors import ErrorAnswer
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.responses import errors as responses_errors

log = logging.getLogger(__name__)

# fail(error, request id) returns the answer that tells of the error.
Fail = Callable[[OrchardError, str], ErrorAnswer]

# At these dialects' addresses a request that says that it speaks Anthropic's is answered in that one.
_SHARED: tuple[Fail, ...] = (openai_errors.fail, responses_errors.fail)
# Who asks for an address that is not served, by the beginning of its path.
_PREFIXES: tuple[tuple[str, Fail], ...] = (
    ("/openai/", openai_errors.fail_azure),
    ("/v1/messages", anthropic_errors.fail),
    ("/anthropic/", anthropic_errors.fail),
)


class Dialects:
    """How the errors of each route are told."""

    def __init__(self) -> None:
        self._routes: list[tuple[BaseRoute, Fail]] = []

    def add(self, routes: Iterable[BaseRoute], fail: Fail) -> None:
        """Let the errors of these routes be told so."""
        self._routes += [(route, fail) for route in routes]

    def of(self, scope: Scope) -> Fail:
        """Return how the errors of a request are told, also before its route was found."""
        found: dict[Match, Fail] = {}
        for route, fail in self._routes:
            found.setdefault(route.matches(scope)[0], fail)
        by_path = (fail for prefix, fail in _PREFIXES if scope["path"].startswith(prefix))
        # A partial match is a route of another method.
        fail = found.get(Match.FULL) or found.get(Match.PARTIAL) or next(by_path, openai_errors.fail)
        return anthropic_errors.fail if fail in _SHARED and names_anthropic(scope) else fail


def failure(scope: Scope, error: OrchardError) -> Response:
    """Make the response to the request of `scope`."""
    dialects: Dialects = scope["state"]["dialects"]
    status, headers, body = dialects.of(scope)(error, scope["state"]["id"])
    log.debug("why it is a %d: %r", status, error.message)  # quoted, as it may have pieces of the request
    if error.kind in ("payload_too_large", "timeout"):
        headers["connection"] = "close"  # there may be more of that body
    return Response(body, status, headers, media_type="application/json")


def names_anthropic(scope: Scope) -> bool:
    """Whether a request says that it speaks Anthropic's dialect, which has some paths of OpenAI's."""
    return any(name == b"anthropic-version" for name, _ in scope["headers"])
