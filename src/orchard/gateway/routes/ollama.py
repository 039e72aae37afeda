"""Ollama's API: answers, and the models that give them."""

from typing import Any, TypeVar

from fastapi import APIRouter
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchard import __version__
from orchard.core.errors import OrchardError
from orchard.core.request import Task
from orchard.core.tasks.embed import Embed
from orchard.core.tasks.generate import Generate
from orchard.dialects.ollama import embed
from orchard.dialects.ollama.chat import parse as chat_parse
from orchard.dialects.ollama.chat import schema as chat_schema
from orchard.dialects.ollama.chat.encode import OllamaChatCall, OllamaChatEncoder
from orchard.dialects.ollama.generate import parse as generate_parse
from orchard.dialects.ollama.generate import schema as generate_schema
from orchard.dialects.ollama.generate.encode import GenerateCall, GenerateEncoder
from orchard.dialects.ollama.models import VERSION, OllamaModel, parse_name
from orchard.dialects.ollama.names import plain_name
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.replies.warnings import warn
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import LINES, TEXT, object_schema, route_options

# The schema of its errors, for the OpenAPI document.
ERROR = object_schema(error=TEXT)
_ANSWERS: dict[type[Task], str] = {Generate: "text", Embed: "embeddings"}

OllamaCallT = TypeVar("OllamaCallT", bound=OllamaChatCall | GenerateCall | embed.EmbedCall)


def add_ollama_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes of answers and of lists."""
    _add_answer_routes(routes, site)
    _add_embedding_routes(routes, site)
    _add_list_routes(routes, site)


def _add_answer_routes(routes: APIRouter, site: AppState) -> None:
    @routes.post("/chat", **route_options(chat_schema.BODY.schema(), parameters=(), answer=LINES))
    async def ollama_chat(http: Request) -> Response:
        """Answer a conversation: https://docs.ollama.com/api/chat. Without messages, load or unload the model."""
        call = chat_parse.parse(await read_body(site, http), http.state.id, default=site.pool.only_model())
        return await _answer_text(site, http, call)

    @routes.post("/generate", **route_options(generate_schema.BODY.schema(), parameters=(), answer=LINES))
    async def ollama_generate(http: Request) -> Response:
        """Answer a prompt: https://docs.ollama.com/api/generate. Without a prompt, load or unload the model."""
        call = generate_parse.parse(await read_body(site, http), http.state.id, default=site.pool.only_model())
        return await _answer_text(site, http, call)


def _add_embedding_routes(routes: APIRouter, site: AppState) -> None:
    @routes.post("/embed", **route_options(embed.EMBED_BODY.schema(), parameters=()))
    async def ollama_embed(http: Request) -> Response:
        """Make embeddings of texts: https://docs.ollama.com/api/embed."""
        call = embed.parse(await read_body(site, http), http.state.id, default=site.pool.only_model(Embed))
        return await _answer_embedding(site, http, call)

    @routes.post("/embeddings", **route_options(embed.OLD_EMBED_BODY.schema(), parameters=()))
    async def ollama_embeddings(http: Request) -> Response:
        """Make the embedding of one text; `/api/embed` has taken the place of this."""
        call = embed.parse_old(await read_body(site, http), http.state.id, default=site.pool.only_model(Embed))
        return await _answer_embedding(site, http, call)


