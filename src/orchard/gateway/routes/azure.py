"""Azure OpenAI: OpenAI's dialects at Azure's URLs, where a deployment may name the model.

Bodies and responses are the same; errors have Azure's codes.
"""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.common.fields import BodyType
from orchard.dialects.openai.chat.schema import BODY as CHAT_BODY
from orchard.dialects.openai.completions.schema import BODY as COMPLETIONS_BODY
from orchard.dialects.openai.embeddings import BODY as EMBEDDINGS_BODY
from orchard.dialects.openai.responses.schema import BODY as RESPONSES_BODY
from orchard.dialects.openai.speech import BODY as SPEECH_BODY
from orchard.gateway.routes import chat, completions, embeddings, responses, speech
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import SOUND, generation

_VERSION = {"name": "api-version", "in": "query", "schema": {"type": "string"}, "description": "Any is taken."}


def add(routes: APIRouter, site: AppState) -> None:
    """Add the routes of a deployment, which the prefix names."""

    @routes.post("/chat/completions", **_described(CHAT_BODY))
    async def deployment_chat(http: Request, deployment: str) -> Response:
        """Answer a conversation with the model that the deployment names."""
        return await chat.answer(site, http, deployment)

    @routes.post("/completions", **_described(COMPLETIONS_BODY))
    async def deployment_completions(http: Request, deployment: str) -> Response:
        """Continue a text with the model that the deployment names."""
        return await completions.answer(site, http, deployment)

    @routes.post("/embeddings", **_described(EMBEDDINGS_BODY))
    async def deployment_embeddings(http: Request, deployment: str) -> Response:
        """Make embeddings with the model that the deployment names."""
        return await embeddings.answer(site, http, deployment)

    @routes.post("/audio/speech", **_described(SPEECH_BODY, answer=SOUND))
    async def deployment_speech(http: Request, deployment: str) -> Response:
        """Speak a text with the model that the deployment names."""
        return await speech.answer(site, http, deployment)


def add_responses(routes: APIRouter, site: AppState) -> None:
    """Add the route of a deployment's responses."""

    @routes.post("/responses", **_described(RESPONSES_BODY))
    async def deployment_responses(http: Request, deployment: str) -> Response:
        """Create a response with the model that the deployment names, and store it."""
        return await responses.answer(site, http, deployment)


def _described(body: BodyType[Any], **more: Any) -> dict[str, Any]:
    return generation(body.schema(deployment=True), parameters=(_VERSION,), **more)
