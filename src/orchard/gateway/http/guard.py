"""Checks of a request's API key, its Host header, and the origin of the web page that sent it.

A page of any site can make a browser send requests to this machine. A site whose name resolves to this machine's
address later (DNS rebinding) can also read the responses.
"""

import ipaddress
import re

from starlette.datastructures import Headers
from starlette.types import Scope

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.caller import Callers

_KEY_HEADERS = ("x-api-key", "api-key")
_KEY_PROTOCOL = "openai-insecure-api-key."
# Requests that need no key: those of health probes, and Open WebUI's for the names of voices.
_OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/"), ("HEAD", "/")}
_OPEN |= {("GET", "/v1/audio/voices"), ("GET", "/audio/voices")}
KEPT_IMAGES = "/v1/images/made/"
"""The path of the images whose URLs answers contain. They need no key, because an <img> sends none."""
CONSOLE_FILES = "/console/"
"""The path of the console's files, which need no key: the page asks for one."""
_READS = ("GET", "HEAD", "OPTIONS")
_ELSEWHERE = {"cross-site", "same-site"}
_APP = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*://.*|https?://tauri\.localhost")
# A name or an address (IPv6 in brackets), with or without a port.
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)(?:%[^\]]*)?\]|([^\s:/?#@\[\]]+?)\.?)(?::\d{0,5})?")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_key(callers: Callers, scope: Scope) -> None:
    """Set the caller of a request (`request.state.caller`) by its key: Authorization: Bearer, x-api-key or api-key.

    OPTIONS, which browsers use for CORS preflights, needs no key. Raise OrchardError("unauthorized").
    """
    headers = Headers(scope=scope)
    given = [value for name in _KEY_HEADERS for value in headers.getlist(name)]
    for value in headers.getlist("authorization"):
        scheme, _, key = value.partition(" ")
        if scheme.lower() == "bearer":
            given.append(key)
    if scope["type"] == "websocket":  # browsers can't set headers of one, so OpenAI's SDK puts the key here
        offered = (name.strip() for value in headers.getlist("sec-websocket-protocol") for name in value.split(","))
        given += [name.removeprefix(_KEY_PROTOCOL) for name in offered if name.startswith(_KEY_PROTOCOL)]
    # Strip bytes, not text: in Latin-1, the last byte of a UTF-8 letter may be a space.
    caller = callers.identify(key.encode("latin-1").strip() for key in given).with_address(scope.get("client"))
    scope["state"]["caller"] = caller
    method = scope.get("method")  # a WebSocket has none
    prefixes = (KEPT_IMAGES, CONSOLE_FILES)
    is_open = (method, scope["path"]) in _OPEN or (method == "GET" and scope["path"].startswith(prefixes))
    if not caller.known and method != "OPTIONS" and not is_open:
        wrong = "the API key is wrong" if given else "an API key is needed"
        message = f"{wrong}: send one of this server's keys as 'Authorization: Bearer KEY', x-api-key or api-key"
        raise OrchardError("unauthorized", message)
    if method == "POST":
        callers.remember(scope["state"]["id"], caller)


class Guard:
    """Rejects requests to a host name that is not this server's, unless the server needs keys, and requests other than
    reads from web pages of other origins, unless CORS allows the origin.

    `answers` are the ends of paths that generate answers, which desktop apps may use from their own origins.
    """

    def __init__(self, settings: Settings, answers: tuple[str, ...]) -> None:
        self._answers = answers
        self._any_host = settings.asks_for_keys
        self._hosts = {settings.host.lower(), *settings.allowed_hosts}
        self._origins = set(settings.cors_origins)

    def check(self, scope: Scope) -> None:
        """Raise OrchardError: "forbidden", or "invalid_request" if the Host header has no host."""
        headers = Headers(scope=scope)
        for given in headers.getlist("host"):
            host = host_name(given)
            if host is None:
                message = "the Host header must be a name or an address, with or without a port"
                raise OrchardError("invalid_request", message)
            if not self._any_host and not self._is_own_host(host, scope):
                message = f"'{host}' is not a name of this server: use localhost or its address, or start it with"
                raise OrchardError("forbidden", f"{message} --allowed-host {host}")
        if scope["type"] == "websocket" or scope["method"] not in _READS:
            self._check_origin(scope, headers)

    def _is_own_host(self, host: str, scope: Scope) -> bool:
        address = _parse_address(host)
        if str(address or host) in self._hosts or host == "localhost" or host.endswith(".localhost"):
            return True
        return address is not None and (
            address.is_loopback or address == _parse_address((scope.get("server") or [""])[0])
        )

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        origins = headers.getlist("origin")
        if origins and ("*" in self._origins or self._origins.issuperset(origins)):
            return
        own = [scheme + host.lower() for host in headers.getlist("host") for scheme in ("http://", "https://")]
        if set(own).issuperset(origins) and _ELSEWHERE.isdisjoint(headers.getlist("sec-fetch-site")):
            return
        named = origins[0].encode("ascii", "backslashreplace").decode() if origins else "another site"
        if not origins or not all(map(_APP.fullmatch, origins)):
            message = f"a web page of {named} may not do this: start the server with --cors-origin to allow it"
            raise OrchardError("forbidden", message)
        asks = scope["type"] == "websocket" or scope["method"] == "POST"
        if not asks or not scope["path"].endswith(self._answers):
            message = f"an application of the origin {named} may only ask for answers, unless --cors-origin names it"
            raise OrchardError("forbidden", message)


def host_name(authority: str) -> str | None:
    """Return the name or the address in a Host header, without port, brackets and final dot; None if it has none."""
    found = _AUTHORITY.fullmatch(authority.strip().lower())
    return (found[1] or found[2]) if found else None


def _parse_address(host: str) -> Address | None:
    """Return an IP address, as IPv4 if it is an IPv4-mapped IPv6 address; None if `host` is not an address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
