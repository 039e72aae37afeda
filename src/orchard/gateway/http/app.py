"""The HTTP application: its routes, and the responses to errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from orchard import __version__
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.caller import Callers
from orchard.gateway.http import not_found
from orchard.gateway.http.auth import Keys
from orchard.gateway.http.guard import Guard
from orchard.gateway.http.request_context import RequestContextMiddleware
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.errors import Dialects, failure
from orchard.gateway.replies.event_response import SUMMARY_HEADER, WARNING_HEADER
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.table import ROUTES


def create_app(pool: Pool, settings: Settings) -> ASGIApp:
    """Return the HTTP application over a pool; its lifespan starts and ends the pool's workers."""
    callers = Callers(settings.api_keys, settings.admin_keys)
    site = AppState(pool, settings, callers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        pool.start()
        site.responses.start()
        yield
        await site.responses.close()
        await pool.close()

    app = FastAPI(
        title="Orchard", version=__version__, lifespan=lifespan, redirect_slashes=False, docs_url=None, redoc_url=None
    )
    app.add_exception_handler(OrchardError, _orchard_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _query_error)
    app.add_exception_handler(Exception, _bug)
    dialects = Dialects()
    for group in ROUTES:
        before = len(app.routes)
        for prefix in group.prefixes:
            group.add(app, site, prefix)
        dialects.add(app.routes[before:], group.fail)
    # Around the whole application, so that answers of its outermost error handler have a request id too.
    checks = (Guard(settings).check, Keys(callers).check)
    wrapped = RequestContextMiddleware(app, settings.max_requests, checks, pool.metrics, dialects)
    return _with_cors(wrapped, settings) if settings.cors_origins else wrapped


def _with_cors(app: ASGIApp, settings: Settings) -> ASGIApp:
    """Wrap everything else: a page must be able to read that its key is wrong, or the server busy."""
    return CORSMiddleware(
        app,
        allow_origins=settings.cors_origins,
        allow_methods=["*"],
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=["request-id", "x-request-id", "retry-after", SUMMARY_HEADER, WARNING_HEADER],
    )


async def _orchard_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, OrchardError)
    return failure(http.scope, error)


async def _http_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    asked = f"{http.method} {not_found.shown(http.url.path)}"
    routes = [route for route in http.app.routes if isinstance(route, APIRoute)]
    match error.status_code:
        case 404:
            known = [route.path for route in routes if route.include_in_schema]
            told = OrchardError("not_found", f"{asked}: {not_found.advice(http.url.path, known)}.")
            return failure(http.scope, told)
        case 405:
            taken = {
                method for route in routes if route.path_regex.match(http.url.path) for method in route.methods or ()
            }
            told = OrchardError("method_not_allowed", f"{asked}: this route takes only {' and '.join(sorted(taken))}.")
            response = failure(http.scope, told)
            response.headers["allow"] = ", ".join(sorted(taken))
            return response
    return failure(http.scope, OrchardError("invalid_request", f"{asked}: {error.detail}"))


async def _query_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(first["loc"][-1])
    return failure(http.scope, OrchardError("invalid_request", f"`{name}`: {first['msg']}.", param=name))


async def _bug(http: Request, error: Exception) -> Response:
    # Starlette logs the traceback and answers with this.
    return failure(http.scope, OrchardError("internal", f"the server failed: {type(error).__name__}"))
