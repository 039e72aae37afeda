"""The HTTP application: routes, and what becomes of errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from orchard import __version__
from orchard.config import Settings
from orchard.core.errors import FailureKind, OrchardError
from orchard.gateway.envelope import Envelope
from orchard.gateway.failures import failure
from orchard.gateway.pool import Pool
from orchard.gateway.routes import chat, server
from orchard.gateway.routes.site import Site

_STATUS_KINDS: dict[int, FailureKind] = {404: "not_found", 405: "method_not_allowed"}


def create_app(pool: Pool, settings: Settings) -> ASGIApp:
    """Make the HTTP application over a pool; its lifespan starts and ends the pool's workers."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        pool.start()
        yield
        await pool.close()

    app = FastAPI(title="Orchard", version=__version__, lifespan=lifespan, redirect_slashes=False)
    app.add_exception_handler(OrchardError, _orchard_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)
    site = Site(pool, settings)
    for routes in (chat, server):
        routes.add(app, site)
    # Around the whole application, so that answers of its outermost error handler have a request id too.
    return Envelope(app, settings.max_requests)


async def _orchard_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, OrchardError)
    return failure(http.scope, error)


async def _http_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _STATUS_KINDS.get(error.status_code, "invalid_request")
    response = failure(http.scope, OrchardError(kind, f"{http.method} {http.url.path}: {error.detail}"))
    response.headers.update(error.headers or {})
    return response


async def _bug(http: Request, error: Exception) -> Response:
    # Starlette logs the traceback and answers with this.
    return failure(http.scope, OrchardError("internal", f"the server failed: {type(error).__name__}"))
