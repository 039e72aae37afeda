"""The routes: thin arrows between a dialect and the pool."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_args

from fastapi import FastAPI
from msgspec import to_builtins
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from orchard import __version__
from orchard.config import Settings
from orchard.core.errors import FailureKind, OrchardError
from orchard.core.request import Priority
from orchard.dialects import openai_chat
from orchard.dialects.openai_errors import fail
from orchard.gateway.answer import EventResponse
from orchard.gateway.body import BodyReader
from orchard.gateway.envelope import Envelope
from orchard.gateway.pool import Pool
from orchard.gateway.registry import ModelEntry

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
    _add_chat(app, pool, settings)
    _add_models(app, pool)
    _add_cache(app, pool)
    # Around the whole application, so that answers of its outermost error handler have a request id too.
    return Envelope(app, settings.max_requests, _failure)


def _add_chat(app: FastAPI, pool: Pool, settings: Settings) -> None:
    bodies = BodyReader(settings)
    body = {"required": True, "content": {"application/json": {"schema": openai_chat.body_schema()}}}
    priority = {"name": openai_chat.PRIORITY_HEADER, "in": "header", "schema": {"enum": get_args(Priority)}}
    extra = {"requestBody": body, "parameters": [priority]}

    @app.post("/v1/chat/completions", tags=["OpenAI"], openapi_extra=extra, response_class=Response)
    async def chat_completions(http: Request) -> Response:
        """Answer a conversation: https://platform.openai.com/docs/api-reference/chat."""
        call = openai_chat.parse(await bodies.read(http), http.state.id, http.headers.get(openai_chat.PRIORITY_HEADER))
        answer = call.encoder() if call.stream else call.complete
        return EventResponse(pool, pool.open(call.request), answer, _failure, settings.keep_alive_interval)


def _add_models(app: FastAPI, pool: Pool) -> None:
    created = int(time.time())

    def describe(entry: ModelEntry) -> dict[str, Any]:
        return {
            "id": entry.id,
            "object": "model",
            "created": created,
            "owned_by": "orchard",
            "context_window": entry.context_window,
        }

    @app.get("/v1/models", tags=["OpenAI"])
    async def list_models() -> dict[str, Any]:
        """List the models that this server serves."""
        return {"object": "list", "data": [describe(model.entry) for model in pool.models.values()]}

    @app.get("/v1/models/{model_id:path}", tags=["OpenAI"])
    async def get_model(model_id: str) -> dict[str, Any]:
        """Describe one model; its id may hold slashes."""
        return describe(pool.find(model_id).entry)

    @app.get("/health", tags=["Server"])
    async def health() -> dict[str, Any]:
        """Say that the server is up, and for each model: loading, ready, failed (with the reason) or stopped."""
        models = {name: model.health() for name, model in pool.models.items()}
        return {"status": "ok", "version": __version__, "models": models}


def _add_cache(app: FastAPI, pool: Pool) -> None:
    @app.get("/v1/cache", tags=["Server"])
    async def cache(request_id: str | None = None) -> dict[str, Any]:
        """Say what each model's prompt cache holds and how it served the last requests, or one of them."""
        names = list(pool.models)
        states = await asyncio.gather(*(model.cache(request_id) for model in pool.models.values()))
        if request_id is None:
            entries = [{"model": name, **to_builtins(state)} for name, state in zip(names, states, strict=True)]
            return {"object": "cache", "models": entries}
        for name, state in zip(names, states, strict=True):
            for report in state.reports:
                return {"object": "cache.report", "model": name, **to_builtins(report)}
        message = f"no cache report on request '{request_id}': it is unknown, waits still, or was long ago"
        raise OrchardError("request_not_found", message, param="request_id")


def _failure(error: OrchardError) -> Response:
    status, headers, body = fail(error)
    if error.kind in ("payload_too_large", "timeout"):
        headers["connection"] = "close"  # there may be more of that body
    return Response(body, status, headers, media_type="application/json")


async def _orchard_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, OrchardError)
    return _failure(error)


async def _http_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _STATUS_KINDS.get(error.status_code, "invalid_request")
    response = _failure(OrchardError(kind, f"{http.method} {http.url.path}: {error.detail}"))
    response.headers.update(error.headers or {})
    return response


async def _bug(_: Request, error: Exception) -> Response:
    # Starlette logs the traceback and answers with this.
    return _failure(OrchardError("internal", f"the server failed: {type(error).__name__}"))
