"""One HTTP connection: uvicorn's, with a limit on how many there are and on how long the head of a request may take,
and with errors in our own shape where what arrives is no HTTP."""

import asyncio
import uuid
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.dialects.openai_errors import fail


class Connection(HttpToolsProtocol):
    """uvicorn's knobs can't do this: its concurrency limit answers in plain text, and it waits for a head for ever."""

    def __init__(self, *args: Any, settings: Settings, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._settings = settings
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self._settings.max_connections:
            message = f"the server has {self._settings.max_connections} connections already"
            self._refuse(OrchardError("overloaded", message, retry_after=1))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer, which would keep the connection in memory."""
        self._stop_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A further request begins."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """The head is here; the body has a time limit of its own."""
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP request."""
        self._refuse(OrchardError("invalid_request", msg))

    def _expect_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(self._settings.head_timeout, self._late)

    def _stop_timer(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()

    def _late(self) -> None:
        limit = self._settings.head_timeout
        self._refuse(OrchardError("timeout", f"the head of the request did not arrive within {limit:g} seconds"))

    def _refuse(self, error: OrchardError) -> None:
        """Write an answer without an application, and close."""
        status, headers, body = fail(error)
        own = {"content-length": str(len(body)), "connection": "close", "x-request-id": f"req_{uuid.uuid4().hex}"}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in (headers | own).items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()
