"""Advice for a path that is not served: the route that was probably meant, or what is not served at all."""

import difflib
import re
from collections.abc import Collection

_MOST_SHOWN = 200
# Longer than any route.
_MOST_CHARS = 1000
_MOST_PARTS = 12
_ALIKE = 0.88
# Parameters of a route that may contain slashes, and others.
_PATH, _NAME = re.compile(r"\{\w+:path\}"), re.compile(r"\{\w+\}")

# By a segment of the path that no route has.
_NOT_SERVED = {
    "realtime": "realtime sessions are served over a WebSocket at /v1/realtime only: WebRTC and SIP calls, client "
    "secrets and translations are not served",
    "assistants": "assistants and threads are not served; /v1/responses and /v1/conversations are",
    "threads": "assistants and threads are not served; /v1/responses and /v1/conversations are",
    "batches": "batches are not served; send the requests one by one, as many at once as you like",
    "files": "files are not served; send their text in the messages",
    "fine_tuning": "fine-tuning is not served",
    "moderations": "moderations are not served",
    "vector_stores": "vector stores are not served",
    "videos": "videos are not served",
}
# Routes of other servers: llama.cpp and small servers.
_ELSEWHERE = {
    "/v1": "it is the beginning of routes such as /v1/chat/completions",
    "/chat": "use /v1/chat/completions",
    "/v1/chat": "use /v1/chat/completions",
    "/completion": "use /v1/completions",
    "/generate": "use /v1/completions",
    "/v1/generate": "use /v1/completions",
    "/v1/images/variations": "use /v1/images/edits",
    "/slots": "use /health",
    "/props": "use /v1/models",
}


def advise_on_path(path: str, known: Collection[str]) -> str:
    """Complete the sentence about a path that is not served; `known` are the paths of routes in FastAPI's form."""
    parts = [part for part in path.split("/") if part]
    plain = "/" + "/".join(parts)
    if len(path) <= _MOST_CHARS and len(parts) <= _MOST_PARTS:
        served = {part for route in known for part in route.split("/")}
        if unserved := next((_NOT_SERVED[part] for part in parts if part in _NOT_SERVED.keys() - served), None):
            return unserved
        if meant := _ELSEWHERE.get(plain) or _advise_known_path(parts, known):
            return f"no such route; {meant}"
    return "no such route; /docs lists all routes"


def shorten_path(path: str) -> str:
    """Shorten a path for a message."""
    return path if len(path) <= _MOST_SHOWN else path[:_MOST_SHOWN] + "…"


def _advise_known_path(parts: list[str], known: Collection[str]) -> str | None:
    """Advise to use the longest end of a path that is a route by itself or below /v1, else a similar route."""
    patterns = [re.compile(_NAME.sub("[^/]+", _PATH.sub(".+", path))) for path in known]
    fixed = [path for path in known if "{" not in path]
    for begin in range(len(parts)):
        end = "/".join(parts[begin:])
        ends = (f"/v1/{end}", f"/{end}")
        for path in ends:
            if any(pattern.fullmatch(path) for pattern in patterns):
                return f"use {shorten_path(path)}"
        for path in ends:
            if similar := difflib.get_close_matches(path, fixed, n=1, cutoff=_ALIKE):
                return f"use {similar[0]}"
    return None
