"""HTTP/1.1 to servers that nobody vouches for: what arrives costs the same, into however small pieces it is cut.

httpx's own transport spends some 20 µs on each chunk, and reads each segment of TCP by itself.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import httptools
import httpx

from orchard.gateway.http.heads import MAX_BYTES, MAX_FIELDS
from orchard.gateway.http.pace import MOST_FRAMING, ReadPace

T = TypeVar("T")

LEAST_RATE = 4 * 1024
"""Bytes of content per second that a server must send on average after `GRACE_SECONDS`."""
GRACE_SECONDS = 10.0
_READ_BYTES = 16 * 1024


class SlowServerError(httpx.ReadTimeout):
    """The content arrives at less than `LEAST_RATE`."""


class FineChunksError(httpx.RemoteProtocolError):
    """The framing of the content is larger than the content."""


class MediaTransport(httpx.AsyncBaseTransport):
    """Opens a connection for each request, to the address in the request's URL, and sends its head.

    The request's extension `timeout` has the seconds for a connection (`connect`), and for the whole head of the
    response and then each piece of content (`read`). The certificate must have the name `sni_hostname`.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return a response whose content is still to be read. Raise httpx.TransportError."""
        limits = request.extensions["timeout"]
        wire = _Wire()
        try:
            async with _time_limit(_loop_time() + limits["connect"], httpx.ConnectTimeout("")):
                try:
                    await wire.connect(request, self._context)
                except OSError:
                    raise httpx.ConnectError("") from None
            content = _Content(wire, limits["read"])
            await content.read_head(request)
        except BaseException:
            wire.close()
            raise
        return httpx.Response(content.message.status, headers=content.message.headers, stream=content)


class _Content(httpx.AsyncByteStream):
    """The content of a response, as it arrives. `silence`: for how many seconds the server may send nothing."""

    def __init__(self, wire: "_Wire", silence: float) -> None:
        self.message = _Message()
        self._wire = wire
        self._silence = silence
        self._received = 0

    async def read_head(self, request: httpx.Request) -> None:
        """Send a request, and wait for the head of the response."""
        lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
        lines += [b"%s: %s" % header for header in request.headers.raw]
        async with _time_limit(_loop_time() + self._silence, httpx.ReadTimeout("")):
            await self._wire.send(b"\r\n".join([*lines, b"", b""]))
            while not self.message.has_head:
                await self._read()
                if not self.message.has_head and self._received > MAX_BYTES:  # with interim responses
                    raise httpx.RemoteProtocolError("")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begin, size = _loop_time(), 0
        while True:
            piece = self.message.take()
            size += len(piece)
            if self._received > MAX_BYTES + MOST_FRAMING + 2 * size:
                raise FineChunksError("")
            if piece:
                yield piece
            if self.message.is_complete:
                return
            silent, slow = _loop_time() + self._silence, begin + GRACE_SECONDS + size / LEAST_RATE
            async with _time_limit(min(silent, slow), httpx.ReadTimeout("") if silent < slow else SlowServerError("")):
                await self._read()

    async def aclose(self) -> None:
        self._wire.close()

    async def _read(self) -> None:
        try:
            data = await self._wire.receive()
        except OSError:
            raise httpx.ReadError("") from None
        self._received += len(data)
        self.message.feed(data)


class _Message:
    """Parses a response, and the interim ones before it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = self.is_complete = False
        self._pieces: list[bytes] = []
        self._end: int | None = None
        # The parser calls this for each chunk: no Python code runs.
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Parse what has arrived, or the end if that is nothing. Raise httpx.RemoteProtocolError."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self.is_complete:  # what follows the response doesn't matter
                raise httpx.RemoteProtocolError("") from None
        if not data and not self.is_complete:
            if not self.has_head or {b"content-length", b"transfer-encoding"} & {name for name, _ in self.headers}:
                raise httpx.RemoteProtocolError("")
            self.is_complete = True

    def take(self) -> bytes:
        """Return the content that has arrived since the last call."""
        content = b"".join(self._pieces[: self._end])
        self._pieces.clear()
        return content

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, unless it is a trailer."""
        if not self.has_head:
            self.headers.append((name.lower(), value))
        if len(self.headers) > MAX_FIELDS:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        """Begin the content; forget an interim response."""
        if self.has_head:
            return
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= 200
        if not self.has_head:
            self.headers.clear()
        elif any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            raise ValueError("an unknown transfer encoding")

    def on_message_complete(self) -> None:
        """Mark the end of the content."""
        if self.has_head and not self.is_complete:
            self.is_complete, self._end = True, len(self._pieces)


class _Wire:
    """A connection. While nothing is read, small segments gather in the system's buffer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace = ReadPace(self._loop.time)
        self._pause = 0.0
        self._sock: socket.socket | None = None
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()

    async def connect(self, request: httpx.Request, context: ssl.SSLContext) -> None:
        """Connect, with TLS if the scheme is https. Raise OSError."""
        url = request.url
        is_tls = url.scheme == "https"
        self._sock = socket.socket(socket.AF_INET6 if ":" in url.host else socket.AF_INET, socket.SOCK_STREAM)
        self._sock.setblocking(False)
        await self._loop.sock_connect(self._sock, (url.host, url.port or (443 if is_tls else 80)))
        if is_tls:
            name = request.extensions["sni_hostname"]
            self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)
            await self._step(self._tls.do_handshake)

    async def send(self, data: bytes) -> None:
        """Send everything. Raise OSError."""
        if self._tls:
            tls = self._tls
            await self._step(lambda: tls.write(data))
        else:
            await self._send(data)

    async def receive(self) -> bytes:
        """Return what has arrived, at least a byte, or b"" at the end. Raise OSError."""
        if not self._tls:
            return await self._receive()
        tls = self._tls
        data = b""
        with contextlib.suppress(ssl.SSLEOFError):  # many servers end a connection without saying so in TLS
            data = await self._step(lambda: tls.read(_READ_BYTES))
        records = [data]
        with contextlib.suppress(ssl.SSLError):  # the next call meets it again
            while records[-1]:
                records.append(tls.read(_READ_BYTES))
        return b"".join(records)

    def close(self) -> None:
        """Close the connection."""
        if self._sock:
            self._sock.close()

    async def _step(self, work: Callable[[], T]) -> T:
        """Do a step of TLS with what it needs from the network."""
        while True:
            try:
                result = work()
            except ssl.SSLWantReadError:
                await self._send(self._out.read())
                if data := await self._receive():
                    self._in.write(data)
                else:
                    self._in.write_eof()
            else:
                await self._send(self._out.read())
                return result

    async def _send(self, data: bytes) -> None:
        assert self._sock
        await self._loop.sock_sendall(self._sock, data)

    async def _receive(self) -> bytes:
        assert self._sock
        await asyncio.sleep(self._pause)
        data = await self._loop.sock_recv(self._sock, _READ_BYTES)
        self._pause = 0.0 if len(data) == _READ_BYTES else self._pace.pause(1)
        return data


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


@contextlib.asynccontextmanager
async def _time_limit(when: float, late: httpx.TimeoutException) -> AsyncIterator[None]:
    """Raise `late` if the context lasts longer."""
    try:
        async with asyncio.timeout_at(when):
            yield
    except TimeoutError:
        raise late from None
