"""The requests that have not ended: seeing them and cancelling them."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from orchard.core.errors import OrchardError
from orchard.gateway.routes.app_state import AppState


def add_requests_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.get("/v1/requests")
    async def list_requests(http: Request) -> dict[str, Any]:
        """List the requests that have not ended: their state, how much of the prompt is read, and their speed.

        If the server needs keys, callers see only their own; admin keys see all.
        """
        found = await asyncio.gather(*(model.live_requests() for model in site.pool.models.values()))
        shown = [live for lives in found for live in lives if http.state.caller.may_cancel(live.sender)]
        return {"object": "list", "data": [live.as_json() for live in shown]}

    @routes.delete("/v1/requests/{request_id}")
    async def cancel_request(http: Request, request_id: str) -> dict[str, Any]:
        """Cancel a request, with those that the server makes for it; its client gets an error."""
        caller = http.state.caller
        models = site.pool.models.values()
        if not sum(model.requests.cancel(request_id, caller.may_cancel) for model in models):
            raise OrchardError("request_not_found", f"no request '{request_id}' is under way here")
        return {"id": request_id, "object": "request", "cancelled": True}
