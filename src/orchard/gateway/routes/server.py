"""Routes about the server itself: its version, health, cache and counters."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from msgspec import to_builtins
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from orchard import __version__
from orchard.config import MEMORY_DATABASE
from orchard.core.cache_report import CacheState
from orchard.core.errors import OrchardError
from orchard.gateway.caller import Caller, Callers
from orchard.gateway.metrics import stats as metrics_stats
from orchard.gateway.metrics.counters import WINDOW_SECONDS
from orchard.gateway.recent_logs import RECENT
from orchard.gateway.routes import console, docs
from orchard.gateway.routes.app_state import AppState

# Some of Ollama's clients look for this text.
_OLLAMA = "Ollama is running"

_Window = Annotated[int | None, Query(ge=1, le=WINDOW_SECONDS)]
_LogLimit = Annotated[int, Query(ge=1, le=1000)]
_LogLevel = Literal["info", "warning", "error", "critical"]


def add_server_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
    _add_root_routes(routes, site)
    _add_health_routes(routes, site)
    _add_cache_routes(routes, site)
    _add_metrics_routes(routes, site)
    _add_settings_routes(routes, site)
    _add_log_routes(routes)


def _add_root_routes(routes: APIRouter, site: AppState) -> None:
    has_console = site.settings.console
    if has_console:
        console.add_console_routes(routes)

    @routes.get("/", response_model=dict[str, str])
    def root(http: Request) -> Response:  # in a thread, because it may read a file
        """Say what this server is, and where to read more; browsers get the console.

        At the second port (`also_port`), say what Ollama says.
        """
        if _is_at_second_port(site, http):
            return PlainTextResponse(_OLLAMA)
        if has_console and "text/html" in http.headers.get("accept", ""):
            return console.file_response(http, "index.html")
        about = {"name": "Orchard", "version": __version__, "docs": "/docs", "openapi": "/openapi.json"}
        return JSONResponse(about, headers={"vary": "Accept"})

    @routes.head("/", include_in_schema=False)
    async def root_head(http: Request) -> Response:
        return PlainTextResponse(_OLLAMA) if _is_at_second_port(site, http) else Response()

    @routes.get("/docs", include_in_schema=False)
    async def show_docs(http: Request) -> HTMLResponse:
        return HTMLResponse(docs.docs_page(http.app.openapi()), headers={"content-security-policy": docs.POLICY})


def _add_health_routes(routes: APIRouter, site: AppState) -> None:
    @routes.get("/health")
    async def health(http: Request) -> dict[str, Any]:
        """Say that the server is up, and for each model: unloaded, queued, loading, ready, unloading or failed.

        `loaded_model` and `loaded_adapter` are the model in memory that was used last, or null. `percent` is how
        much of a model is loaded, or how much of its requests is done, if it reports that; `reason` is why a model
        failed, `restarts` how often its process died. `memory` says, in bytes, what the device has, what is free, what
        other programs use, what all models together may take at most (`limit_bytes`) and now (`budget_bytes`), and why
        it isn't more; a model's `memory` is what it holds. `responses` says where responses and conversations
        are stored: in a `file`, or in `memory`, until the server stops.
        If the server needs keys, a caller without one gets only the status.
        """
        if not http.state.caller.known:
            return {"status": "healthy"}
        pool = site.pool
        ready = [model for model in pool.models.values() if model.state.shown == "ready"]
        loaded = max(ready, key=lambda model: model.last_used, default=None)
        return {
            "status": "healthy",
            "version": __version__,
            "loaded_model": (loaded.entry.base or loaded.entry.id) if loaded else None,
            "loaded_adapter": site.adapter_of(loaded.entry) if loaded else None,
            "memory": pool.memory_status.as_json(),
            "responses": "memory" if site.settings.responses_path == MEMORY_DATABASE else "file",
            "models": {name: model.status.health_report() for name, model in pool.models.items()},
        }

    @routes.get("/ready")
    async def ready() -> Response:
        """Return 200 while all models that are loaded at startup are ready, else 503."""
        is_ready = site.pool.is_ready
        return JSONResponse({"status": "ready" if is_ready else "not_ready"}, 200 if is_ready else 503)


def _add_cache_routes(routes: APIRouter, site: AppState) -> None:
    @routes.get("/v1/cache")
    async def cache(http: Request, request_id: str | None = None) -> dict[str, Any]:
        """Report what each model's prompt cache has, and how much of the last requests, or of one request, was cached.

        If the server needs keys, callers get only their own requests, without cached text, which may be others'; admin
        keys get everything.
        """
        names = list(site.pool.models)
        found = await asyncio.gather(*(model.read_cache(request_id) for model in site.pool.models.values()))
        states = [_visible_state(site.callers, http.state.caller, state) for state in found]
        if request_id is None:
            entries = [{"model": name, **to_builtins(state)} for name, state in zip(names, states, strict=True)]
            return {"object": "cache", "models": entries}
        for name, state in zip(names, states, strict=True):
            for report in state.reports:
                return {"object": "cache.report", "model": name, **to_builtins(report)}
        message = f"no cache report for request '{request_id}': it is unknown, still waits, or is too old"
        raise OrchardError("request_not_found", message, param="request_id")


def _add_metrics_routes(routes: APIRouter, site: AppState) -> None:
    pool = site.pool

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics(http: Request) -> Response:
        """Return the metrics in Prometheus's text format, or in that of OpenMetrics if the request accepts it."""
        from orchard.gateway.metrics import exposition

        accept = http.headers.get("accept", "")
        body, content_type = exposition.render_metrics(pool.metrics, pool.statuses(), pool.memory_status, accept)
        return Response(body, headers={"content-type": content_type})

    @routes.get("/v1/stats")
    async def stats(window: _Window = None) -> dict[str, Any]:
        """Return the counters of the server: requests, tokens, times, memory, loads and crashes, for each model.

        With `window`, also what happened when in so many of the last seconds.
        """
        return metrics_stats.server_stats(pool.metrics, pool.statuses(), pool.memory_status, window)


def _add_settings_routes(routes: APIRouter, site: AppState) -> None:
    @routes.get("/v1/settings")
    async def settings(http: Request) -> dict[str, Any]:
        """List the server's settings, without secrets, and where each comes from.

        If the server needs keys, this takes an admin key.
        """
        http.state.caller.check_sees_server("the settings")
        return {"object": "list", "data": to_builtins(site.reports)}


def _add_log_routes(routes: APIRouter) -> None:
    @routes.get("/v1/logs")
    async def logs(
        http: Request, after: int | None = None, limit: _LogLimit = 100, level: _LogLevel = "info"
    ) -> dict[str, Any]:
        """Return the last lines of the log that are at least of a level, or the lines after the one with id `after`.

        There are no tracebacks, nothing of the level debug, and no text of requests. If the server needs keys, this
        takes an admin key.
        """
        http.state.caller.check_sees_server("the lines of the log")
        lines, more = RECENT.page(after, limit, level)
        return {"object": "list", "data": to_builtins(lines), "has_more": more}


def _is_at_second_port(site: AppState, http: Request) -> bool:
    _, port = http.scope["server"] or ("", None)
    return port is not None and port == site.settings.also_port != site.settings.port


def _visible_state(callers: Callers, caller: Caller, state: CacheState) -> CacheState:
    """Return the part of a state that a caller may read: nothing of other users' prompts."""
    own = [report for report in state.reports if callers.can_see_request(caller, report.request_id)]
    # If the server has keys, the most similar cached text may be another user's.
    sees_all = caller.admin or caller.user is None
    return replace(state, reports=own if sees_all else [report.without_cached_text() for report in own])
