"""Real requests, made wrong at random places: what the fuzzers of tests/e2e send, and what all fuzzers check.

`mutated` is a function of its seed alone, so a failure's number is all that is needed to see it again.
"""

import asyncio
import copy
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from tests.support.mutation import places
from tests.support.serving import Server

AMOUNT = int(os.environ.get("FUZZ_REQUESTS", "400"))
"""How many mutations to send; each test takes its share."""
SEED = os.environ.get("FUZZ_SEED", "1")
_AT_ONCE = 8
_FILE = Path(__file__).parents[1] / "e2e" / "requests.jsonl"


class Call(NamedTuple):
    """One HTTP request; `content` None sends no body."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes | None


class Captured(NamedTuple):
    """A request as a client sent it."""

    client: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any

    def call(self) -> Call:
        """The request as it was."""
        content = None if self.body is None else json.dumps(self.body).encode()
        headers = {"content-type": "application/json", **self.headers} if content else self.headers
        return Call(self.method, self.path, headers, content)


def sent_to(*models: str) -> list[Captured]:
    """Return the requests that name one of these models, in the body or the path; for `demo` also those without one."""
    captured = [Captured(**json.loads(line)) for line in _FILE.read_text().splitlines()]
    return [one for one in captured if _model_of(one) in models]


def _model_of(request: Captured) -> str:
    named = re.search(r"/deployments/([^/]+)/", request.path)
    return named[1] if named else (request.body or {}).get("model", "demo")


class _Twice(dict[str, Any]):
    """An object that writes its members twice."""

    def items(self) -> Any:
        return [*super().items(), *super().items()]


# JSON that no Python value is written as; the placeholder is a string, which is replaced with its quotes.
_RAW = {
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@overflow@": "1e999",
    "@digits@": "9" * 5000,
    "@lists@": "[" * 3000 + "]" * 3000,
    "@objects@": '{"type":' * 1500 + "1" + "}" * 1500,
    "@surrogate@": '"\\ud800"',
    "@control@": '"a\x01b"',
    "@escape@": '"\\x41"',
}
_ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, 0.0, -0.0, 0.1, 1.5,
    1e-320, 1e308, -1e308, "", " ", "\0", "x", "0", "5", "null", "true", "NaN", "auto", "none", "any", "required",
    "low", "text", "user", "system", "tool", "assistant", "function", "demo", "Hello", "What is 12 + 30?", "\n\n",
    "\ud800", "a\u0301", "\u202e\u200b\ufeff", "😀" * 3, "日本語", "<|im_end|>", "<think>", "</think>", "<tool_call>",
    "{}", "[]", '{"a": 1}', "data:image/png;base64,AAAA", "data:,", "http://127.0.0.1:1/a.png",
    "file:///etc/passwd", "../../x", "%00", "x" * 70_000, "ab " * 3000, [], [None], [[]], [1, "a", {}], [{}] * 30,
    ["x"] * 300, {}, {"": ""}, {"type": "text"}, {"type": None}, {"type": "function"},
    {"type": "text", "text": "hi"}, {"type": "object", "properties": {}}, {"a": {"b": {"c": [1]}}}, {"$ref": "#"},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, {"role": "user", "content": "hi"},
    {"enum": []}, {"type": "string", "pattern": "("}, {"type": "string", "minLength": 10**9}, *_RAW,
]  # fmt: skip


def _wrong_value(rng: random.Random, body: Any) -> Any:
    """Change one member of a body, somewhere."""
    here = places(body)
    if not here:
        return copy.deepcopy(rng.choice(_ODD))
    container, key = rng.choice(here)
    names = [name for within, name in here if isinstance(within, dict)]
    match rng.randrange(9):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container[key:key] = [container[key]] * rng.choice([1, 1, 3, 200])
        case 2 if isinstance(container, dict):
            container[rng.choice([*names, "", "x", "type"])] = container.pop(key)
        case 3:
            other, place = rng.choice(here)
            container[key] = copy.deepcopy(other[place])
        case 4:
            container[key] = [container[key]]
        case 5:
            container[key] = {rng.choice(["type", "text", "value", "x"]): container[key]}
        case 6 if isinstance(container, dict):
            container[rng.choice(["x", "", "ключ", *names])] = copy.deepcopy(rng.choice(_ODD))
        case _:
            container[key] = copy.deepcopy(rng.choice(_ODD))
    return body


def _written(rng: random.Random, body: Any) -> bytes:
    """Write a body as JSON; seldom with members that are there twice, or in unusual ways."""
    if rng.random() < 0.05 and (objects := [c for c, _ in places(body) if isinstance(c, dict)]):
        chosen = rng.choice(objects)
        twice = _Twice(chosen)
        body = _replaced(body, chosen, twice)
    text = json.dumps(body, ensure_ascii=rng.random() < 0.7, indent=rng.choice([None, None, None, 1]))
    for placeholder, raw in _RAW.items():
        text = text.replace(f'"{placeholder}"', raw)
    return text.encode(errors="surrogatepass")


def _replaced(value: Any, old: Any, new: Any) -> Any:
    if value is old:
        return new
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    return [_replaced(item, old, new) for item in value] if isinstance(value, list) else value


_BREAKS: list[Callable[[random.Random, bytes], bytes]] = [
    lambda rng, text: text[: rng.randrange(len(text) + 1)],
    lambda rng, text: text[rng.randrange(len(text) + 1) :],
    lambda rng, text: _with_byte(rng, text, bytes([rng.randrange(256)])),
    lambda rng, text: _with_byte(rng, text, rng.choice([b"{", b"}", b"[", b'"', b",", b"\\", b"\xff", b"\0"])),
    lambda rng, text: text + rng.choice([b"}", b"\n", b"\0", b"null", text]),
    lambda rng, text: b"\xef\xbb\xbf" + text,
    lambda rng, text: text.decode(errors="replace").encode("utf-16"),
    lambda rng, text: rng.choice([b"", b" ", b"null", b"[]", b"{}", b"1", b'"x"', b"model=demo&messages=hi"]),
]


def _with_byte(rng: random.Random, text: bytes, byte: bytes) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + byte + text[at + rng.randrange(2) :]


_HEADERS: list[tuple[str, list[str | None]]] = [
    ("content-type", [None, "", "text/plain", "application/xml", "application/x-www-form-urlencoded", "json",
                      "multipart/form-data", "application/json; charset=latin-1", "application/JSON", "a/b; c=\"d"]),
    ("accept", ["text/event-stream", "application/json", "image/png", "", "*/*;q=x"]),
    ("authorization", ["Bearer none", "Bearer", "Basic eDp5", "", "\xff"]),
    ("anthropic-version", [None, "2023-06-01", "1999-01-01", "", "x" * 2000]),
    ("anthropic-beta", ["a,b", "", ",,,"]),
    ("x-orchard-priority", ["interactive", "background", "x", ""]),
    ("content-encoding", ["gzip", "identity", "br"]),
    ("x-api-key", ["", "none"]), ("api-key", ["", "none"]), ("range", ["bytes=0-1"]), ("expect", ["x"]),
    ("origin", ["null", "http://x"]), ("x-request-id", ["", "a\tb", "x" * 5000]),
]  # fmt: skip


def _wrong_header(rng: random.Random, headers: dict[str, str]) -> dict[str, str]:
    name, values = rng.choice(_HEADERS)
    value = rng.choice(values)
    rest = {key: kept for key, kept in headers.items() if key != name}
    return rest if value is None else rest | {name: value}


def _wrong_path(rng: random.Random, path: str) -> str:
    odd = [
        "",
        "0",
        "-1",
        "9" * 21,
        "x",
        "null",
        "desc",
        "%00",
        "%ff",
        "../x",
        "a/b",
        "é",
        "x" * 2000,
        "%F0%9F",
    ]
    value = rng.choice(odd)
    pieces = re.split(r"(?<=[=/])(\w[\w.-]*)", path)
    names = [index for index in range(1, len(pieces), 2) if pieces[index] not in ("v1", "openai", "deployments")]
    if not names or rng.random() < 0.2:
        name = rng.choice(["api-version", "limit", "x", "beta"])
        return f"{path}{'&' if '?' in path else '?'}{name}={quote(value, '%')}"
    pieces[rng.choice(names)] = quote(value, "%/")
    return "".join(pieces)


def mutated(captured: list[Captured], seed: str) -> Call:
    """Choose one of the requests and make something of it wrong, mostly in its body."""
    rng = random.Random(seed)
    chosen = rng.choice(captured)
    method, path, headers, _ = chosen.call()
    kind = rng.random()
    if kind < 0.04 or chosen.body is None:
        path = _wrong_path(rng, path)
    if 0.04 <= kind < 0.09:
        headers = _wrong_header(rng, headers)
    if 0.09 <= kind < 0.1:
        method = rng.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
    if chosen.body is None:
        return Call(method, path, headers, None)
    body = copy.deepcopy(chosen.body)
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 3, 6])):
        body = _wrong_value(rng, body)
    content = _written(rng, body)
    if rng.random() < 0.1:
        content = rng.choice(_BREAKS)(rng, content)
    return Call(method, path, headers, content)


def check_error(call: Call, response: httpx.Response) -> None:
    """An error is an object in the words of the request's dialect."""
    if call.method == "HEAD":
        return
    body = response.json()
    error = body["error"]
    if call.path.startswith("/api/") and isinstance(error, str):  # Ollama's
        assert error, body
        assert body.keys() == {"error"}, body
        return
    assert isinstance(error["message"], str), body
    assert error["message"], body
    assert isinstance(error["type"], str), body
    anthropic = call.path.startswith("/v1/messages") or "anthropic-version" in call.headers
    if anthropic and not call.path.startswith("/openai/"):
        assert body["type"] == "error", body
        assert isinstance(body["request_id"], str), body
    else:
        assert error.keys() >= {"message", "type", "param", "code"}, body


