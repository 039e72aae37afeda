"""OpenAI's Conversations: items that responses are added to."""

from typing import Annotated, Any

from fastapi import FastAPI, Query
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.errors import OrchardError
from orchard.dialects import openai_responses_stored as stored
from orchard.gateway.routes.openapi import errors, generation
from orchard.gateway.routes.site import Site
from orchard.gateway.store import Listed, Store

TAG = "OpenAI"

After = Annotated[str | None, Query(description="The id of the item after which the list begins.")]
Limit = Annotated[int, Query(ge=1, le=stored.MAX_PAGE)]


def add(app: FastAPI, site: Site, prefix: str = "/v1") -> None:
    """Add the routes."""
    _add_conversations(app, site, prefix)
    _add_items(app, site, prefix)


def _add_conversations(app: FastAPI, site: Site, prefix: str) -> None:
    one = f"{prefix}/conversations/{{conversation_id}}"
    said: dict[str, Any] = {"tags": [TAG], "include_in_schema": prefix == "/v1"}
    plain = said | {"response_class": Response, "responses": errors()}

    @app.post(f"{prefix}/conversations", **said, **_described(stored.conversation_schema()))
    async def create_conversation(http: Request) -> Response:
        """Begin a conversation: https://platform.openai.com/docs/api-reference/conversations."""
        hex_id = http.state.id.removeprefix("req_")
        metadata, items = stored.new_conversation(await site.bodies.read(http), hex_id)
        id_ = f"conv_{hex_id}"
        created = await site.responses.kept(Store.create, id_, metadata, items)
        return _json(stored.conversation(id_, created, metadata))

    @app.get(one, **plain)
    async def get_conversation(conversation_id: str) -> Response:
        """Describe a conversation."""
        return _json(
            stored.conversation(conversation_id, *await site.responses.kept(Store.conversation, conversation_id))
        )

    @app.post(one, **said, **_described(stored.update_schema()))
    async def update_conversation(http: Request, conversation_id: str) -> Response:
        """Replace a conversation's metadata."""
        metadata = stored.new_metadata(await site.bodies.read(http))
        found = await site.responses.kept(Store.conversation, conversation_id, metadata)
        return _json(stored.conversation(conversation_id, *found))

    @app.delete(one, **plain)
    async def delete_conversation(conversation_id: str) -> Response:
        """Forget a conversation, with its items and its responses."""
        await site.responses.kept(Store.delete_conversation, conversation_id)
        return Response(stored.deleted(conversation_id, "conversation.deleted"), media_type="application/json")


def _add_items(app: FastAPI, site: Site, prefix: str) -> None:
    all_items = f"{prefix}/conversations/{{conversation_id}}/items"
    said: dict[str, Any] = {"tags": [TAG], "include_in_schema": prefix == "/v1"}
    plain = said | {"response_class": Response, "responses": errors()}

    @app.get(all_items, **plain)
    async def list_items(
        conversation_id: str, after: After = None, limit: Limit = stored.DEFAULT_PAGE, order: stored.Order = "desc"
    ) -> Response:
        """List a conversation's items."""
        items = await site.responses.kept(Store.items, conversation_id)
        return Response(stored.page(items, after, limit, order), media_type="application/json")

    @app.post(all_items, **said, **_described(stored.items_schema()))
    async def create_items(http: Request, conversation_id: str) -> Response:
        """Add items to a conversation."""
        body = await site.bodies.read(http)
        past = [item for _, item in await site.responses.kept(Store.items, conversation_id)]
        items = stored.new_items(body, http.state.id.removeprefix("req_"), past)
        await site.responses.kept(Store.add_items, conversation_id, items)
        added: Listed = [(item["id"], stored.encoded(item)) for item in items]
        return Response(stored.page(added, None, len(added), "asc"), media_type="application/json")

    @app.get(f"{all_items}/{{item_id}}", **plain)
    async def get_item(conversation_id: str, item_id: str) -> Response:
        """Give one item of a conversation."""
        for id_, item in await site.responses.kept(Store.items, conversation_id):
            if id_ == item_id:
                return Response(item, media_type="application/json")
        raise OrchardError("item_not_found", f"no item '{item_id}' in conversation '{conversation_id}'")

    @app.delete(f"{all_items}/{{item_id}}", **plain)
    async def delete_item(conversation_id: str, item_id: str) -> Response:
        """Take an item out of a conversation."""
        await site.responses.kept(Store.delete_item, conversation_id, item_id)
        found = await site.responses.kept(Store.conversation, conversation_id)
        return _json(stored.conversation(conversation_id, *found))


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    return generation(schema, parameters=())


def _json(found: dict[str, Any]) -> Response:
    return Response(stored.encoded(found), media_type="application/json")
