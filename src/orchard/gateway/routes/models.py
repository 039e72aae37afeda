"""OpenAI's Models."""

from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.registry import ModelEntry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app_state import AppState

_OWNER = "orchard"


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.get("/models")
    async def list_models() -> dict[str, Any]:
        """List the models that are here: what each can do, and whether it is loaded."""
        entries = site.pool.listed(await run_in_threadpool(site.pool.registry.all))
        return {"object": "list", "data": [describe(site.pool, entry, entry.id) for entry in entries]}

    @routes.get("/models/{model_id:path}")
    async def get_model(model_id: str) -> dict[str, Any]:
        """Describe one model, by its id, which may hold slashes, or by another name that requests may have for it."""
        if not model_id:  # the list's address with a slash at its end
            raise HTTPException(404)
        return describe(site.pool, site.pool.registry.known(model_id), model_id)


def describe(pool: Pool, entry: ModelEntry, name: str) -> dict[str, Any]:
    """Return a model by the name that was asked for; `root` is its id."""
    model = pool.models.get(entry.id)
    now = model.status if model else ModelStatus(state="unloaded")
    state = now.state if model or entry.path else "not_downloaded"
    return {
        "id": name,
        "object": "model",
        "created": entry.created,
        "owned_by": entry.repo.partition("/")[0] if entry.repo and "/" in entry.repo else _OWNER,
        "root": entry.id,
        "base": entry.base,
        "aliases": entry.aliases,
        "kind": entry.kind,
        "context_window": entry.context_window,
        "size_bytes": entry.size_bytes,
        "capabilities": entry.capabilities,
        "loaded": state == "ready",
        "state": state,
        "reason": now.reason,
        "batching": None,
        **now.details,
    }
