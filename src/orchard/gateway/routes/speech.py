"""OpenAI's Speech, and the list of voices."""

from typing import Any

from fastapi import APIRouter
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import Speak
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.speech import BODY, parse, voice_list
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import SOUND, route_options


def add_speech_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/audio/speech", **route_options(BODY.schema(), answer=SOUND))
    async def speech(http: Request) -> Response:
        """Speak a text: https://platform.openai.com/docs/api-reference/audio/createSpeech."""
        return await answer_speech(site, http)

    @routes.get("/audio/voices")
    async def list_voices(http: Request, model: str | None = None) -> dict[str, Any]:
        """List the voices of all speech models on this machine, or of one model.

        A caller without a key sees only the names of voices: OpenAI's, and those of the configured models.
        """
        is_known = http.state.caller.known
        if not is_known and model is not None:
            raise OrchardError("unauthorized", "an API key is needed for the voices of one model", param="model")
        if model is not None:
            entries = [site.pool.find(model).entry]
            entries[0].check_task(Speak)
        elif is_known:
            entries = site.pool.visible_entries(await run_in_threadpool(site.pool.registry.list_models))
        else:
            entries = site.pool.registry.configured_models()
        found = [(entry.id, entry.voice_names) for entry in entries if entry.serves(Speak)]
        made = await run_in_threadpool(site.voices.list, "voice", http.state.caller) if is_known else []
        return voice_list(found, [(one.id, one.name, one.created_at) for one in made], is_known)


async def answer_speech(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body. Raise OrchardError."""
    body = await site.bodies.read(http)
    header = http.headers.get(PRIORITY_HEADER)
    call = parse(body, http.state.id, header, model=model, default=site.pool.only_model(Speak))
    task = call.request.task
    if isinstance(task, Speak) and (sample := await site.voices.find_sample(http.state.caller, task.voice)):
        call = replace(call, request=replace(call.request, task=replace(task, sample=sample)))
    return await site.answer(http, call.request, call.encoder())
