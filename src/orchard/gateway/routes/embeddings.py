"""OpenAI's Embeddings, which no model that is served can give: whoever asks is told so."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.openai import embeddings as openai_embeddings
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import generation


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/embeddings", **generation(openai_embeddings.BODY.schema(), parameters=()))
    async def embeddings(http: Request) -> Response:
        """Refuse to make embeddings, with the reason: the models here are text models."""
        return await answer(site, http)


async def answer(site: AppState, http: Request, model: str | None = None) -> Response:
    """Refuse a request; `model` is asked for whatever the body says. Raises OrchardError."""
    body = await site.bodies.read(http)
    wanted = openai_embeddings.BODY.decode(body).model_name if model is None else model
    raise openai_embeddings.refusal(site.pool.find(wanted).entry.id)
