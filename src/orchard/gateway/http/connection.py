"""An HTTP connection: uvicorn's, with limits on connections, request heads and pipelined requests. It tells all its
requests when it ends, and answers invalid HTTP with errors in OpenAI's form."""

import asyncio
import logging
import socket
import uuid
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.dialects.openai.errors import openai_error_answer
from orchard.gateway.http import heads
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.http.pace import MOST_FRAMING, ReadPace

log = logging.getLogger("orchard.gateway.http.connection")

# Bytes to parse at a time: the parser reports a header only when it is complete.
_PIECE = 8 * 1024
# The most requests, and bytes of their bodies, that may wait behind a request that is being answered.
_MAX_PIPELINED = 16
_MAX_AHEAD_BYTES = 64 * 1024
# A stream that nobody reads takes a row of its model until the buffers are full. Linux would take 4 MiB.
_UNSENT_BYTES = 16 * 1024
# How long a rejected client may go on sending before the connection is closed, so that it can read the reason.
_LINGER_SECONDS = 2.0
# Of so many connections, one more may linger that is too many.
_LINGERING_PART = 4
_NO_HTTP = "this is not a valid HTTP/1.1 request (a client that uses https:// must use http:// instead)"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Pauses between probes of a client that has closed its sending side. Some clients accept only five probes.
_PROBE_SECONDS = (0.05, 1.0, 5.0, 30.0, 120.0)


