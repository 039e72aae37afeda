"""Responses over one WebSocket: each event of the client requests one. They are made one after the other."""

import asyncio
import logging
import time
import uuid

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.responses import socket as dialect
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.encode import ResponseEncoder
from orchard.dialects.openai.responses.parse import Draft
from orchard.gateway.caller import Caller, Callers
from orchard.gateway.http.budget import Share
from orchard.gateway.http.request_context import RequestLimit, logged_request_id
from orchard.gateway.http.websocket import Socket
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.replies.warnings import transcription_warning, unserved_tools_warning
from orchard.gateway.responses.service import Responses
from orchard.gateway.store.items import Fields
from orchard.gateway.store.media import KnownMedia, pack_item
from orchard.gateway.store.responses import Past

log = logging.getLogger("orchard.access")

LIFETIME_SECONDS = 3600.0
_MOST_WAITING = 16
_WAIT_SECONDS = 60.0
_GONE = Failed("cancelled", "the client closed the connection")


class ResponsesSocket:
    """Answers one client over one WebSocket, and keeps the last response that is not stored. The connection ends
    `lifetime` seconds after it was opened, once nothing is being answered."""

    def __init__(
        self,
        socket: WebSocket,
        responses: Responses,
        callers: Callers,
        lifetime: float = LIFETIME_SECONDS,
    ) -> None:
        self._socket = socket
        self._responses = responses
        self._callers = callers
        self._caller: Caller = socket.scope["state"]["caller"]
        self._lifetime = lifetime
        self._connection: Socket = socket.scope["state"]["socket"]
        self._in_hand: RequestLimit = socket.scope["state"]["in_hand"]
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._waiting_bytes = 0
        self._messages = Share(self._connection.message_budget)
        self._cached = Share(self._connection.past_budget)
        self._last: tuple[str, Past] | None = None

    async def run(self) -> None:
        """Serve until the client leaves, or the lifetime is over."""
        await self._socket.accept()
        tasks = [asyncio.create_task(self._read_all()), asyncio.create_task(self._answer_all())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self._messages.take(0)
            self._cached.take(0)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, WebSocketDisconnect):
                raise end

    async def _read_all(self) -> None:
        """Read what the client sends, also while it is answered, so that a disconnect is noticed."""
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            event = message["bytes"]
            try:
                if self._waiting.full():
                    raise OrchardError("overloaded", f"{_MOST_WAITING} events wait on this connection already")
                self._messages.take(self._waiting_bytes + len(event))
            except OrchardError as error:
                await self._socket.send_text(dialect.error_event(error))
            else:
                self._waiting_bytes += len(event)
                self._waiting.put_nowait(event)

    async def _answer_all(self) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + self._lifetime
        while clock() < end:
            try:
                async with asyncio.timeout_at(end):
                    event = await self._waiting.get()
            except TimeoutError:
                break
            with self._connection.stay_open():
                await self._answer(event)
            self._waiting_bytes -= len(event)
            self._messages.take(self._waiting_bytes)
        await self._socket.send_text(dialect.too_old_event(self._lifetime))
        await self._socket.close()

    async def _answer(self, event: bytes) -> None:
        """Make one response, and log it as a separate request."""
        request_id = f"req_{uuid.uuid4().hex}"
        logged_request_id.set(request_id)
        begin, how = time.monotonic(), "cancelled"
        try:
            with self._in_hand.count_request(self._caller.name):
                await self._make_response(event, request_id)
            how = "ok"
        except OrchardError as error:
            how = error.kind
            await self._socket.send_text(dialect.error_event(error))
        except WebSocketDisconnect:
            raise
        except Exception as bug:
            how = "internal"
            log.exception("response.create broke")
            failed = OrchardError("internal", f"the server failed: {type(bug).__name__}")
            await self._socket.send_text(dialect.error_event(failed))
        finally:
            log.info("response.create %s %s %.3f s", self._socket.scope["path"], how, time.monotonic() - begin)

    async def _make_response(self, event: bytes, request_id: str) -> None:
        """Make a response and send its events. Raise OrchardError if it can't begin."""
        self._callers.remember(request_id, self._caller)
        draft = dialect.parse(event, self._responses.pool.only_model())
        past = self._take_past(draft) or await self._responses.load_past(self._caller, draft)
        priority = self._socket.headers.get(PRIORITY_HEADER)
        call = await self._responses.prepare(self._caller, draft, request_id, priority, past)
        if call.unserved_tools:
            log.warning("%s", unserved_tools_warning(call.unserved_tools))
        if call.transcriber:
            log.warning("%s", transcription_warning(call.request.model, call.transcriber))
        encoder = ResponseEncoder(call)
        with self._responses.hold_past(call):
            stream = await self._responses.open(call)
            try:
                await self._send_all(stream, call, encoder)
            finally:
                stream.close(_GONE)
        if encoder.error is None:
            await self._remember(call, encoder, past)

    def _take_past(self, draft: Draft) -> Past | None:
        """Return what a request continues if only this connection has it, and forget it. So it is lost if the request
        fails, as clients expect."""
        if self._last is None or self._last[0] != draft.body.previous_response_id:
            return None
        _, past = self._last
        self._last = None
        if draft.body.store is not False:
            message = "`store` must be false: this continues a response that is not stored."
            raise OrchardError("invalid_request", message, param="store")
        return past

    async def _send_all(self, stream: EventStream, call: ResponseCall, encoder: ResponseEncoder) -> None:
        """Send the events of a response. Raise OrchardError if it can't begin."""
        begun = False
        while not encoder.ended:
            events = await stream.next(_WAIT_SECONDS)
            if not begun and events and isinstance(events[0], Failed):
                raise events[0].error()
            begun = begun or bool(events)
            told = encoder.encode_list(events)
            # Store it first, because a client that gets the end may continue the response at once.
            if encoder.ended and await self._responses.keep(self._caller, call, encoder):
                told[-1] = encoder.unstored(told[-1])
            for event in told:
                await self._socket.send_text(dialect.payload(event))

    async def _remember(self, call: ResponseCall, encoder: ResponseEncoder, past: Past) -> None:
        """Keep a response that is not stored for the next request, unless all connections together keep too much."""
        self._last = None
        response = encoder.response()
        if response["store"]:
            self._cached.take(0)
            return
        items, media = await asyncio.to_thread(_pack_input, call)
        items += response["output"]
        extent, media = past.extent.plus(items), {**past.media, **media}
        try:
            self._cached.take(extent.bytes + sum(map(len, media.values())))
        except OrchardError as error:
            log.warning("%s is not kept for its connection: %s", call.id, error.message)
        else:
            self._last = call.id, Past([*past.items, *map(msgspec.json.encode, items)], {}, extent, media)


def _pack_input(call: ResponseCall) -> tuple[list[Fields], dict[str, bytes]]:
    """Return the items of an input without their media, and the media by digest."""
    known = KnownMedia(call.fetched_media, call.stored_media)
    found = [pack_item(item, known) for item in call.input]
    return [item for item, _ in found], {digest: data for _, media in found for digest, data in media.items()}
