"""The WebSocket of a realtime session."""

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from orchard.core.errors import OrchardError
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.openai.realtime.encode import EventWriter, RealtimeError
from orchard.dialects.openai.realtime.options import SessionOptions
from orchard.dialects.openai.realtime.parse import client_event_id, parse
from orchard.gateway.http.budget import Share
from orchard.gateway.http.websocket import Socket
from orchard.gateway.realtime.session import RealtimeSession
from orchard.gateway.voice.requests import VoiceRequests

log = logging.getLogger("orchard.gateway.realtime.socket")

LIFETIME_SECONDS = 3600.0
_PROTOCOL = "realtime"
_REFUSED = 1008  # a policy violation (RFC 6455, 7.4.1)
_BETA = "The beta of the Realtime API is not served, whose events differ: leave out the header OpenAI-Beta."


class RealtimeSocket:
    """Serves one client until it leaves, or `lifetime` seconds are over.

    It reads an event once the one before it is handled, so that a client that floods is read more slowly.
    """

    def __init__(self, socket: WebSocket, requests: VoiceRequests, lifetime: float = LIFETIME_SECONDS) -> None:
        self._socket = socket
        self._requests = requests
        self._lifetime = lifetime
        self._writer = EventWriter(uuid.uuid4().hex)
        self._connection: Socket = socket.scope["state"]["socket"]
        self._message = Share(self._connection.message_budget)

    async def run(self) -> None:
        """Accept the socket, because clients don't show why a handshake is rejected, and serve the client."""
        with suppress(WebSocketDisconnect):
            await self._socket.accept(_PROTOCOL if _PROTOCOL in self._socket.scope["subprotocols"] else None)
            try:
                options = self._begin_options()
            except OrchardError as error:
                await self._socket.send_text(self._writer.write_error(error))
                await self._socket.close(_REFUSED)
            else:
                await self._hold_session(options)

    async def _hold_session(self, options: SessionOptions) -> None:
        self._connection.expect_audio()
        held = Share(self._connection.message_budget)
        session = RealtimeSession(self._requests, self._send, options, held, self._socket.scope["state"])
        try:
            await session.begin()
            async with asyncio.timeout(self._lifetime):
                await self._read_all(session)
        except TimeoutError:
            await session.close()
            message = f"This session has lasted {self._lifetime / 60:g} minutes: open a new one."
            expired = RealtimeError("session_expired", message)
            await self._socket.send_text(self._writer.write_error(expired))
            await self._socket.close()
        finally:
            await session.close()
            held.take(0)
            self._message.take(0)

    def _begin_options(self) -> SessionOptions:
        """Return what the URL and the headers say. Raise OrchardError if it can't be served."""
        query = self._socket.query_params
        if "realtime=v1" in self._socket.headers.getlist("openai-beta"):
            raise OrchardError("invalid_request", _BETA, param="OpenAI-Beta")
        if "call_id" in query:
            raise invalid_field("call_id", "must be left out: WebRTC and SIP calls are not served.")
        is_transcription = query.get("intent") == "transcription"
        model = self._requests.choose_models(query.get("model") or query.get("deployment"), chats=not is_transcription)
        return SessionOptions(
            id=f"sess_{uuid.uuid4().hex}",
            model=model,
            expires_at=int(time.time() + self._lifetime),
            type="transcription" if is_transcription else "realtime",
        )

    async def _send(self, kind: str, **fields: Any) -> None:
        await self._socket.send_text(self._writer.write(kind, **fields))

    async def _read_all(self, session: RealtimeSession) -> None:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            data: bytes = message["bytes"]
            try:
                self._message.take(len(data))
                await session.handle(parse(data))
            except OrchardError as error:
                await self._socket.send_text(self._writer.write_error(error, client_event_id(data)))
            except WebSocketDisconnect:
                raise
            except Exception as bug:
                log.exception("a realtime event broke")
                failed = OrchardError("internal", f"the server failed: {type(bug).__name__}")
                await self._socket.send_text(self._writer.write_error(failed, client_event_id(data)))
            await asyncio.sleep(0)  # others have a turn, although more events may be there already
