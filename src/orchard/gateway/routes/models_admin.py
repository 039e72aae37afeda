"""Loading and unloading models by hand."""

from typing import Any

from fastapi import APIRouter

from orchard.gateway.routes.app_state import AppState


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/unload")
    async def unload_all() -> dict[str, Any]:
        """Unload every model that is not pinned, once its requests have ended; their memory is back then."""
        return _unloaded(site, await site.pool.unload_all())

    @routes.post("/v1/models/{model_id:path}/load")
    async def load(model_id: str) -> dict[str, Any]:
        """Load a model, where there is or can be room, and wait until it is ready; its id may hold slashes."""
        model = site.pool.named(model_id)
        await model.load()
        return {"status": "success", "message": "Model loaded successfully", "model": model.entry.id}

    @routes.post("/v1/models/{model_id:path}/unload")
    async def unload(model_id: str) -> dict[str, Any]:
        """Unload a model, also a pinned one, once its requests have ended; its memory is back then."""
        model = site.pool.named(model_id)
        return _unloaded(site, [model.entry.id] if await model.unload() else [])


def _unloaded(site: AppState, ids: list[str]) -> dict[str, Any]:
    """Say it as mlx_vlm.server does. A model with an adapter is a model of its own here: its id has both."""
    if not ids:
        return {"status": "no_model_loaded", "message": "No model is currently loaded"}
    first = site.pool.models[ids[0]].entry
    unloaded = {"model_name": first.base or first.id, "adapter_name": first.adapter, "models": ids}
    return {"status": "success", "message": "Model unloaded successfully", "unloaded": unloaded}
