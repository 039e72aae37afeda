"""OpenAI's Completions: texts that are continued as they are."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.openai.completions import encode as openai_completions
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import generation


def add(app: FastAPI, site: AppState, prefix: str = "/v1") -> None:
    """Add the routes."""
    described = generation(openai_completions.body_schema())

    @app.post(f"{prefix}/completions", tags=["OpenAI"], include_in_schema=prefix == "/v1", **described)
    async def completions(http: Request) -> Response:
        """Continue a text: https://platform.openai.com/docs/api-reference/completions."""
        return await answer(site, http)


async def answer(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request; `model` is asked for whatever the body says."""
    header = http.headers.get(openai_completions.PRIORITY_HEADER)
    body = await site.bodies.read(http)
    call = openai_completions.parse(body, http.state.id, header, model=model, default=site.pool.only())
    return site.answer_all(call.requests, call.encoder() if call.stream else call.complete)
