"""OpenAI's Chat Completions."""

from typing import get_args

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.request import Priority
from orchard.dialects import openai_chat
from orchard.gateway.routes.site import Site


def add(app: FastAPI, site: Site) -> None:
    """Add the routes."""
    body = {"required": True, "content": {"application/json": {"schema": openai_chat.body_schema()}}}
    priority = {"name": openai_chat.PRIORITY_HEADER, "in": "header", "schema": {"enum": get_args(Priority)}}
    extra = {"requestBody": body, "parameters": [priority]}

    @app.post("/v1/chat/completions", tags=["OpenAI"], openapi_extra=extra, response_class=Response)
    async def chat_completions(http: Request) -> Response:
        """Answer a conversation: https://platform.openai.com/docs/api-reference/chat."""
        header = http.headers.get(openai_chat.PRIORITY_HEADER)
        call = openai_chat.parse(await site.bodies.read(http), http.state.id, header)
        return site.answer(call.request, call.encoder() if call.stream else call.complete)
