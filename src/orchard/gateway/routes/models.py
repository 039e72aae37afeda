"""OpenAI's Models, and explicit loading and unloading."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from orchard.core.errors import OrchardError
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.download import DownloadState
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.hub_search import HubModel, search_hub_in_process
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.disconnect import cancel_on_disconnect
from orchard.kinds import KINDS

_OWNER = "orchard"
_SEARCHES_AT_ONCE = 2
_SEARCHES = 16
_Words = Annotated[str, Query(min_length=1, max_length=200, description="Words of a model's id, or its short name.")]


def add_models_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.get("/models")
    async def list_models() -> dict[str, Any]:
        """List the models on this machine: what each can do, whether it is loaded, and why others are not served."""
        entries = site.pool.visible_entries(await run_in_threadpool(site.pool.registry.list_models))
        refused = [{"id": name, "reason": reason} for name, reason in site.pool.registry.refused.items()]
        data = [describe_model(site.pool, entry, name) for entry in entries for name in (entry.id, *entry.aliases)]
        return {"object": "list", "data": data, "not_served": refused}

    @routes.get("/models/{model_id:path}")
    async def get_model(model_id: str) -> dict[str, Any]:
        """Describe a model by its id, which may contain slashes, or by another name that requests may use."""
        return describe_model(site.pool, site.pool.registry.find_local(model_id), model_id)


def add_load_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes that load, unload and pin models, which take an admin key if the server needs keys."""
    _add_pin_routes(routes, site)
    allowed = [Depends(_check_manages)]

    @routes.post("/unload", dependencies=allowed)
    async def unload_all() -> dict[str, Any]:
        """Unload every model that is not pinned once its requests have ended, and wait until their memory is free."""
        return _unload_report(site, await site.pool.unload_all())

    @routes.post("/v1/models/{model_id:path}/load", dependencies=allowed)
    async def load(model_id: str) -> dict[str, Any]:
        """Load a model, if there is room or can be made, and wait until it is ready; its id may contain slashes."""
        model = site.pool.find_exact(model_id)
        await model.load()
        return {"status": "success", "message": "Model loaded successfully", "model": model.entry.id}

    @routes.post("/v1/models/{model_id:path}/unload", dependencies=allowed)
    async def unload(model_id: str) -> dict[str, Any]:
        """Unload a model, also a pinned one, once its requests have ended, and wait until its memory is free."""
        model = site.pool.find_exact(model_id)
        return _unload_report(site, [model.entry.id] if await model.unload() else [])


def add_download_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes of downloads, which take an admin key if the server needs keys."""
    path, downloads = "/v1/models/{model_id:path}/download", site.pool.registry.downloads
    _add_search_route(routes, site)

    @routes.post(path)
    async def begin_download(http: Request, model_id: str) -> dict[str, Any]:
        """Begin to download a model from the Hugging Face Hub, or join its download, and say how far it is."""
        entry = _downloadable(http, model_id)
        if entry.repo and not entry.path:
            downloads.begin(entry.repo, entry.revision)
        return _download_report(entry)

    @routes.get(path)
    async def get_download(http: Request, model_id: str) -> dict[str, Any]:
        """Say how far the download of a model is, or how it ended."""
        return _download_report(_downloadable(http, model_id))

    @routes.delete(path)
    async def stop_download(http: Request, model_id: str) -> dict[str, Any]:
        """Stop the download of a model. The files that are complete are kept for the next one."""
        entry = _downloadable(http, model_id)
        await downloads.stop(entry.repo, entry.revision)
        return _download_report(entry)

    def _downloadable(http: Request, model_id: str) -> ModelEntry:
        check_may_download(http, site, f"orchard pull {model_id}")
        return site.pool.registry.find_exact(model_id)

    def _download_report(entry: ModelEntry) -> dict[str, Any]:
        state = downloads.state(entry.repo, entry.revision)
        if state is None and entry.path:
            state = DownloadState("done", entry.size_bytes, entry.size_bytes)
        if state is None:
            raise OrchardError("model_not_found", f"no download of '{entry.id}' has begun")
        return {
            "object": "model.download",
            "id": entry.id,
            "status": state.status,
            "downloaded_bytes": state.downloaded_bytes,
            "total_bytes": state.total_bytes,
            "error": state.error,
        }


def _add_search_route(routes: APIRouter, site: AppState) -> None:
    places = asyncio.Semaphore(_SEARCHES_AT_ONCE)
    searches = 0  # that run or wait

    async def search(words: str) -> list[HubModel]:
        nonlocal searches
        if searches >= _SEARCHES:
            raise OrchardError("overloaded", f"{_SEARCHES} searches of the Hub run or wait; try again later")
        searches += 1
        try:
            async with places:
                return await search_hub_in_process(words)
        finally:
            searches -= 1

    @routes.get("/v1/hub/models")
    async def search_hub(http: Request, query: _Words) -> dict[str, Any]:
        """Search the Hugging Face Hub for models in MLX's format, the most downloaded first."""
        check_may_download(http, site, f"orchard search {query}")
        found = await cancel_on_disconnect(http, search(query))
        here = {entry.repo for entry in await run_in_threadpool(site.pool.registry.list_models) if entry.path}
        data = [
            {
                "id": model.id,
                "object": "hub.model",
                "use": model.use,
                "size_bytes": model.size_bytes,
                "downloaded": model.id in here,
            }
            for model in found
        ]
        return {"object": "list", "data": data}


