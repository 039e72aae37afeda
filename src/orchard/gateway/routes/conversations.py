"""OpenAI's Conversations: lists of items that responses extend."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import Struct
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.common.fields import body_schema
from orchard.dialects.openai import stored as openai_stored
from orchard.dialects.openai.responses import stored
from orchard.dialects.openai.responses.schema import ConversationBody, ConversationUpdate, ItemsBody
from orchard.gateway.responses.paging import NewestFirst
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.disconnect import cancel_on_disconnect
from orchard.gateway.routes.openapi import route_options

_COMPACTION = b"compaction"
_Query = Annotated[str, Query(max_length=1000, description="Words that the title or the texts contain, in any case.")]


def add_conversations_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
    _add_conversation_routes(routes, site)
    _add_item_routes(routes, site)


def _add_conversation_routes(routes: APIRouter, site: AppState) -> None:
    one, conversations = "/conversations/{conversation_id}", site.responses.conversations

    @routes.post("/conversations", **_body_route_options(ConversationBody))
    async def create_conversation(http: Request) -> Response:
        """Create a conversation: https://platform.openai.com/docs/api-reference/conversations."""
        hex_id = http.state.id.removeprefix("req_")
        body = await site.bodies.read(http)
        unseal = await site.responses.unsealer(_COMPACTION in body)
        metadata, items, media, pinned = stored.parse_conversation(body, hex_id, unseal)
        fetched = await cancel_on_disconnect(http, site.media.fetch(media))
        id_, caller = f"conv_{hex_id}", http.state.caller
        made = await conversations.create(caller, id_, metadata, items, pinned=pinned, fetched=fetched)
        return _conversation_response(id_, made)

    @routes.get("/conversations", response_class=Response)
    async def list_conversations(http: Request, wanted: NewestFirst, query: _Query = "") -> Response:
        """List the caller's conversations, by their last change; with `query`, those whose title or texts have it."""
        found, more = await conversations.search(http.state.caller, query, wanted)
        objects = [(id_, _conversation_json(id_, each)) for id_, each in found]
        return Response(openai_stored.page_of_objects(objects, more), media_type="application/json")

    @routes.get(one, response_class=Response)
    async def get_conversation(http: Request, conversation_id: str) -> Response:
        """Return a conversation."""
        return _conversation_response(conversation_id, await conversations.load(http.state.caller, conversation_id))

    @routes.post(one, **_body_route_options(ConversationUpdate))
    async def update_conversation(http: Request, conversation_id: str) -> Response:
        """Replace a conversation's metadata; with `pinned`, keep it until somebody deletes it, or no longer."""
        metadata, pinned = stored.parse_conversation_update(await site.bodies.read(http))
        updated = await conversations.update(http.state.caller, conversation_id, metadata, pinned=pinned)
        return _conversation_response(conversation_id, updated)

    @routes.delete(one, response_class=Response)
    async def delete_conversation(http: Request, conversation_id: str) -> Response:
        """Delete a conversation, with its items and its responses."""
        await conversations.delete(http.state.caller, conversation_id)
        return Response(
            openai_stored.deletion_body(conversation_id, "conversation.deleted"), media_type="application/json"
        )

    @routes.get(f"{one}/responses", response_class=Response)
    async def list_responses(http: Request, conversation_id: str, wanted: NewestFirst) -> Response:
        """List a conversation's responses, of all its branches, each with its own input."""
        found = await conversations.responses(http.state.caller, conversation_id, wanted)
        return Response(openai_stored.page_of_objects(found.items, found.more), media_type="application/json")


def _add_item_routes(routes: APIRouter, site: AppState) -> None:
    all_items, conversations = "/conversations/{conversation_id}/items", site.responses.conversations

    @routes.get(all_items, response_class=Response)
    async def list_items(http: Request, conversation_id: str, wanted: NewestFirst) -> Response:
        """List a conversation's items."""
        found = await conversations.items(http.state.caller, conversation_id, wanted)
        return Response(openai_stored.page_of_objects(found.items, found.more), media_type="application/json")

    @routes.post(all_items, **_body_route_options(ItemsBody))
    async def create_items(http: Request, conversation_id: str) -> Response:
        """Add items to a conversation."""
        body = await site.bodies.read(http)
        given = stored.parse_added_items(body)
        caller = http.state.caller
        related = await conversations.related(caller, conversation_id, *stored.related_ids(given))
        unseal = await site.responses.unsealer(_COMPACTION in body)
        items, media = stored.check_items(given, body, http.state.id.removeprefix("req_"), unseal, related)
        fetched = await cancel_on_disconnect(http, site.media.fetch(media))
        await conversations.add_items(caller, conversation_id, items, fetched=fetched)
        added = [(item["id"], msgspec.json.encode(item)) for item in items]
        return Response(openai_stored.page_of_objects(added), media_type="application/json")

    @routes.get(f"{all_items}/{{item_id}}", response_class=Response)
    async def get_item(http: Request, conversation_id: str, item_id: str) -> Response:
        """Return one item of a conversation."""
        item = await conversations.item(http.state.caller, conversation_id, item_id)
        return Response(item, media_type="application/json")

    @routes.delete(f"{all_items}/{{item_id}}", response_class=Response)
    async def delete_item(http: Request, conversation_id: str, item_id: str) -> Response:
        """Delete an item of a conversation."""
        await conversations.delete_item(http.state.caller, conversation_id, item_id)
        return _conversation_response(conversation_id, await conversations.load(http.state.caller, conversation_id))


def _body_route_options(body: type[Struct]) -> dict[str, Any]:
    return route_options(body_schema(body), parameters=())


def _conversation_json(id_: str, found: Struct) -> bytes:
    """Return a conversation of the store in the API's form."""
    return msgspec.json.encode(stored.conversation_fields(id_, **asdict(found)))


def _conversation_response(id_: str, found: Struct) -> Response:
    return Response(_conversation_json(id_, found), media_type="application/json")
