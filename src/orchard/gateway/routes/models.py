"""OpenAI's Models."""

import time
from typing import Any

from fastapi import FastAPI

from orchard.gateway.registry import ModelEntry
from orchard.gateway.routes.openapi import errors
from orchard.gateway.routes.site import Site


def add(app: FastAPI, site: Site, prefix: str = "/v1") -> None:
    """Add the routes."""
    created = int(time.time())
    shown = prefix == "/v1"

    def describe(entry: ModelEntry) -> dict[str, Any]:
        return {
            "id": entry.id,
            "object": "model",
            "created": created,
            "owned_by": "orchard",
            "context_window": entry.context_window,
        }

    @app.get(f"{prefix}/models", tags=["OpenAI"], include_in_schema=shown, responses=errors())
    async def list_models() -> dict[str, Any]:
        """List the models that this server serves."""
        return {"object": "list", "data": [describe(model.entry) for model in site.pool.models.values()]}

    @app.get(f"{prefix}/models/{{model_id:path}}", tags=["OpenAI"], include_in_schema=shown, responses=errors())
    async def get_model(model_id: str) -> dict[str, Any]:
        """Describe one model; its id may hold slashes."""
        return describe(site.pool.find(model_id).entry)
