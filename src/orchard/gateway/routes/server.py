"""Routes about the server itself: its models, its health, what it has cached."""

import asyncio
import time
from typing import Any

from fastapi import FastAPI
from msgspec import to_builtins

from orchard import __version__
from orchard.core.errors import OrchardError
from orchard.gateway.registry import ModelEntry
from orchard.gateway.routes.site import Site


def add(app: FastAPI, site: Site) -> None:
    """Add the routes."""
    _add_models(app, site)
    _add_cache(app, site)


def _add_models(app: FastAPI, site: Site) -> None:
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
        return {"object": "list", "data": [describe(model.entry) for model in site.pool.models.values()]}

    @app.get("/v1/models/{model_id:path}", tags=["OpenAI"])
    async def get_model(model_id: str) -> dict[str, Any]:
        """Describe one model; its id may hold slashes."""
        return describe(site.pool.find(model_id).entry)

    @app.get("/health", tags=["Server"])
    async def health() -> dict[str, Any]:
        """Say that the server is up, and for each model: loading, ready, failed (with the reason) or stopped."""
        models = {name: model.health() for name, model in site.pool.models.items()}
        return {"status": "ok", "version": __version__, "models": models}


def _add_cache(app: FastAPI, site: Site) -> None:
    @app.get("/v1/cache", tags=["Server"])
    async def cache(request_id: str | None = None) -> dict[str, Any]:
        """Say what each model's prompt cache holds and how it served the last requests, or one of them."""
        names = list(site.pool.models)
        states = await asyncio.gather(*(model.cache(request_id) for model in site.pool.models.values()))
        if request_id is None:
            entries = [{"model": name, **to_builtins(state)} for name, state in zip(names, states, strict=True)]
            return {"object": "cache", "models": entries}
        for name, state in zip(names, states, strict=True):
            for report in state.reports:
                return {"object": "cache.report", "model": name, **to_builtins(report)}
        message = f"no cache report on request '{request_id}': it is unknown, waits still, or was long ago"
        raise OrchardError("request_not_found", message, param="request_id")
