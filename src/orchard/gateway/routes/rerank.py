"""Reranking: documents by their relevance to a query, and vLLM's scores of pairs."""

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
        return await _answer(site, http)


def add_score(routes: APIRouter, site: AppState) -> None:
    """Add vLLM's route."""

    @routes.post("/score", **generation(BODY.schema()))
    async def score(http: Request) -> Response:
        """Score pairs of texts: https://docs.vllm.ai/en/latest/models/pooling_models/scoring."""
        return await _answer(site, http)


async def _answer(site: AppState, http: Request) -> Response:
    header = http.headers.get(PRIORITY_HEADER)
    version = "2" if http.url.path.startswith("/v2/") else "1"
    body = await site.bodies.read(http)
    call = parse(body, http.state.id, header, default=site.pool.only(Rerank), version=version)
    return await site.answer(http, call.request, call.complete)
