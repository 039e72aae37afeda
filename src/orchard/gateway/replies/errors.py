"""Error responses, each in the dialect of its route."""

import logging
from collections.abc import Callable, Iterable

from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from orchard.core.errors import OrchardError
from orchard.dialects.anthropic import errors as anthropic_errors
from orchard.dialects.common.errors import ErrorAnswer
from orchard.dialects.lmstudio import errors as lmstudio_errors
from orchard.dialects.ollama import errors as ollama_errors
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.responses import errors as responses_errors

log = logging.getLogger(__name__)

# fail(error, request id) returns the response that reports the error.
Fail = Callable[[OrchardError, str], ErrorAnswer]

# At the URLs of these dialects, a request with Anthropic's header gets errors in Anthropic's dialect.
_SHARED: tuple[Fail, ...] = (openai_errors.openai_error_answer, responses_errors.responses_error_answer)
# The dialects of URLs that are not served, by the beginning of the path.
_PREFIXES: tuple[tuple[str, Fail], ...] = (
    ("/openai/", openai_errors.azure_error_answer),
    ("/v1/messages", anthropic_errors.anthropic_error_answer),
    ("/anthropic/", anthropic_errors.anthropic_error_answer),
    ("/api/v0/", openai_errors.openai_error_answer),
    ("/api/v1/", lmstudio_errors.lmstudio_error_answer),
    ("/api/", ollama_errors.ollama_error_answer),
)


class Dialects:
    """The error dialect of each route."""

    def __init__(self) -> None:
        self._routes: list[tuple[BaseRoute, Fail]] = []

    def add(self, routes: Iterable[BaseRoute], fail: Fail) -> None:
        """Use `fail` for the errors of these routes."""
        self._routes += [(route, fail) for route in routes]

    def fail_of(self, scope: Scope) -> Fail:
        """Return the `Fail` for a request, even if its route has not been determined yet."""
        found: dict[Match, Fail] = {}
        for route, fail in self._routes:
            found.setdefault(route.matches(scope)[0], fail)
        by_path = (fail for prefix, fail in _PREFIXES if scope["path"].startswith(prefix))
        # A partial match is a route with another method.
        fail = found.get(Match.FULL) or found.get(Match.PARTIAL) or next(by_path, openai_errors.openai_error_answer)
        return anthropic_errors.anthropic_error_answer if fail in _SHARED and names_anthropic(scope) else fail


def error_response(scope: Scope, error: OrchardError) -> Response:
    """Return the error response to the request of `scope`."""
    dialects: Dialects = scope["state"]["dialects"]
    status, headers, body = dialects.fail_of(scope)(error, scope["state"]["id"])
    log.debug("why it is a %d: %r", status, error.message)  # quoted, because it may contain parts of the request
    if error.kind in ("payload_too_large", "timeout"):
        headers["connection"] = "close"  # the rest of the body may still arrive
    return Response(body, status, headers, media_type="application/json")


def names_anthropic(scope: Scope) -> bool:
    """Return whether a request has Anthropic's header. Anthropic's API shares some paths with OpenAI's."""
    return any(name == b"anthropic-version" for name, _ in scope["headers"])
