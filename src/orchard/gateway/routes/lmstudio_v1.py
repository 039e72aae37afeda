"""Version 1 of LM Studio's REST API: stateful chats, models, loads and downloads."""

import time
from typing import Any

import msgspec
from fastapi import APIRouter
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchard.core.errors import OrchardError
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.lmstudio.chat.encode import ChatProgress, LMStudioChatEncoder
from orchard.dialects.lmstudio.chat.parse import parse
from orchard.dialects.lmstudio.chat.schema import BODY
from orchard.dialects.lmstudio.models import (
    ALREADY_DOWNLOADED,
    DownloadJob,
    job_id,
    parse_download,
    parse_load,
    parse_unload,
)
from orchard.dialects.openai.responses import parse as responses_parse
from orchard.gateway.replies.warnings import warn
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.disconnect import cancel_on_disconnect
from orchard.gateway.routes.lmstudio import describe_lmstudio_model, list_lmstudio_models
from orchard.gateway.routes.models import check_may_download
from orchard.gateway.routes.openapi import TEXT, object_schema, route_options

# The schema of its errors, for the OpenAPI document.
LMSTUDIO_ERROR = object_schema(error=object_schema(type=TEXT, message=TEXT, code=TEXT))
_WHAT = "loading or unloading a model"


def add_lmstudio_v1_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
    _add_load_routes(routes, site)
    _add_download_routes(routes, site)

    @routes.post("/chat", **route_options(BODY.schema()))
    async def lmstudio_stateful_chat(http: Request) -> Response:
        """Answer in a stored conversation: https://lmstudio.ai/docs/developer/rest/chat."""
        begun_at, caller = time.monotonic(), http.state.caller
        chat = parse(await site.bodies.read(http), default=site.pool.only_model())
        draft = responses_parse.parse(chat.response_body)
        if chat.keeps_instructions and draft.body.previous_response_id:
            before = msgspec.json.decode(await site.responses.load(caller, draft.body.previous_response_id))
            draft.body.instructions = before["instructions"]
        header = http.headers.get(PRIORITY_HEADER)
        call = await cancel_on_disconnect(http, site.responses.prepare(caller, draft, http.state.id, header))
        model = site.pool.find(call.request.model)
        if chat.thinks and model.entry.path and "thinking" not in model.entry.capabilities:
            raise invalid_field("reasoning", f"must be 'off' or left out: model '{model.entry.id}' does not think.")
        is_loaded = model.state.shown == "ready"

        async def prompt_share() -> float | None:
            live = next((one for one in await model.live_requests() if one.id == call.request.id), None)
            return (live.read_tokens or 0) / live.prompt_tokens if live and live.prompt_tokens else None

        progress = ChatProgress(
            load_seconds=None if is_loaded else lambda: model.load_seconds,
            load_share=lambda: model.status.progress if model.state.shown == "loading" else None,
            prompt_share=prompt_share,
        )

        def begin_form() -> LMStudioChatEncoder:
            return LMStudioChatEncoder(model.entry.id, begun_at, progress)

        call = replace(call, request=chat.limit(call.request))
        return await site.responses.answer(caller, call, begin_form)

    @routes.get("/models")
    async def lmstudio_v1_models() -> dict[str, Any]:
        """List the models that give text or embeddings: https://lmstudio.ai/docs/developer/rest/list."""
        return {"models": [model.list_entry() for model in await list_lmstudio_models(site)]}


def _add_load_routes(routes: APIRouter, site: AppState) -> None:
    @routes.post("/models/load", **route_options(object_schema(model=TEXT), parameters=()))
    async def lmstudio_load(http: Request) -> Response:
        """Load a model, and wait until it is ready: https://lmstudio.ai/docs/developer/rest/load."""
        http.state.caller.check_manages(_WHAT)
        body, begun_at = parse_load(await site.bodies.read(http)), time.monotonic()
        model = site.pool.find_exact(body.model)
        window = model.entry.context_window
        if body.context_length and window and body.context_length > window:
            raise invalid_field("context_length", f"must be at most {window}, the model's context window.")
        if body.context_length and body.context_length != window:
            warn(http.scope, "context_length has no effect on a load: requests have the model's whole context window")
        await model.load()
        seconds = time.monotonic() - begun_at
        loaded = replace(describe_lmstudio_model(site, model.entry, model.entry.id), instance=model.entry.id)
        return JSONResponse(loaded.describe_load(seconds, echo_config=bool(body.echo_load_config)))

    @routes.post("/models/unload", **route_options(object_schema(instance_id=TEXT), parameters=()))
    async def lmstudio_unload(http: Request) -> Response:
        """Unload a model once its requests have ended: https://lmstudio.ai/docs/developer/rest/unload."""
        http.state.caller.check_manages(_WHAT)
        instance = parse_unload(await site.bodies.read(http)).instance_id
        model = site.pool.find_exact(instance)
        if model.is_pinned:
            raise OrchardError("model_in_use", f"model '{instance}' is pinned, so it is not unloaded")
        if not await model.unload():
            raise OrchardError("model_not_found", f"model '{instance}' is not loaded", param="instance_id")
        return JSONResponse({"instance_id": instance})


def _add_download_routes(routes: APIRouter, site: AppState) -> None:
    downloads = site.pool.registry.downloads

    def jobs() -> list[DownloadJob]:
        return [
            DownloadJob(
                repo=repo,
                revision=revision,
                status=state.status,
                downloaded_bytes=state.downloaded_bytes,
                total_bytes=state.total_bytes,
                begun_at=state.asked_at,
                ended_at=state.ended_at,
            )
            for (repo, revision), state in downloads.states().items()
        ]

    def describe_job(id_: str) -> dict[str, Any]:
        for job in jobs():
            if job.id == id_:
                return job.describe()
        raise OrchardError("request_not_found", f"no download has the id '{id_}'", param="job_id")

    @routes.post("/models/download", **route_options(object_schema(model=TEXT), parameters=()))
    async def lmstudio_download(http: Request) -> Response:
        """Begin to download a model from the Hugging Face Hub: https://lmstudio.ai/docs/developer/rest/download."""
        check_may_download(http, site, "orchard pull NAME")
        entry = site.pool.registry.find_exact(parse_download(await site.bodies.read(http)))
        if entry.path or not entry.repo:
            return JSONResponse(ALREADY_DOWNLOADED)
        downloads.begin(entry.repo, entry.revision)
        return JSONResponse(describe_job(job_id(entry.repo, entry.revision)))

    @routes.get("/models/download/status/{job_id}")
    async def lmstudio_download_status(http: Request, job_id: str) -> dict[str, Any]:
        """Say how far a download is: https://lmstudio.ai/docs/developer/rest/download-status."""
        check_may_download(http, site, "orchard pull NAME")
        return describe_job(job_id)