def check_may_download(http: Request, site: AppState, command: str) -> None:
    """Raise OrchardError (forbidden) if the server or the caller may not download; `command` does the same."""
    http.state.caller.check_manages("downloading a model")
    if not site.settings.allow_download:
        message = f"this server downloads no models: start it with --allow-download, or run '{command}'"
        raise OrchardError("forbidden", message)


def _add_pin_routes(routes: APIRouter, site: AppState) -> None:
    allowed = [Depends(_check_manages)]

    @routes.post("/v1/models/{model_id:path}/pin", dependencies=allowed)
    async def pin(model_id: str) -> dict[str, Any]:
        """Never unload a model to make room for another, until the server stops."""
        return _pin(model_id, pinned=True)

    @routes.post("/v1/models/{model_id:path}/unpin", dependencies=allowed)
    async def unpin(model_id: str) -> dict[str, Any]:
        """Let a model be unloaded to make room for another, also one that the configuration pins."""
        return _pin(model_id, pinned=False)

    def _pin(model_id: str, *, pinned: bool) -> dict[str, Any]:
        model = site.pool.find_exact(model_id)
        model.pin(pinned)
        return describe_model(site.pool, model.entry, model_id)


async def _check_manages(http: Request) -> None:  # FastAPI would run a plain function in a thread
    http.state.caller.check_manages("loading, unloading or pinning a model")


def _unload_report(site: AppState, ids: list[str]) -> dict[str, Any]:
    """Return mlx_vlm.server's response. A model with an adapter is a separate model here, whose id names both."""
    if not ids:
        return {"status": "no_model_loaded", "message": "No model is currently loaded"}
    first = site.pool.models[ids[0]].entry
    unloaded = {"model_name": first.base or first.id, "adapter_name": site.adapter_of(first), "models": ids}
    return {"status": "success", "message": "Model unloaded successfully", "unloaded": unloaded}


def describe_model(pool: Pool, entry: ModelEntry, name: str) -> dict[str, Any]:
    """Return the description of a model under the requested name; `root` is its id."""
    model = pool.models.get(entry.id)
    now = model.status if model else ModelStatus(state="unloaded")
    state = now.state if model or entry.path else "not_downloaded"
    kind, inputs = KINDS[entry.kind], KINDS[entry.kind].inputs
    if entry.kind == "vision" and isinstance(media := now.details.get("media"), list):
        inputs = ("text", *media)
    return {
        "id": name,
        "object": "model",
        "created": entry.created,
        "owned_by": entry.repo.partition("/")[0] if entry.repo and "/" in entry.repo else _OWNER,
        "root": entry.id,
        "base": entry.base,
        "aliases": entry.aliases,
        "kind": entry.kind,
        "type": kind.listed_type or kind.output,
        "architecture": {"input_modalities": inputs, "output_modalities": [kind.output]},
        "context_window": entry.context_window,
        "context_length": entry.context_window,
        "max_model_len": entry.context_window,
        "size_bytes": entry.size_bytes,
        "capabilities": now.usable_capabilities(entry.capabilities),
        "loaded": state == "ready",
        "state": state,
        "reason": now.reason,
        "pinned": now.pinned if model else entry.pinned,
        "unload_at": now.unload_at,
        "warming_up": False,
        "batching": None,
        "media": None,
        **now.details,
    }
