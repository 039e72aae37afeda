"""Reranking: documents by their relevance to a query."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.tasks.rerank import Rerank
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.rerank import BODY, parse
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import generation


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/rerank", **generation(BODY.schema()))
    async def rerank(http: Request) -> Response:
        """Order documents by their relevance to a query: https://docs.cohere.com/reference/rerank."""
        header = http.headers.get(PRIORITY_HEADER)
        call = parse(await site.bodies.read(http), http.state.id, header, default=site.pool.only(Rerank))
        return await site.answer(http, call.request, call.complete)