def _add_list_routes(routes: APIRouter, site: AppState) -> None:
    @routes.get("/version")
    async def ollama_version() -> dict[str, str]:
        """Return the version of Ollama whose API this is, and Orchard's."""
        return {"version": VERSION, "orchard": __version__}

    @routes.get("/tags")
    async def ollama_tags() -> dict[str, Any]:
        """List the models that give text or embeddings: https://docs.ollama.com/api/tags."""
        entries = site.pool.visible_entries(await run_in_threadpool(site.pool.registry.list_models))
        served = [(entry, name) for entry in entries for name in (entry.id, *entry.aliases) if _abilities(site, entry)]
        return {"models": [_ollama_model(site, entry, name).list_entry() for entry, name in served]}

    @routes.get("/ps")
    async def ollama_ps() -> dict[str, Any]:
        """List the models in memory: https://docs.ollama.com/api/ps."""
        running = []
        for model in site.pool.models.values():
            now = model.status
            if now.state == "ready" and _abilities(site, model.entry):
                size = now.mlx_bytes or model.weights_bytes
                on_gpu = 0 if now.processor == "cpu" else size
                shown = _ollama_model(site, model.entry, model.entry.id).process_entry(size, on_gpu, now.unload_at)
                running.append(shown)
        return {"models": running}

    @routes.post("/show", **route_options(object_schema(model=TEXT), parameters=()))
    async def ollama_show(http: Request) -> Response:
        """Describe a model: https://docs.ollama.com/api/show."""
        name = parse_name(await read_body(site, http)).model_name
        entry = site.pool.registry.find_local(plain_name(name))
        model = _ollama_model(site, entry, name)
        shown = await run_in_threadpool(lambda: model.show_body(entry.chat_template, entry.generation_config))
        return JSONResponse(shown)

    for path in ("/version", "/tags"):
        routes.add_api_route(path, _head, methods=["HEAD"], include_in_schema=False)


async def read_body(site: AppState, http: Request) -> bytes:
    """Return the body; all of Ollama's own examples send it with curl's content type, that of a form."""
    return await site.bodies.read(http, takes_any_type=True)


async def _head() -> Response:
    return Response()


async def _answer_text(site: AppState, http: Request, call: OllamaChatCall | GenerateCall) -> Response:
    if call.only_loads:
        return await _load_or_unload(site, http, call)
    if call.thinks:
        entry = site.pool.find(call.request.model).entry
        if entry.path and "thinking" not in entry.capabilities:
            raise OrchardError("invalid_request", f"`think`: model '{call.model}' does not think.", param="think")
    call = _settle_keep_alive(site, http, call)
    if not call.stream:
        return await site.answer(http, call.request, call.complete)
    encoder = OllamaChatEncoder(call) if isinstance(call, OllamaChatCall) else GenerateEncoder(call)
    return await site.answer(http, call.request, encoder)


async def _answer_embedding(site: AppState, http: Request, call: embed.EmbedCall) -> Response:
    if call.only_loads:
        return await _load_or_unload(site, http, call)
    call = _settle_keep_alive(site, http, call)
    return await site.answer(http, call.request, call.complete)


def _settle_keep_alive(site: AppState, http: Request, call: OllamaCallT) -> OllamaCallT:
    """Return a call without `keep_alive` if it has no effect, and warn of that."""
    if call.request.ttl is None:
        return call
    if not http.state.caller.manages:
        warn(http.scope, "keep_alive has no effect: it takes an admin key")
    elif site.pool.find(call.request.model).is_pinned:
        warn(http.scope, "keep_alive has no effect: the model is pinned")
    else:
        return call
    return replace(call, request=replace(call.request, ttl=None))


async def _load_or_unload(
    site: AppState, http: Request, call: OllamaChatCall | GenerateCall | embed.EmbedCall
) -> Response:
    http.state.caller.check_manages("loading or unloading a model")
    model, seconds = site.pool.find_exact(call.request.model), call.request.ttl
    if seconds == 0:
        if model.is_pinned:
            raise OrchardError("model_in_use", f"model '{call.model}' is pinned, so `keep_alive` does not unload it")
        await model.unload()
        return Response(call.report_load("unload"), media_type="application/json")
    await model.load()
    if seconds is not None and not model.is_pinned:
        model.keep_for(seconds)
    return Response(call.report_load("load"), media_type="application/json")


def _abilities(site: AppState, entry: ModelEntry) -> list[str]:
    """Return what a model gives of text and embeddings, and its capabilities; nothing if it gives neither."""
    gives = [name for task, name in _ANSWERS.items() if entry.serves(task)]
    model = site.pool.models.get(entry.id)
    able = model.status.usable_capabilities(entry.capabilities) if model else entry.capabilities
    return [*gives, *able] if gives else []


def _ollama_model(site: AppState, entry: ModelEntry, name: str) -> OllamaModel:
    return OllamaModel(
        name=name,
        size_bytes=entry.size_bytes,
        modified=entry.created,
        architecture=entry.architecture,
        quantization=entry.quantization,
        parameters=entry.parameters,
        context_window=entry.context_window,
        able=_abilities(site, entry),
    )
