"""OpenAI's Responses, created and stored."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai import stored
from orchard.dialects.openai.responses.encode import token_count_body
from orchard.dialects.openai.responses.parse import parse, parse_compact
from orchard.dialects.openai.responses.schema import BODY, COMPACT_BODY
from orchard.gateway.replies.warnings import transcription_warning, unserved_tools_warning, warn
from orchard.gateway.responses.paging import NewestFirst
from orchard.gateway.responses.socket import ResponsesSocket
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.disconnect import cancel_on_disconnect
from orchard.gateway.routes.openapi import route_options

_JSON = "application/json"


def add_responses_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""
    described = route_options(BODY.schema())

    @routes.post("/responses", **described)
    async def create_response(http: Request) -> Response:
        """Create a response, and store it: https://platform.openai.com/docs/api-reference/responses."""
        return await answer_responses(site, http)

    @routes.post("/responses/input_tokens", **described)
    async def count_input_tokens(http: Request) -> Response:
        """Count the tokens that the input of a response would have."""
        draft = parse(await site.bodies.read(http), default=site.pool.only_model())
        counting = site.responses.count(http.state.caller, draft, http.state.id)
        tokens = await cancel_on_disconnect(http, counting)
        return Response(token_count_body(tokens), media_type=_JSON)

    @routes.post("/responses/compact", **route_options(COMPACT_BODY.schema()))
    async def compact_response(http: Request) -> Response:
        """Summarise a conversation: https://platform.openai.com/docs/api-reference/responses/compact."""
        draft = parse_compact(await site.bodies.read(http), site.pool.only_model())
        header = http.headers.get(PRIORITY_HEADER)
        work = site.responses.compact(http.state.caller, draft, http.state.id, header)
        return Response(await cancel_on_disconnect(http, work), media_type=_JSON)

    @routes.websocket("/responses")
    async def create_responses(socket: WebSocket) -> None:
        await ResponsesSocket(socket, site.responses, site.callers).run()

    _add_stored_response_routes(routes, site)


def _add_stored_response_routes(routes: APIRouter, site: AppState) -> None:
    one = "/responses/{response_id}"

    @routes.get(one, response_class=Response)
    async def get_response(http: Request, response_id: str, stream: bool = False, starting_after: int = -1) -> Response:
        """Return a stored response; with `stream`, the events of one that runs in the background."""
        if stream:
            return await site.responses.stream(http.state.caller, response_id, max(-1, starting_after))
        return Response(await site.responses.load(http.state.caller, response_id), media_type=_JSON)

    @routes.delete(one, response_class=Response)
    async def delete_response(http: Request, response_id: str) -> Response:
        """Delete a response; cancel it if it is running."""
        await site.responses.delete(http.state.caller, response_id)
        return Response(stored.deletion_body(response_id, "response"), media_type=_JSON)

    @routes.post(f"{one}/cancel", response_class=Response)
    async def cancel_response(http: Request, response_id: str) -> Response:
        """Cancel a background response. One that has ended does not change."""
        return Response(await site.responses.cancel(http.state.caller, response_id), media_type=_JSON)

    @routes.get(f"{one}/input_items", response_class=Response)
    async def list_input_items(http: Request, response_id: str, wanted: NewestFirst) -> Response:
        """List the input items of a response, including the items of the responses that it continues."""
        found = await site.responses.input_items(http.state.caller, response_id, wanted)
        return Response(stored.page_of_objects(found.items, found.more), media_type=_JSON)


async def answer_responses(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body."""
    draft = parse(await site.bodies.read(http), model, site.pool.only_model())
    header = http.headers.get(PRIORITY_HEADER)
    caller = http.state.caller
    call = await cancel_on_disconnect(http, site.responses.prepare(caller, draft, http.state.id, header))
    if call.unserved_tools:
        warn(http.scope, unserved_tools_warning(call.unserved_tools))
    if call.transcriber:
        warn(http.scope, transcription_warning(call.request.model, call.transcriber))
    return await site.responses.answer(caller, call)
