"""Fetch media over http and https, only from addresses of the public internet by default."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import httpx
from msgspec.structs import replace

from orchard import __version__
from orchard.core.media import MAX_BYTES, MediaPart
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.common.media import media_kind
from orchard.gateway.media.addresses import is_public
from orchard.gateway.media.errors import check_media_type, file_empty, file_too_large
from orchard.gateway.media.transport import LEAST_RATE, FineChunksError, MediaTransport, SlowServerError

log = logging.getLogger("orchard.gateway.media.fetch")

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 4
_LOOKUPS_AT_ONCE = 16
_CONNECT_SECONDS = 10.0
_SILENT_SECONDS = 20.0
_MOST_PORT = 2**16 - 1
_MOST_TYPE_CHARS = 255  # twice 127 and a slash (RFC 6838, 4.2)

# The first that fits counts.
_REASONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((SlowServerError,), f"its server sends less than {LEAST_RATE} bytes a second"),
    ((FineChunksError,), "its server sends it in chunks that are too small"),
    ((httpx.TimeoutException,), "its server doesn't answer in time"),
    ((httpx.ConnectError,), "its server can't be reached, or has no valid certificate"),
    ((httpx.InvalidURL, httpx.UnsupportedProtocol), "it is not a valid URL, or it redirects to an invalid one"),
    ((ValueError, httpx.ProtocolError), "its server doesn't speak HTTP correctly"),
)

Lookup = Callable[..., list[tuple[Any, Any, Any, Any, tuple[Any, ...]]]]
Transport = Callable[[ssl.SSLContext], httpx.AsyncBaseTransport]


class Fetcher:
    """Fetches media, each over its own connections, without cookies, proxies and credentials.

    It resolves a host name once for each HTTP request, and connects to the address that it has checked. `lookup` is the
    system's resolver; `transport` makes the HTTP transport.
    """

    def __init__(
        self, allow_private: bool, lookup: Lookup = socket.getaddrinfo, transport: Transport = MediaTransport
    ) -> None:
        """`allow_private`: do not check addresses."""
        self._allow_private = allow_private
        self._lookup = lookup
        self._transport = transport
        # A separate pool, because a name server that doesn't answer keeps a thread busy.
        self._names = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="media names")

    async def fetch(self, part: MediaPart, hold: Callable[[int], None]) -> MediaPart:
        """Return a part with the content of its URL, and the media type that the server gives ("" if it gives none).

        A document becomes an image, audio or a video if the server's media type says so. `hold` is called with the
        number of bytes of each piece that arrives, and may raise OrchardError. Raise OrchardError: invalid_request,
        payload_too_large.
        """
        url = part.url
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                target = self._parse_target(part, url)
                addresses = await self._look_up(part, target)
                found = await self._get(part, target, addresses, hold)
                if isinstance(found, MediaPart):
                    log.debug("%s: %d bytes came from %s", part.param, len(found.data), target.host)
                    return found
                url = str(target.join(found))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            raise invalid_field(part.param, f"can't be fetched: {_failure_reason(error)}.") from None
        raise invalid_field(part.param, f"can't be fetched: there are more than {_MOST_REDIRECTS} redirects.")

    def close(self) -> None:
        """Cancel pending name lookups."""
        self._names.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    def _parse_target(self, part: MediaPart, url: str) -> httpx.URL:
        """Return the URL of the next request. Raise httpx.InvalidURL, or OrchardError if it is not allowed."""
        target = httpx.URL(url)
        if target.port is not None and not 0 <= target.port <= _MOST_PORT:  # httpx takes any number
            raise httpx.InvalidURL("the port is out of range")
        if target.scheme not in ("http", "https") or not target.host:
            raise invalid_field(part.param, "leads to something other than an http or https URL.")
        if target.userinfo:
            raise invalid_field(
                part.param, "must be a URL without a user name and a password, and lead to none with them."
            )
        return target

    async def _look_up(self, part: MediaPart, target: httpx.URL) -> list[str]:
        """Return the addresses of a host. Raise OrchardError if it has none, or one that is not public."""
        host, loop = target.raw_host.decode("ascii"), asyncio.get_running_loop()
        port = target.port or (443 if target.scheme == "https" else 80)
        try:
            found = await loop.run_in_executor(
                self._names, lambda: self._lookup(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            )
        except (OSError, UnicodeError):
            found = []
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if not addresses or not (self._allow_private or all(map(is_public, addresses))):
            # The same error for unknown names, so that callers can't find out the names of a private network.
            message = f"can't be fetched: there is no host {host[:256]!r} on the public internet"
            raise invalid_field(part.param, f"{message} (others are allowed with --allow-private-media).")
        return addresses

    async def _get(
        self, part: MediaPart, target: httpx.URL, addresses: list[str], hold: Callable[[int], None]
    ) -> MediaPart | str:
        """Return the part with the content of a URL, or the target of a redirect. Try one address after the other."""
        for last, address in enumerate(addresses, start=1 - len(addresses)):
            transport = self._transport(await asyncio.to_thread(lambda: self._context))
            timeout = httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS)
            # A new client for each request, so that no cookies are kept.
            async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=timeout) as client:
                request = client.build_request(
                    "GET",
                    target.copy_with(host=address, fragment=None),
                    headers={
                        "host": target.netloc.decode("ascii"),
                        "user-agent": f"orchard/{__version__}",
                        "accept-encoding": "identity",
                        "connection": "close",
                    },
                    extensions={"sni_hostname": target.raw_host.decode("ascii")},
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if last < 0:
                        continue
                    raise
                try:
                    return await _read_content(part, response, hold)
                finally:
                    await response.aclose()
        raise AssertionError("there is an address")


async def _read_content(part: MediaPart, response: httpx.Response, hold: Callable[[int], None]) -> MediaPart | str:
    if response.status_code in _REDIRECTS and "location" in response.headers:
        return str(response.headers["location"])
    if response.status_code != 200:
        raise invalid_field(part.param, f"can't be fetched: its server answers with status {response.status_code}.")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise invalid_field(part.param, "can't be fetched: its server sends it compressed.")
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()[:_MOST_TYPE_CHARS]
    check_media_type(part, media_type)
    if part.kind == "document":
        part = replace(part, kind=media_kind(media_type, ""))
    most = MAX_BYTES[part.kind]
    if int(response.headers.get("content-length", 0)) > most:
        raise file_too_large(part)
    pieces: list[bytes] = []
    async for piece in response.aiter_raw():
        most -= len(piece)
        if most < 0:
            raise file_too_large(part)
        hold(len(piece))
        pieces.append(piece)
    data = await asyncio.to_thread(b"".join, pieces)
    if not data:
        raise file_empty(part)
    return replace(part, url="", data=data, media_type=media_type)


def _failure_reason(error: Exception) -> str:
    """Return in a few words why something can't be fetched, without revealing anything about the network."""
    return next((words for kinds, words in _REASONS if isinstance(error, kinds)), "the connection to its server broke")
