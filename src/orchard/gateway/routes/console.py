"""The console: pages for people at `/`, whose files are in the folder `console`. They load nothing from elsewhere."""

import gzip
import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

import orchard
from orchard.gateway.http.guard import CONSOLE_FILES

FOLDER = Path(orchard.__file__).parent / "console"
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src data: blob:",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
"""No inline scripts, no scripts from strings, and no text that becomes HTML: answers of models are untrusted."""
_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".md": "text/markdown",
    ".svg": "image/svg+xml",
}


class _File(Struct, frozen=True):
    body: bytes
    zipped: bytes
    headers: dict[str, str]


def add_console_routes(routes: APIRouter) -> None:
    """Add the routes of the files, except the page itself, which is at `/`."""

    @routes.get(CONSOLE_FILES + "{name:path}", include_in_schema=False)
    def get_file(http: Request, name: str) -> Response:  # in a thread, because it reads a file
        return file_response(http, name)


def file_response(http: Request, name: str) -> Response:
    """Return a file of the console, or a 304 if the browser has it. Raise HTTPException (404)."""
    if name not in _names():
        raise HTTPException(404)
    file = _load(name)
    if http.headers.get("if-none-match") == file.headers["etag"]:
        return Response(status_code=304, headers=file.headers)
    if "gzip" in http.headers.get("accept-encoding", ""):
        return Response(file.zipped, headers=file.headers | {"content-encoding": "gzip"})
    return Response(file.body, headers=file.headers)


@cache
def _names() -> frozenset[str]:
    """Return the names of all files: no request can name another one."""
    return frozenset(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*") if file.suffix in _MEDIA_TYPES)


@cache
def _load(name: str) -> _File:
    body = (FOLDER / name).read_bytes()
    headers = {
        "content-type": f"{_MEDIA_TYPES[Path(name).suffix]}; charset=utf-8",
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
        "etag": f'"{hashlib.sha256(body).hexdigest()[:16]}"',
        "vary": "Accept, Accept-Encoding",
    }
    return _File(body, gzip.compress(body), headers)
