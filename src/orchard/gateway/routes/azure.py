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
from orchard.gateway.routes.openapi import SOUND, route_options

_VERSION = {"name": "api-version", "in": "query", "schema": {"type": "string"}, "description": "Any is taken."}


def add_deployment_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes of a deployment, which the prefix names."""

    @routes.post("/chat/completions", **_deployment_route_options(CHAT_BODY))
    async def deployment_chat(http: Request, deployment: str) -> Response:
        """Answer a conversation with the model that the deployment names."""
        return await chat.answer_chat(site, http, deployment)

    @routes.post("/completions", **_deployment_route_options(COMPLETIONS_BODY))
    async def deployment_completions(http: Request, deployment: str) -> Response:
        """Continue a text with the model that the deployment names."""
        return await completions.answer_completion(site, http, deployment)

    @routes.post("/embeddings", **_deployment_route_options(EMBEDDINGS_BODY))
    async def deployment_embeddings(http: Request, deployment: str) -> Response:
        """Make embeddings with the model that the deployment names."""
        return await embeddings.answer_embeddings(site, http, deployment)

    @routes.post("/audio/speech", **_deployment_route_options(SPEECH_BODY, answer=SOUND))
    async def deployment_speech(http: Request, deployment: str) -> Response:
        """Speak a text with the model that the deployment names."""
        return await speech.answer_speech(site, http, deployment)


def add_deployment_responses_routes(routes: APIRouter, site: AppState) -> None:
    """Add the route of a deployment's responses."""

    @routes.post("/responses", **_deployment_route_options(RESPONSES_BODY))
    async def deployment_responses(http: Request, deployment: str) -> Response:
        """Create a response with the model that the deployment names, and store it."""
        return await responses.answer_responses(site, http, deployment)


def _deployment_route_options(body: BodyType[Any], **more: Any) -> dict[str, Any]:
    return route_options(body.schema(deployment=True), parameters=(_VERSION,), **more)
