"""OpenAI's Chat Completions."""

import re
from typing import Annotated, Any

from fastapi import FastAPI, Query
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.common.fields import PRIORITY_HEADER, schema
from orchard.dialects.openai import stored
from orchard.dialects.openai.chat.parse import parse
from orchard.dialects.openai.chat.schema import BODY
from orchard.dialects.openai.chat.stored import parse_asked
from orchard.gateway.responses.stored_chat import StoredChat
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import errors, generation
from orchard.gateway.store import completions as store_completions
from orchard.gateway.store.completions import CompletionFilter
from orchard.gateway.store.items import Order, PageQuery

_JSON = "application/json"
_METADATA = re.compile(r"metadata\[(.+)\]", re.DOTALL)

After = Annotated[str | None, Query(description="The id of the last one of the page before.")]
Limit = Annotated[int, Query(ge=1, le=stored.MAX_PAGE)]


def add(app: FastAPI, site: AppState, prefix: str = "/v1") -> None:
    """Add the routes."""
    described = generation(BODY.schema())

    @app.post(f"{prefix}/chat/completions", tags=["OpenAI"], include_in_schema=prefix == "/v1", **described)
    async def chat_completions(http: Request) -> Response:
        """Answer a conversation: https://platform.openai.com/docs/api-reference/chat."""
        return await answer(site, http)

    _add_stored(app, site, prefix)


def _add_stored(app: FastAPI, site: AppState, prefix: str) -> None:
    every, one = f"{prefix}/chat/completions", f"{prefix}/chat/completions/{{completion_id}}"
    said: dict[str, Any] = {"tags": ["OpenAI"], "include_in_schema": prefix == "/v1"}
    plain = said | {"response_class": Response, "responses": errors()}
    kept = site.responses.kept

    @app.get(every, **plain)
    async def list_completions(
        http: Request,
        model: str | None = None,
        after: After = None,
        limit: Limit = stored.DEFAULT_PAGE,
        order: Order = "asc",
    ) -> Response:
        """List stored completions, of one model or with some metadata: `metadata[key]=value`, which may be repeated."""
        only, wanted = CompletionFilter(model, _wanted_metadata(http)), PageQuery(after, limit, order)
        found = await kept(store_completions.completions, http.state.caller, only, wanted)
        return Response(stored.page(found.items, found.more), media_type=_JSON)

    @app.get(one, **plain)
    async def get_completion(http: Request, completion_id: str) -> Response:
        """Return a stored completion."""
        return Response(await kept(store_completions.load, http.state.caller, completion_id), media_type=_JSON)

    @app.post(one, **said, **generation(schema(stored.MetadataUpdate), parameters=()))
    async def update_completion(http: Request, completion_id: str) -> Response:
        """Replace a stored completion's metadata."""
        metadata = stored.new_metadata(await site.bodies.read(http))
        found = await kept(store_completions.update, http.state.caller, completion_id, metadata)
        return Response(found, media_type=_JSON)

    @app.delete(one, **plain)
    async def delete_completion(http: Request, completion_id: str) -> Response:
        """Forget a stored completion."""
        await kept(store_completions.delete, http.state.caller, completion_id)
        return Response(stored.deleted(completion_id, "chat.completion.deleted"), media_type=_JSON)

    @app.get(f"{one}/messages", **plain)
    async def list_messages(
        http: Request,
        completion_id: str,
        after: After = None,
        limit: Limit = stored.DEFAULT_PAGE,
        order: Order = "asc",
    ) -> Response:
        """List the messages that a stored completion answers."""
        wanted = PageQuery(after, limit, order)
        found = await kept(store_completions.messages, http.state.caller, completion_id, wanted)
        return Response(stored.page(found.items, found.more), media_type=_JSON)


def _wanted_metadata(http: Request) -> dict[str, str]:
    """Return what the address asks for as `metadata[key]=value`."""
    named = ((_METADATA.fullmatch(name), value) for name, value in http.query_params.multi_items())
    return {match[1]: value for match, value in named if match}


async def answer(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request; `model` is asked for whatever the body says."""
    header = http.headers.get(PRIORITY_HEADER)
    body = await site.bodies.read(http)
    call = parse(body, http.state.id, header, model=model, default=site.pool.only())
    if call.stored:
        asked = parse_asked(body)
        return StoredChat(site.responses, site.overflow.open(call.request), http.state.caller, call, asked)
    return site.answer(call.request, call.encoder() if call.stream else call.complete)
