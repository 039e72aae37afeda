"""A WebSocket: uvicorn's, with a limit on the bytes of messages that arrive on all WebSockets together, and with a
shutdown that lets an answer finish."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from orchard.core.errors import OrchardError
from orchard.gateway.http.budget import Budget, Share

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
        self._is_ending = False
        self.app_state = {**self.app_state, "socket": self}

    def data_received(self, data: bytes) -> None:
        """Process a piece of a message; close the socket if all sockets together hold too many bytes."""
        self._arriving += len(data)
        try:
            self._share.take(self._arriving)
        except OrchardError as error:
            if self.handshake_complete and not self.close_sent:
                self.conn.fail(_TRY_AGAIN_LATER, error.message)
                self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
            return
        super().data_received(data)

    def send_receive_event_to_app(self) -> None:
        """Hand a message over to the application, which counts its bytes from now on."""
        self._arriving = 0
        self._share.take(0)
        self.curr_msg_data_type = "bytes"  # also for text: uvicorn would log a traceback for invalid UTF-8
        super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the message that will not arrive."""
        self._share.take(0)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the socket once nothing is being answered."""
        self._is_ending = True
        if not self.is_busy:
            super().shutdown()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Keep the socket open while the context lasts, unless the client or the network closes it."""
        self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False
            if self._is_ending:
                super().shutdown()