async def fuzz(
    server: Server, requests: Sequence[Captured], amount: int, models: Sequence[str] = ("demo",), patience: float = 60
) -> Counter[str]:
    """Send the requests as they are, then mutations of those to the models; count what became of them.

    The models' workers must outlive them. A client waits `patience` seconds for the whole answer.
    """
    for name in models:
        server.until(name, state="ready")
    pids = [server.health(name)["pid"] for name in models]
    originals = sent_to(*models)
    outcomes: Counter[str] = Counter()
    calls = [(request.client, request.call()) for request in requests]
    calls += [(f"{SEED}:{number}", mutated(originals, f"{SEED}:{number}")) for number in range(amount)]
    waiting = iter(calls)
    faults: list[str] = []
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

        async def send() -> None:
            for name, call in waiting:
                try:
                    outcomes[await _outcome(client, call, patience)] += 1
                except (AssertionError, LookupError, TypeError, ValueError, httpx.HTTPError) as error:
                    sent = f"{call.method} {call.path} {call.headers} {call.content!r:.3000}"
                    faults.append(f"{name}: {type(error).__name__}: {error!s:.600}\n    {sent}")

        await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
    print(f"{len(calls)} requests: {dict(outcomes.most_common())}")
    assert not faults, f"{len(faults)} of {len(calls)} fail:\n" + "\n".join(faults[:20])
    assert [server.health(name)["pid"] for name in models] == pids
    for name in models:
        server.until(name, state="ready", running=0, waiting=0)
    return outcomes


async def _outcome(client: httpx.AsyncClient, call: Call, patience: float) -> str:
    """Send one request and check its answer; give a word for what became of it."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in call.headers.items()]
    try:
        async with asyncio.timeout(patience):
            response = await client.request(call.method, call.path, headers=headers, content=call.content)
    except TimeoutError:
        return "left"
    assert response.status_code < 500, f"{response.status_code}: {response.text}"
    if response.status_code >= 400:
        check_error(call, response)
    elif response.headers.get("content-type", "").startswith("text/event-stream"):
        _check_stream(response.text)
    elif response.headers.get("content-type") == "application/x-ndjson":
        told = [json.loads(line).get("error", "") for line in response.text.splitlines()]
        assert not any("the server failed" in error for error in told), told
    return str(response.status_code)


def _check_stream(text: str) -> None:
    """Every event holds JSON, and none of them tells of a fault of the server's own."""
    for event in text.split("\n\n"):
        for line in event.split("\n"):
            if line.startswith("data:") and line != "data: [DONE]":
                data: Any = json.loads(line[5:])
                told = str(data.get("error") or (data.get("response") or {}).get("error") or "")
                assert "server_error" not in told, told
                assert "api_error" not in told, told
