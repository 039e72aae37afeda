"""OpenAI's custom voices, and the consents that they need."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.errors import OrchardError
from orchard.dialects.common.fields import body_schema
from orchard.dialects.openai import voices as dialect
from orchard.dialects.openai.stored import DEFAULT_PAGE, MAX_PAGE, deletion_body, page_of_objects
from orchard.gateway.media.uploads import FileFields
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.disconnect import cancel_on_disconnect
from orchard.gateway.routes.openapi import route_options
from orchard.gateway.voices import MOST_SAMPLE_BYTES, KeptRecording

_FILE = {"type": "string", "format": "binary"}
_SAMPLE = FileFields("audio", {"audio_sample": 1}, MOST_SAMPLE_BYTES)
_CONSENT = FileFields("audio", {"recording": 1}, MOST_SAMPLE_BYTES)
_After = Annotated[str | None, Query(description="The id of the consent after which the list begins.")]
_Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


def add_voices_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
    _add_voice_routes(routes, site)
    _add_consent_routes(routes, site)


def _add_voice_routes(routes: APIRouter, site: AppState) -> None:
    @routes.post("/audio/voices", **_form_options(dialect.VoiceBody, "audio_sample"))
    async def create_voice(http: Request) -> Response:
        """Make a voice from a recording: https://platform.openai.com/docs/api-reference/audio/createVoice."""
        caller = http.state.caller
        form = await site.uploads.read(http, _SAMPLE)
        try:
            needed = site.settings.require_voice_consent
            body, sample = dialect.parse_voice(form.fields, form.files, needs_consent=needed)
            if body.consent:
                await run_in_threadpool(_check_consent, site, http, body.consent)
            about = {"name": body.name, "transcript": body.transcript or ""}
            adding = site.voices.add("voice", caller, sample.path, "audio_sample", **about)
            made = await cancel_on_disconnect(http, adding)
        finally:
            form.close()
        return _json_response(dialect.voice_fields(made.id, made.name, made.created_at))

    @routes.delete("/audio/voices/{voice_id}", response_class=Response)
    async def delete_voice(http: Request, voice_id: str) -> Response:
        """Delete a voice with its recording."""
        await run_in_threadpool(site.voices.delete, "voice", http.state.caller, voice_id)
        return Response(deletion_body(voice_id, "audio.voice.deleted"), media_type="application/json")


def _add_consent_routes(routes: APIRouter, site: AppState) -> None:
    one = "/audio/voice_consents/{consent_id}"

    @routes.post("/audio/voice_consents", **_form_options(dialect.ConsentBody, "recording"))
    async def create_voice_consent(http: Request) -> Response:
        """Keep the recording of a person's consent: https://platform.openai.com/docs/api-reference/audio."""
        form = await site.uploads.read(http, _CONSENT)
        try:
            body, recording = dialect.parse_consent(form.fields, form.files)
            about = {"name": body.name, "language": body.language}
            adding = site.voices.add("cons", http.state.caller, recording.path, "recording", **about)
            made = await cancel_on_disconnect(http, adding)
        finally:
            form.close()
        return _consent_response(made)

    @routes.get("/audio/voice_consents", response_class=Response)
    async def list_voice_consents(http: Request, after: _After = None, limit: _Limit = DEFAULT_PAGE) -> Response:
        """List the caller's consents, the newest first."""
        found = (await run_in_threadpool(site.voices.list, "cons", http.state.caller))[::-1]
        ids = [kept.id for kept in found]
        if after is not None and after not in ids:
            raise OrchardError("invalid_request", f"`after` names no consent: '{after[:100]}'", param="after")
        begin = 0 if after is None else ids.index(after) + 1
        page = [(kept.id, msgspec.json.encode(_consent_object(kept))) for kept in found[begin : begin + limit]]
        return Response(page_of_objects(page, begin + limit < len(found)), media_type="application/json")

    @routes.get(one, response_class=Response)
    async def get_voice_consent(http: Request, consent_id: str) -> Response:
        """Return a consent."""
        return _consent_response(await run_in_threadpool(site.voices.load, "cons", http.state.caller, consent_id))

    @routes.post(one, **route_options(body_schema(dialect.ConsentUpdate), parameters=()))
    async def rename_voice_consent(http: Request, consent_id: str) -> Response:
        """Give a consent another name."""
        name = dialect.parse_consent_update(await site.bodies.read(http))
        return _consent_response(
            await run_in_threadpool(site.voices.rename, "cons", http.state.caller, consent_id, name)
        )

    @routes.delete(one, response_class=Response)
    async def delete_voice_consent(http: Request, consent_id: str) -> Response:
        """Delete a consent with its recording; voices that were made with it stay."""
        await run_in_threadpool(site.voices.delete, "cons", http.state.caller, consent_id)
        return Response(deletion_body(consent_id, "audio.voice_consent"), media_type="application/json")


def _check_consent(site: AppState, http: Request, consent_id: str) -> None:
    try:
        site.voices.load("cons", http.state.caller, consent_id)
    except OrchardError as error:
        raise OrchardError("invalid_request", f"`consent`: {error.message}", param="consent") from None


def _form_options(body: type[Struct], file: str) -> dict[str, Any]:
    schema = body_schema(body)
    required = [*schema.get("required", ()), file]
    form = {**schema, "required": required, "properties": {file: _FILE, **schema["properties"]}}
    return route_options(form=form, parameters=())


def _consent_object(kept: KeptRecording) -> dict[str, Any]:
    return dialect.consent_fields(kept.id, kept.name, kept.language, kept.created_at)


def _consent_response(kept: KeptRecording) -> Response:
    return _json_response(_consent_object(kept))


def _json_response(fields: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(fields), media_type="application/json")
