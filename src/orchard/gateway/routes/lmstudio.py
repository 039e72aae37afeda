"""Version 0 of LM Studio's REST API: OpenAI's answers with statistics, and its own list of models."""

import time
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.tasks.embed import Embed
from orchard.core.tasks.generate import Generate, generate_task
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.lmstudio.models import LMStudioModel
from orchard.dialects.lmstudio.v0 import AddedFields, AddingEncoder, list_entry_v0
from orchard.dialects.openai.chat import parse as chat_parse
from orchard.dialects.openai.chat import schema as chat_schema
from orchard.dialects.openai.chat.encode import ChatEncoder
from orchard.dialects.openai.completions import parse as completions_parse
from orchard.dialects.openai.completions import schema as completions_schema
from orchard.dialects.openai.completions.encode import CompletionEncoder
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.replies.event_response import EventResponse
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import route_options
from orchard.kinds import KINDS

_OWNER = "orchard"


def add_lmstudio_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes, except that of embeddings, which is OpenAI's."""
    _add_list_routes(routes, site)

    @routes.post("/chat/completions", **route_options(chat_schema.BODY.schema()))
    async def lmstudio_chat(http: Request) -> Response:
        """Answer a conversation as Chat Completions does, with statistics."""
        begun_at, header = time.monotonic(), http.headers.get(PRIORITY_HEADER)
        body = await site.bodies.read(http)
        call = chat_parse.parse(body, http.state.id, header, default=site.pool.only_model())
        if call.stored:
            raise invalid_field("store", "must be false or left out here: /v1/chat/completions stores answers.")
        entry = site.pool.find(call.request.model, call.request.adapter).entry
        added = AddedFields(describe_lmstudio_model(site, entry, entry.id), generate_task(call.request), begun_at)
        if call.stream:
            return await site.answer(http, call.request, AddingEncoder(ChatEncoder(call), added))
        return await site.answer(http, call.request, lambda result: added.complete(call.complete(result), result))

    @routes.post("/completions", **route_options(completions_schema.BODY.schema()))
    async def lmstudio_completions(http: Request) -> Response:
        """Continue a text as Completions does, with statistics."""
        begun_at, header = time.monotonic(), http.headers.get(PRIORITY_HEADER)
        body = await site.bodies.read(http)
        call = completions_parse.parse(body, http.state.id, header, default=site.pool.only_model())
        first = call.requests[0]
        entry = site.pool.find(first.model, first.adapter).entry
        added = AddedFields(describe_lmstudio_model(site, entry, entry.id), generate_task(first), begun_at)
        stream = site.pool.stream(*map(http.state.caller.sign, call.requests))
        interval = site.settings.keep_alive_interval
        if call.stream:
            return EventResponse(stream, AddingEncoder(CompletionEncoder(call), added), interval)
        return EventResponse(stream, lambda result: added.complete(call.complete(result), result), interval)


def _add_list_routes(routes: APIRouter, site: AppState) -> None:
    @routes.get("/models")
    async def lmstudio_models() -> dict[str, Any]:
        """List the models that give text or embeddings."""
        data = [list_entry_v0(model) for model in await list_lmstudio_models(site)]
        return {"object": "list", "data": data}

    @routes.get("/models/{model_id:path}")
    async def lmstudio_model(model_id: str) -> dict[str, Any]:
        """Describe a model by its id, which may contain slashes, or by another name that requests may use."""
        return list_entry_v0(describe_lmstudio_model(site, site.pool.registry.find_local(model_id), model_id))


async def list_lmstudio_models(site: AppState) -> list[LMStudioModel]:
    """Return the models on this machine that give text or embeddings, once under each of their names."""
    entries = site.pool.visible_entries(await run_in_threadpool(site.pool.registry.list_models))
    served = [entry for entry in entries if entry.serves(Generate) or entry.serves(Embed)]
    return [describe_lmstudio_model(site, entry, name) for entry in served for name in (entry.id, *entry.aliases)]


def describe_lmstudio_model(site: AppState, entry: ModelEntry, name: str) -> LMStudioModel:
    """Return what is known of a model under one of its names."""
    model, kind = site.pool.models.get(entry.id), KINDS[entry.kind]
    return LMStudioModel(
        name=name,
        kind=kind.listed_type or kind.output,
        publisher=entry.repo.partition("/")[0] if entry.repo and "/" in entry.repo else _OWNER,
        architecture=entry.architecture,
        quantization=entry.quantization,
        size_bytes=entry.size_bytes,
        parameters=entry.parameters,
        context_window=entry.context_window,
        capabilities=model.status.usable_capabilities(entry.capabilities) if model else entry.capabilities,
        instance=entry.id if model is not None and model.state.shown == "ready" else None,
    )
