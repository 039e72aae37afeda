"""The HTTP application: routes, middleware and error responses."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from itertools import chain

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from orchard import __version__
from orchard.config import SettingReport, Settings
from orchard.core.errors import OrchardError
from orchard.gateway.caller import Callers
from orchard.gateway.http import not_found
from orchard.gateway.http.guard import Guard, check_key
from orchard.gateway.http.request_context import RequestContextMiddleware
from orchard.gateway.media.fetch import Fetcher
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.errors import Dialects, error_response
from orchard.gateway.replies.event_response import DROP_HEADER, SUMMARY_HEADER, VOICE_HEADER
from orchard.gateway.replies.warnings import WARNING_HEADER
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import error_responses
from orchard.gateway.routes.table import ROUTES


def create_app(
    pool: Pool, settings: Settings, fetcher: Fetcher | None = None, reports: Sequence[SettingReport] = ()
) -> ASGIApp:
    """Return the HTTP application of a pool. Its lifespan starts and ends the pool's workers.

    `fetcher` fetches media; None: make one from the settings. `reports` are the settings as clients are shown them.
    """
    callers = Callers(
        settings.api_keys,
        settings.admin_keys,
        settings.prompt_cache_sharing,
        all_manage=settings.keys_may_manage_models,
    )
    site = AppState(pool, settings, callers, fetcher, reports)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        site.upload_folder.clear_dead()
        pool.start()
        site.responses.start()
        yield
        await site.responses.close()
        site.media.close()
        await pool.close()
        site.upload_folder.close()

    app = FastAPI(
        title="Orchard",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        exception_handlers=dict.fromkeys(
            (OrchardError, HTTPException, RequestValidationError, Exception), _error_response
        ),
    )
    app.router.default = _not_found
    dialects = _add_routes(app, site)
    # Around the whole application, so that responses of its outermost error handler also have a request id.
    answers = tuple(end for group in ROUTES for end in group.answers)
    checks = (Guard(settings, answers).check, partial(check_key, callers))
    wrapped = RequestContextMiddleware(app, settings.max_requests, checks, pool.metrics, dialects)
    # Around everything else, so that web pages can also read errors about keys and overload.
    return _allow_origins(wrapped, settings.cors_origins) if settings.cors_origins else wrapped


def _allow_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Let web pages from these origins send requests and read what the responses' headers say."""
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["*"],
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=[
            "request-id",
            "x-request-id",
            "retry-after",
            SUMMARY_HEADER,
            DROP_HEADER,
            VOICE_HEADER,
            WARNING_HEADER,
        ],
    )


def _add_routes(app: FastAPI, site: AppState) -> Dialects:
    """Add all routes, and return their error dialects."""
    dialects = Dialects()
    for group in ROUTES:
        for prefix in group.prefixes:
            is_shown = group.tag is not None and prefix == group.prefixes[0]
            tags: list[str | Enum] = [group.tag] if group.tag else []
            routes = APIRouter(
                prefix=prefix, tags=tags, include_in_schema=is_shown, responses=error_responses(group.error)
            )
            group.add(routes, site)
            # Not by include_router: for a 405, the methods of a URL are looked up in the application's own routes.
            app.routes.extend(routes.routes)
            dialects.add(routes.routes, group.fail)
    return dialects


async def _not_found(scope: Scope, _receive: Receive, _send: Send) -> None:
    """Answer a path that has no route. Starlette would answer a WebSocket there with a 403 that says nothing."""
    if scope["type"] == "websocket":
        path = not_found.shorten_path(scope["path"])
        raise OrchardError("not_found", f"{path}: this path takes no WebSocket; /v1/responses and /v1/realtime do.")
    raise HTTPException(404)


async def _error_response(http: Request, error: Exception) -> Response:
    """Return an error response. Starlette logs the traceback of unexpected errors."""
    if isinstance(error, HTTPException):
        return _http_error(http, error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        name = str(first["loc"][-1])
        error = OrchardError("invalid_request", f"`{name}`: {first['msg']}.", param=name)
    elif not isinstance(error, OrchardError):
        error = OrchardError("internal", f"the server failed: {type(error).__name__}")
    return error_response(http.scope, error)


def _http_error(http: Request, error: HTTPException) -> Response:
    asked = f"{http.method} {not_found.shorten_path(http.url.path)}"
    routes = [route for route in http.app.routes if isinstance(route, APIRoute)]
    match error.status_code:
        case 404:
            known = [route.path for route in routes if route.include_in_schema]
            told = OrchardError("not_found", f"{asked}: {not_found.advise_on_path(http.url.path, known)}.")
        case 405:
            found = [route.methods or () for route in routes if route.path_regex.match(http.url.path)]
            taken = sorted(set(chain.from_iterable(found)))
            told = OrchardError("method_not_allowed", f"{asked}: this route takes only {' and '.join(taken)}.")
            response = error_response(http.scope, told)
            response.headers["allow"] = ", ".join(taken)
            return response
        case _:
            told = OrchardError("invalid_request", f"{asked}: {error.detail}")
    return error_response(http.scope, told)
