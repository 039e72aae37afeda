"""Routes about the server itself: what it is, its health, what it has cached, what it counts."""

import asyncio
from typing import Any

from fastapi import APIRouter
from msgspec import to_builtins
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from orchard import __version__
from orchard.core.cache_report import CacheState
from orchard.core.errors import OrchardError
from orchard.gateway.caller import Caller, Callers
from orchard.gateway.metrics import stats as metrics_stats
from orchard.gateway.routes import docs
from orchard.gateway.routes.app_state import AppState


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
    _add_root(routes)
    _add_health(routes, site)
    _add_cache(routes, site)
    _add_counts(routes, site)


def _add_root(routes: APIRouter) -> None:
    @routes.get("/")
    async def root() -> dict[str, str]:
        """Say what this is, and where to read on."""
        return {"name": "Orchard", "version": __version__, "docs": "/docs", "openapi": "/openapi.json"}

    @routes.head("/", include_in_schema=False)
    async def root_head() -> Response:
        return Response()

    @routes.get("/docs", include_in_schema=False)
    async def show_docs(http: Request) -> HTMLResponse:
        return HTMLResponse(docs.page(http.app.openapi()), headers={"content-security-policy": docs.POLICY})


def _add_health(routes: APIRouter, site: AppState) -> None:
    @routes.get("/health")
    async def health(http: Request) -> dict[str, Any]:
        """Say that the server is up, and for each model: unloaded, queued, loading, ready, unloading or failed.

        `loaded_model` and `loaded_adapter` are the model in memory that was used last, or null. `percent` is how far a
        load is, or the requests of a model that tell; `reason` is why a model failed, `restarts` how often its process
        died.
        Where the server asks for keys, who brings none is told the status alone.
        """
        if not http.state.caller.known:
            return {"status": "healthy"}
        pool = site.pool
        ready = [model for model in pool.models.values() if model.state.shown == "ready"]
        loaded = max(ready, key=lambda model: model.used, default=None)
        return {
            "status": "healthy",
            "version": __version__,
            "loaded_model": (loaded.entry.base or loaded.entry.id) if loaded else None,
            "loaded_adapter": loaded.entry.adapter if loaded else None,
            "models": {name: model.status.health() for name, model in pool.models.items()},
        }

    @routes.get("/ready")
    async def ready() -> Response:
        """Answer 200 while all models that are loaded with the server are ready to answer, 503 otherwise."""
        is_ready = site.pool.is_ready
        return JSONResponse({"status": "ready" if is_ready else "not_ready"}, 200 if is_ready else 503)


def _add_cache(routes: APIRouter, site: AppState) -> None:
    @routes.get("/v1/cache")
    async def cache(http: Request, request_id: str | None = None) -> dict[str, Any]:
        """Say what each model's prompt cache holds and how it served the last requests, or one of them.

        Where the server asks for keys, a caller finds its own requests only, without what is cached of others; an admin
        key finds all.
        """
        names = list(site.pool.models)
        found = await asyncio.gather(*(model.cache(request_id) for model in site.pool.models.values()))
        states = [_visible(site.callers, http.state.caller, state) for state in found]
        if request_id is None:
            entries = [{"model": name, **to_builtins(state)} for name, state in zip(names, states, strict=True)]
            return {"object": "cache", "models": entries}
        for name, state in zip(names, states, strict=True):
            for report in state.reports:
                return {"object": "cache.report", "model": name, **to_builtins(report)}
        message = f"no cache report for request '{request_id}': it is unknown, still waits, or is too old"
        raise OrchardError("request_not_found", message, param="request_id")


def _add_counts(routes: APIRouter, site: AppState) -> None:
    pool = site.pool

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics(http: Request) -> Response:
        """Return the metrics in Prometheus's text format, or in OpenMetrics's where that is asked for."""
        from orchard.gateway.metrics import exposition

        accept = http.headers.get("accept", "")
        body, content_type = exposition.render(pool.metrics, pool.statuses(), pool.processes.budget, accept)
        return Response(body, headers={"content-type": content_type})

    @routes.get("/v1/stats")
    async def stats() -> dict[str, Any]:
        """Say what the server did and does: requests, tokens, times, memory, loads and crashes, for each model."""
        return metrics_stats.stats(pool.metrics, pool.statuses(), pool.processes.budget)


def _visible(callers: Callers, caller: Caller, state: CacheState) -> CacheState:
    """Return what a caller may read of it: nothing that another user's prompts say."""
    own = [report for report in state.reports if callers.made(caller, report.request_id)]
    # The closest cached text may be anybody's, if the server has keys.
    sees_all = caller.admin or caller.user is None
    return replace(state, reports=own if sees_all else [report.without_cached_text() for report in own])
