"""OpenAI's Transcriptions and Translations: forms with a recording."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.tasks.transcribe import Transcribe
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.transcriptions.encode import TranscriptionEncoder
from orchard.dialects.openai.transcriptions.parse import parse
from orchard.dialects.openai.transcriptions.schema import BODY
from orchard.gateway.media.uploads import FileFields
from orchard.gateway.replies.held_response import HeldResponse
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import route_options

_FIELD_BYTES = 16 * 2**20  # of which `known_speaker_references` take the most
_FILE = {"file": {"type": "string", "format": "binary", "description": "The recording."}}


def add_transcriptions_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/audio/transcriptions", **transcription_route_options())
    async def transcriptions(http: Request) -> Response:
        """Transcribe a recording: https://platform.openai.com/docs/api-reference/audio."""
        return await answer_transcription(site, http)

    @routes.post("/audio/translations", **transcription_route_options())
    async def translations(http: Request) -> Response:
        """Translate a recording into English text."""
        return await answer_transcription(site, http, translate=True)


def add_deployment_transcriptions_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes of an Azure deployment, which the prefix names."""

    @routes.post("/audio/transcriptions", **transcription_route_options(deployment=True))
    async def deployment_transcriptions(http: Request, deployment: str) -> Response:
        """Transcribe a recording, with the model that the deployment names."""
        return await answer_transcription(site, http, deployment)

    @routes.post("/audio/translations", **transcription_route_options(deployment=True))
    async def deployment_translations(http: Request, deployment: str) -> Response:
        """Translate a recording into English text, with the model that the deployment names."""
        return await answer_transcription(site, http, deployment, translate=True)


async def answer_transcription(
    site: AppState, http: Request, model: str | None = None, *, translate: bool = False
) -> Response:
    """Answer a request. `model` overrides the model of the form. Raise OrchardError."""
    files = FileFields("audio", {"file": 1}, site.settings.max_upload_bytes, _FIELD_BYTES)
    form = await site.uploads.read(http, files)
    try:
        call = parse(
            form.fields,
            form.files,
            http.state.id,
            http.headers.get(PRIORITY_HEADER),
            translate=translate,
            model=model,
            default=site.pool.only_model(Transcribe),
        )
        answered = TranscriptionEncoder(call) if call.stream else call.complete
        return HeldResponse(await site.answer(http, call.request, answered, call.media_type), form.close)
    except BaseException:
        form.close()
        raise


def transcription_route_options(*, deployment: bool = False) -> dict[str, Any]:
    """Return the arguments that describe a route with the form."""
    body = BODY.schema(deployment=deployment)
    return route_options(form={**body, "required": ["file"], "properties": {**_FILE, **body["properties"]}})
