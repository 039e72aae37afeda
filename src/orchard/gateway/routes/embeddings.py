"""OpenAI's Embeddings."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.tasks.embed import Embed
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.embeddings import BODY, parse
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import generation


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/embeddings", **generation(BODY.schema()))
    async def embeddings(http: Request) -> Response:
        """Make embeddings of texts: https://platform.openai.com/docs/api-reference/embeddings."""
        return await answer(site, http)


async def answer(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body."""
    header = http.headers.get(PRIORITY_HEADER)
    body = await site.bodies.read(http)
    call = parse(body, http.state.id, header, model=model, default=site.pool.only(Embed))
    return await site.answer(http, call.request, call.complete)
