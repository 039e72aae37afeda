"""A WebSocket: uvicorn's, with a limit on the bytes of messages that arrive on all WebSockets together, pauses where
messages are cut finely, and a shutdown that lets an answer finish."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from orchard.core.errors import OrchardError
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.http.pace import ReadPace

_PIECE = 1024  # bytes to parse at a time: a frame costs more than 10 µs
_AUDIO_FRAMES = 200  # that may arrive in a second
_NO_HANDSHAKE = "A WebSocket begins with GET, HTTP/1.1 and header lines of at most 8192 bytes.\n"
_TRY_AGAIN_LATER = 1013  # https://www.iana.org/assignments/websocket


class Socket(WebSocketsSansIOProtocol):
    """uvicorn limits each message but not all messages together, and closes every socket when it shuts down.

    `message_budget` is for messages that arrive or wait, `past_budget` for responses that are kept only for their
    connections.
    """

    def __init__(self, *args: Any, message_budget: Budget, past_budget: Budget, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.message_budget = message_budget
        self.past_budget = past_budget
        self.is_busy = False
        self._share = Share(message_budget)
        self._arriving = 0
        self._unparsed = bytearray()
        self._pace = ReadPace(self.loop.time)
        self._pause: asyncio.TimerHandle | None = None
        self._frames = 0
        self._arrived_at = 0.0
        self._is_ending = False
        self.app_state = {**self.app_state, "socket": self}

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived; close the socket if all sockets together hold too many bytes."""
        self._arrived_at = self.loop.time()
        self._arriving += len(data)
        try:
            self._share.take(self._arriving)
        except OrchardError as error:
            if self.handshake_complete and not self.close_sent:
                self.conn.fail(_TRY_AGAIN_LATER, error.message)
                self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
            return
        self._unparsed += data
        self._parse()

    def handle_events(self) -> None:
        """Process frames, and count them. Answer a handshake that can't be read, which uvicorn leaves open."""
        self._frames += len(self.conn.events)
        super().handle_events()
        if self.conn.handshake_exc and not self.handshake_initiated:
            response = self.conn.reject(HTTPStatus.BAD_REQUEST, _NO_HANDSHAKE)
            self.transport.write(response.serialize())
            self.transport.close()

    async def receive(self) -> Any:
        """Return the next message, and parse what has arrived behind it."""
        message = await super().receive()
        self._parse()
        return message

    async def send(self, message: Any) -> None:
        """Send a message, and parse what a client that doesn't wait has sent behind its handshake.

        Raise ClientDisconnected if the socket is closed: uvicorn raises RuntimeError until the connection is lost.
        """
        if self.close_sent and self.initial_response is None:
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response and self.close_sent:
            self.handshake_complete = True  # else uvicorn logs that the application has forgotten to answer
        self._parse()

    def send_receive_event_to_app(self) -> None:
        """Hand a message over to the application, which counts its bytes from now on."""
        self._arriving = len(self._unparsed)
        self._share.take(self._arriving)
        self.curr_msg_data_type = "bytes"  # also for text: uvicorn would log a traceback for invalid UTF-8
        super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        """Close the socket if nothing has arrived since the ping: else a pong may wait behind what is not read yet."""
        if self.ping_timeout and (self._arrived_at > self.ping_sent_at or self.read_paused or self._pause):
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the message that will not arrive."""
        self._unparsed.clear()
        self._share.take(0)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the socket once nothing is being answered."""
        self._is_ending = True
        if not self.is_busy:
            super().shutdown()

    def _parse(self) -> None:
        """Parse until something waits for the application, or until there were too many small frames."""
        while self._unparsed and not (self._pause or self._waits or self.transport.is_closing()):
            piece = bytes(self._unparsed[:_PIECE])
            del self._unparsed[: len(piece)]
            self._frames = 0
            super().data_received(piece)
            small = self._frames - 1 if len(piece) == _PIECE else self._frames
            if seconds := self._pace.pause(max(small, len(piece) < _PIECE)):
                self._pause = self.loop.call_later(seconds, self._end_pause)
        if self._pause and not self.transport.is_closing():
            self.transport.pause_reading()

    def _end_pause(self) -> None:
        self._pause = None
        self._parse()
        if not (self._pause or self.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def expect_audio(self) -> None:
        """Read more small frames from now on: clients send audio in pieces of 10 ms, too."""
        self._pace = ReadPace(self.loop.time, _AUDIO_FRAMES, _AUDIO_FRAMES)

    @property
    def _waits(self) -> bool:
        """Whether a message or the handshake waits for the application."""
        return self.read_paused or (self.handshake_initiated and not self.handshake_complete)

    @contextmanager
    def stay_open(self) -> Iterator[None]:
        """Keep the socket open while the context lasts, unless the client or the network closes it."""
        self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False
            if self._is_ending:
                super().shutdown()