class Connection(HttpToolsProtocol):
    """uvicorn's options can't do this: its concurrency limit answers in plain text, it waits for heads forever without
    a limit on its size, and tells only the newest request when a connection ends."""

    def __init__(self, *args: Any, settings: Settings, head_budget: Budget, **kwargs: Any) -> None:
        self._pieces: list[bytes] = []
        """Pieces of a body that the request has not got yet."""
        # The parser calls this for each chunk, however small: no Python code runs.
        self.on_body = self._pieces.append  # type: ignore[assignment, method-assign]
        super().__init__(*args, **kwargs)
        self._settings = settings
        self._pace = ReadPace(self.loop.time)
        self._framing = 0
        """Bytes of the request's body that are not content."""
        self._timer: asyncio.TimerHandle | None = None
        self._head = heads.Head()
        self._share = Share(head_budget)
        self._unfinished: dict[RequestResponseCycle, int] = {}
        """Requests whose response is not complete, oldest first, and the sizes of their heads."""
        self._unread = 0
        """Bytes since the parser last reported anything but headers."""
        self._refusal: OrchardError | None = None
        self._half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        if option := getattr(socket, "TCP_NOTSENT_LOWAT", None):  # not every system has it
            with suppress(OSError):  # macOS: a client that has left already
                transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)
        most = self._settings.max_connections
        if len(self.connections) <= most:
            self._expect_head()
            return
        self._refuse(OrchardError("overloaded", f"the server has {most} connections already", retry_after=1))
        if len(self.connections) > most + most // _LINGERING_PART:
            transport.close()  # files are scarcer than reasons that arrive

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request, and stop the timer, which would keep the connection in memory."""
        self._stop_timer()
        for cycle in self._unfinished:
            _disconnect_cycle(cycle)
        self._unfinished.clear()
        self._share.take(0)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether to keep our side open, after the client has closed its own, for pending responses."""
        self._stop_timer()
        self._end_incomplete_request()
        self._half_closed = bool(self._unfinished)
        if self._half_closed:
            self._probe(_PROBE_SECONDS)
        return self._half_closed

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, unless something before it was rejected."""
        self._unset_keepalive_if_required()
        view = memoryview(data)
        for begin in range(0, len(data), _PIECE):
            if self._refusal is None and not self.transport.is_closing():
                self._parse(view[begin : begin + _PIECE])
        if len(data) < _PIECE and (pause := self._pace.pause(1)):
            self.transport.pause_reading()
            self.loop.call_later(pause, self._end_pause)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head = heads.Head()
        self._pace = ReadPace(self.loop.time)
        self._unread = self._framing = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        """Process a part of the request's target."""
        self._head.count_target(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Process a header. Count and drop trailers, because the headers have been processed already."""
        self._head.count_field(name, value)
        if not self._head.is_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Process a complete head. The body has its own time limit."""
        self._stop_timer()
        self._head.is_complete = True
        self._unread = self._framing = 0
        self._check_head()
        if self._unfinished and self._should_upgrade():
            raise OrchardError("invalid_request", "a WebSocket can't begin behind a request that is being answered")
        if len(self._unfinished) > _MAX_PIPELINED:
            message = f"more than {_MAX_PIPELINED} requests wait for their turn on this connection"
            raise OrchardError("overloaded", message, retry_after=1)
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._unfinished[self.cycle] = self._head.size
        self._resume_reading()

    def _process_body(self) -> None:
        """Hand over the pieces of the body that have arrived."""
        if not self._pieces:
            return
        body = b"".join(self._pieces)
        self._pieces.clear()
        self._unread = 0
        self._framing -= 2 * len(body)  # their own bytes, and as many of framing
        HttpToolsProtocol.on_body(self, body)
        if sum(len(cycle.body) for cycle, _ in self.pipeline) > _MAX_AHEAD_BYTES:
            message = f"more than {_MAX_AHEAD_BYTES} bytes of bodies wait for their turn on this connection"
            raise OrchardError("payload_too_large", message)
        self._resume_reading()

    def on_message_complete(self) -> None:
        """Process a complete request."""
        self._process_body()
        self._unread = 0
        super().on_message_complete()
        if self.cycle:
            self.cycle.more_body = False  # uvicorn does not set it if the response is complete already

    def on_response_complete(self) -> None:
        """Go on with the next request, or reject it."""
        self._unfinished = {cycle: size for cycle, size in self._unfinished.items() if not cycle.response_complete}
        if self._refusal is None:  # a rejected head may exceed the budget
            self._share.take(self._unread + sum(self._unfinished.values()))
        super().on_response_complete()
        if self._unfinished or self.transport.is_closing():
            return
        if self._refusal:
            self._write_last_error(self._refusal)
        elif self._half_closed:
            self.transport.close()

    def _parse(self, piece: memoryview) -> None:
        try:
            self.parser.feed_data(piece)
            self._process_body()
            self._unread += len(piece)
            self._framing += len(piece)
            heads.check_size(self._unread)
            if self._framing > MOST_FRAMING:
                raise OrchardError("invalid_request", "the chunks of the body are too small: send it in larger ones")
            self._share.take(self._unread + sum(self._unfinished.values()))
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._share.take(0)
                self.handle_websocket_upgrade()
            else:
                self._unsupported_upgrade_warning()
        except httptools.HttpParserError as error:
            cause = error.__context__  # the error of one of our callbacks
            self._refuse(cause if isinstance(cause, OrchardError) else OrchardError("invalid_request", _NO_HTTP))
        except OrchardError as error:
            self._refuse(error)

    def _end_pause(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _check_head(self) -> None:
        """Reject heads that servers may read in different ways. If the target has a host, take it from there."""
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise OrchardError("invalid_request", f"a request must have one Host header, not {hosts}")
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and codings != [b"chunked"]:
            raise OrchardError("invalid_request", "the only Transfer-Encoding that is supported is 'chunked', once")
        if not self.url.startswith((b"/", b"*")):
            self._split_absolute_target()

    def _split_absolute_target(self) -> None:
        """Split the target `http://host/path` into a path and a Host header; it overrides Host (RFC 9112, 3.2.2)."""
        target = httptools.parse_url(self.url)
        if target.host is None:
            raise OrchardError("invalid_request", "the target of the request must be a path")
        host = b"[%s]" % target.host if b":" in target.host else target.host
        port = b":%d" % target.port if target.port else b""
        self.headers[:] = [(b"host", host + port), *(header for header in self.headers if header[0] != b"host")]
        self.url = (target.path or b"/") + (b"?" + target.query if target.query else b"")

    def _resume_reading(self) -> None:
        """Resume reading, which uvicorn pauses while requests wait: otherwise a disconnect would go unnoticed."""
        if self.pipeline:
            self.flow.resume_reading()

    def _expect_head(self) -> None:
        self._stop_timer()
        limit = self._settings.head_timeout
        late = OrchardError("timeout", f"the headers of the request did not arrive within {limit:g} seconds")
        self._timer = self.loop.call_later(limit, self._refuse, late)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _end_incomplete_request(self) -> None:
        """End the newest request if its body is not complete, because the rest will never arrive."""
        if self.cycle in self._unfinished and self.cycle.more_body:
            del self._unfinished[self.cycle]
            if self.pipeline:
                self.pipeline.popleft()
            _disconnect_cycle(self.cycle)

    def _refuse(self, error: OrchardError) -> None:
        """Stop reading, and send the error once the earlier requests have been answered."""
        self._stop_timer()
        self._refusal = error
        self._end_incomplete_request()
        if self._unfinished:
            return
        if self.cycle and self.cycle.more_body and self.cycle.response_started:
            self.transport.close()  # its response has begun
        else:
            self._write_last_error(error)

    def _write_last_error(self, error: OrchardError) -> None:
        """Write a response, and close the connection later: closing it at once may destroy the response."""
        self._write_error(error)
        self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _write_error(self, error: OrchardError) -> None:
        """Write an error response without the application."""
        request_id = f"req_{uuid.uuid4().hex}"
        status, headers, body = openai_error_answer(error)
        log.info("%s rejected with %d: %s", request_id, status, error.message)
        own = {"content-length": str(len(body)), "connection": "close", "x-request-id": request_id}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in (headers | own).items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)

    def _probe(self, pauses: Sequence[float]) -> None:
        """Find out whether a client that has closed its sending side is gone: then it answers with a reset. The probe
        is an interim response, which HTTP/1.1 allows before a response. A response that has begun is a probe itself."""
        sock = self.transport.get_extra_info("socket")
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        if self.transport.is_closing() or not pauses:
            return
        oldest = next(iter(self._unfinished), None)
        if oldest and not oldest.response_started and oldest.scope["http_version"] == "1.1":
            self.transport.write(_CONTINUE)
        self._timer = self.loop.call_later(pauses[0], self._probe, pauses[1:])


def _disconnect_cycle(cycle: RequestResponseCycle) -> None:
    """Tell a request that its client has disconnected."""
    cycle.disconnected = True
    cycle.message_event.set()
