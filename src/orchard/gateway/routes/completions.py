"""OpenAI's Completions, which continue raw texts."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.completions.encode import CompletionEncoder
from orchard.dialects.openai.completions.parse import parse
from orchard.dialects.openai.completions.schema import BODY
from orchard.gateway.replies.event_response import EventResponse
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import route_options


def add_completions_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/completions", **route_options(BODY.schema()))
    async def completions(http: Request) -> Response:
        """Continue a text: https://platform.openai.com/docs/api-reference/completions."""
        return await answer_completion(site, http)


async def answer_completion(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body."""
    header = http.headers.get(PRIORITY_HEADER)
    body = await site.bodies.read(http)
    call = parse(body, http.state.id, header, model=model, default=site.pool.only_model())
    stream = site.pool.stream(*map(http.state.caller.sign, call.requests))  # as one, the choices one after the other
    keep_alive = site.settings.keep_alive_interval
    return EventResponse(stream, CompletionEncoder(call) if call.stream else call.complete, keep_alive)
