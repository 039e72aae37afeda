"""OpenAI's Models."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from orchard.gateway.models.registry import ModelEntry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import errors

_OWNER = "orchard"


def add(app: FastAPI, site: AppState, prefix: str = "/v1") -> None:
    """Add the routes."""
    shown = prefix == "/v1"

    @app.get(f"{prefix}/models", tags=["OpenAI"], include_in_schema=shown, responses=errors())
    async def list_models() -> dict[str, Any]:
        """List the models that are here: what each can do, and whether it is loaded."""
        entries = site.pool.listed(await run_in_threadpool(site.pool.registry.all))
        return {"object": "list", "data": [describe(site.pool, entry, entry.id) for entry in entries]}

    @app.get(f"{prefix}/models/{{model_id:path}}", tags=["OpenAI"], include_in_schema=shown, responses=errors())
    async def get_model(model_id: str) -> dict[str, Any]:
        """Describe one model, by its id, which may hold slashes, or by another name that requests may have for it."""
        if not model_id:  # the list's address with a slash at its end
            raise HTTPException(404)
        return describe(site.pool, site.pool.registry.known(model_id), model_id)


def describe(pool: Pool, entry: ModelEntry, name: str) -> dict[str, Any]:
    """Return a model by the name that was asked for; `root` is its id."""
    state, reason, details = _state(pool, entry)
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
        "reason": reason,
        "batching": None,
        **details,
    }


def _state(pool: Pool, entry: ModelEntry) -> tuple[str, str | None, Mapping[str, str]]:
    """Return what a model is doing, why it can't be loaded, and what its service says of it once it is ready."""
    if model := pool.models.get(entry.id):
        now = model.status
        return now.state, now.reason, now.details
    return ("unloaded" if entry.path else "not_downloaded"), None, {}
