"""What the server counts of its work: for Prometheus, and for people and scripts."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from orchard.gateway.metrics import stats as metrics_stats
from orchard.gateway.routes.app_state import AppState


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
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
