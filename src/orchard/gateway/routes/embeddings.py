"""OpenAI's Embeddings."""

import logging
from weakref import WeakSet

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.tasks.embed import Embed
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.embeddings import BODY, parse
from orchard.gateway.pool.served_model import ServedModel
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import route_options

log = logging.getLogger("orchard.gateway")


def add_embeddings_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/embeddings", **route_options(BODY.schema()))
    async def embeddings(http: Request) -> Response:
        """Make embeddings of texts: https://platform.openai.com/docs/api-reference/embeddings."""
        return await answer_embeddings(site, http)


async def answer_embeddings(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body."""
    header = http.headers.get(PRIORITY_HEADER)
    body = await site.bodies.read(http)
    call = parse(body, http.state.id, header, model=model, default=site.pool.only_model(Embed))
    response = await site.answer(http, call.request, call.complete)
    if call.has_tokens:
        _warn_of_tokens(site.pool.find(call.request.model), site.embeds_tokens)
    return response


def _warn_of_tokens(model: ServedModel, warned: WeakSet[ServedModel]) -> None:
    """Say once for each model that token ids came: those of another tokenizer give wrong vectors without an error."""
    if model in warned:
        return
    warned.add(model)
    log.warning(
        "a client sends token ids to embed to model '%s', not text: they must be from the model's own tokenizer. "
        "LangChain's OpenAIEmbeddings sends another tokenizer's, unless it has check_embedding_ctx_length=False",
        model.entry.id,
    )
