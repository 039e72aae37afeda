"""OpenAI's Chat Completions."""

import re
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.dialects.common.fields import PRIORITY_HEADER, body_schema
from orchard.dialects.openai import stored
from orchard.dialects.openai.chat.audio import ChatAudio
from orchard.dialects.openai.chat.encode import ChatCall, ChatEncoder
from orchard.dialects.openai.chat.parse import parse
from orchard.dialects.openai.chat.schema import BODY
from orchard.dialects.openai.chat.stored import parse_stored_request
from orchard.gateway.replies.event_response import EventResponse
from orchard.gateway.responses.paging import OldestFirst
from orchard.gateway.responses.stored_chat import StoredChat
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import route_options
from orchard.gateway.voice.spoken_answer import SpokenAnswer

_JSON = "application/json"
_METADATA = re.compile(r"metadata\[(.+)\]", re.DOTALL)


def add_chat_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/chat/completions", **route_options(BODY.schema()))
    async def chat_completions(http: Request) -> Response:
        """Answer a conversation: https://platform.openai.com/docs/api-reference/chat."""
        return await answer_chat(site, http)

    _add_stored_chat_routes(routes, site)


def _add_stored_chat_routes(routes: APIRouter, site: AppState) -> None:
    collection, item = "/chat/completions", "/chat/completions/{completion_id}"
    completions = site.responses.completions

    @routes.get(collection, response_class=Response)
    async def list_completions(http: Request, wanted: OldestFirst, model: str | None = None) -> Response:
        """List stored completions, of one model or with some metadata: `metadata[key]=value`, which may be repeated."""
        named = ((_METADATA.fullmatch(name), value) for name, value in http.query_params.multi_items())
        metadata = {match[1]: value for match, value in named if match}
        found = await completions.search(http.state.caller, model, metadata, wanted)
        return Response(stored.page_of_objects(found.items, found.more), media_type=_JSON)

    @routes.get(item, response_class=Response)
    async def get_completion(http: Request, completion_id: str) -> Response:
        """Return a stored completion."""
        return Response(await completions.load(http.state.caller, completion_id), media_type=_JSON)

    @routes.post(item, **route_options(body_schema(stored.MetadataUpdate), parameters=()))
    async def update_completion(http: Request, completion_id: str) -> Response:
        """Replace a stored completion's metadata."""
        metadata = stored.parse_metadata(await site.bodies.read(http))
        found = await completions.update(http.state.caller, completion_id, metadata)
        return Response(found, media_type=_JSON)

    @routes.delete(item, response_class=Response)
    async def delete_completion(http: Request, completion_id: str) -> Response:
        """Forget a stored completion."""
        await completions.delete(http.state.caller, completion_id)
        return Response(stored.deletion_body(completion_id, "chat.completion.deleted"), media_type=_JSON)

    @routes.get(f"{item}/messages", response_class=Response)
    async def list_messages(http: Request, completion_id: str, wanted: OldestFirst) -> Response:
        """List the messages that a stored completion answers."""
        found = await completions.messages(http.state.caller, completion_id, wanted)
        return Response(stored.page_of_objects(found.items, found.more), media_type=_JSON)


async def answer_chat(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body."""
    header = http.headers.get(PRIORITY_HEADER)
    body, caller = await site.bodies.read(http), http.state.caller
    find_transcript = partial(site.kept_texts.find, caller)
    default = site.pool.only_model()
    call = parse(body, http.state.id, header, model=model, default=default, find_transcript=find_transcript)
    if call.audio:
        return await _speak_answer(site, http, call, call.audio)
    if call.stored:
        asked = parse_stored_request(body)
        return StoredChat(site.responses, await site.open(http, call.request), caller, call, asked)
    return await site.answer(http, call.request, ChatEncoder(call) if call.stream else call.complete)


async def _speak_answer(site: AppState, http: Request, call: ChatCall, audio: ChatAudio) -> Response:
    """Answer a request in text and sound."""
    caller = http.state.caller
    requests = site.voice_requests(caller, call.request)
    await requests.check_voice(audio.voice, "audio.voice")
    spoken = SpokenAnswer(
        requests,
        await site.open(http, call.request),
        audio.voice,
        audio.format,
        whole=not call.stream,
        keep=partial(site.kept_texts.keep, caller, audio.id),
    )
    answer = ChatEncoder(call) if call.stream else call.complete
    return EventResponse(spoken.stream, answer, site.settings.keep_alive_interval)
