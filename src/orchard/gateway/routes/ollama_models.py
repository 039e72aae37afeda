"""Ollama's routes that download and delete models, and those of its API that are not served."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from orchard.core.errors import OrchardError
from orchard.dialects.ollama.errors import ollama_error_body
from orchard.dialects.ollama.models import parse_name, pull_progress
from orchard.dialects.ollama.names import plain_name
from orchard.dialects.ollama.output import LINE_TYPE, line
from orchard.gateway.models import sources
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.models import check_may_download
from orchard.gateway.routes.ollama import read_body
from orchard.gateway.routes.openapi import LINES, TEXT, object_schema, route_options

_REPORT_SECONDS = 0.5
_NAMED = object_schema(model=TEXT)
_SUCCESS = {"status": "success"}
_REFUSED = {
    ("POST", "/create"): "models are not made here: `orchard import` and mlx_lm.convert make them from others",
    ("POST", "/copy"): "models are not copied here: the setting `aliases` gives a model more names",
    ("POST", "/push"): "models are not uploaded here",
    ("HEAD", "/blobs/{digest}"): "",
    ("POST", "/blobs/{digest}"): "files of models are not taken here: `orchard import` reads those of this machine",
}


def add_ollama_model_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes, which take an admin key if the server needs keys."""
    registry = site.pool.registry

    @routes.post("/pull", **route_options(_NAMED, parameters=(), answer=LINES))
    async def ollama_pull(http: Request) -> Response:
        """Download a model from the Hugging Face Hub: https://docs.ollama.com/api/pull."""
        check_may_download(http, site, "orchard pull NAME")
        body = parse_name(await read_body(site, http))
        entry = registry.find_exact(plain_name(body.model_name))
        if body.stream is not False:
            return StreamingResponse(_pull(site, entry), media_type=LINE_TYPE)
        if entry.repo and not entry.path:
            await registry.fetch(entry)
        return Response(line(_SUCCESS), media_type="application/json")

    @routes.delete("/delete", **route_options(_NAMED, parameters=()))
    async def ollama_delete(http: Request) -> Response:
        """Delete a model that was downloaded or imported: https://docs.ollama.com/api/delete."""
        http.state.caller.check_manages("deleting a model")
        name = parse_name(await read_body(site, http)).model_name
        if not site.settings.allow_delete:
            message = f"this server deletes no models: start it with --allow-delete, or run 'orchard rm {name}'"
            raise OrchardError("forbidden", message)
        await _delete(site, plain_name(name))
        return Response()

    for (method, path), reason in _REFUSED.items():
        _add_refusal(routes, method, path, reason)


async def _pull(site: AppState, entry: ModelEntry) -> AsyncIterator[bytes]:
    """Yield lines about a download. It goes on if the client leaves, because clients that time out try again."""
    yield line({"status": "pulling manifest"})
    if entry.repo and not entry.path:
        downloads = site.pool.registry.downloads
        fetch = asyncio.create_task(site.pool.registry.fetch(entry))
        try:
            while not fetch.done():
                await asyncio.wait([fetch], timeout=_REPORT_SECONDS)
                state = downloads.state(entry.repo, entry.revision)
                if state and state.total_bytes:
                    yield line(pull_progress(entry.repo, state.downloaded_bytes, state.total_bytes))
            fetch.result()
        except OrchardError as error:
            yield line(dict(ollama_error_body(error)))
            return
        finally:
            fetch.cancel()
    yield line(_SUCCESS)


async def _delete(site: AppState, name: str) -> None:
    entry = site.pool.registry.find_exact(name)
    if not entry.path:
        raise OrchardError("model_not_found", f"model '{name}' is not on this machine", param="model")
    folder = await run_in_threadpool(_own_folder, entry)
    if entry.configured or folder is None:
        where = "the configuration names it" if entry.configured else "it is not in a folder that Orchard may change"
        raise OrchardError("forbidden", f"model '{name}' can't be deleted: {where}", param="model")
    model = site.pool.find_exact(entry.id)
    if model.is_pinned:
        raise OrchardError("model_in_use", f"model '{name}' can't be deleted: it is pinned", param="model")
    await model.unload()
    await run_in_threadpool(sources.delete_folder, folder)


def _own_folder(entry: ModelEntry) -> str | None:
    """Return the folder to delete for a model; None if the model of that name is elsewhere."""
    folder = sources.deletable_folder(entry.repo or entry.id)
    return folder if folder and Path(entry.path).resolve().is_relative_to(Path(folder).resolve()) else None


def _add_refusal(routes: APIRouter, method: str, path: str, reason: str) -> None:
    async def refuse(_: Request) -> Response:
        raise OrchardError("not_found" if method == "HEAD" else "invalid_request", reason)

    options: dict[str, Any] = {"methods": [method], "include_in_schema": False}
    routes.add_api_route(path, refuse, **options)
