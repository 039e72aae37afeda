"""Media of every kind of brokenness, from hosts of every kind: nothing fails, and no private address is asked.

`FUZZ_REQUESTS` says how many requests there are, and `FUZZ_SEED` chooses others, as in tests/e2e/test_fuzz.py.
"""

import asyncio
import base64
import ipaddress
import json
import random
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from orchard.config import Settings
from orchard.core.media import MAX_BYTES
from orchard.gateway.media.fetch import Fetcher
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app import create_app
from tests.support.fuzzing import AMOUNT, SEED, Call, check_error

AT_ONCE = 8

GIF_BOMB = b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0" * 6 + b",\0\0\0\0\xff\xff\xff\xff\0\x08" + b"\xff" * 40
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="http://127.0.0.1/"/></svg>'
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FILES = [
    PNG, PNG[:20], PNG[:-5], GIF_BOMB, SVG, b"", b"\0", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"\xff\xd8\xff\xe0" * 9,
    b"%PDF-1.7", b"ID3\4\0\0\x7f\x7f\x7f\x7f", b"fLaC", b"\0\0\0\x18ftypmp42", "naïve".encode(), b"<!doctype html>",
    b"x" * 70_000,
]  # fmt: skip
TYPES = [
    "image/png", "image/gif", "image/svg+xml", "audio/wav", "video/mp4", "application/pdf", "text/plain", "text/html",
    "application/octet-stream", "", "x", "IMAGE/PNG", "image/png;charset=utf-8", "é/x", "image/png,", "\0",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104
    "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
    "ff02::1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700::1111"]
HOSTS = [
    *PRIVATE, *PUBLIC, *["public.test"] * 70, *["changing.test"] * 30, "private.test", "several.test", "unknown.test",
    "localhost", "0x7f000001", "2130706433", "127.1", "a..b", "", "x" * 300, "ann:pw@public.test", "public.test:99999",
    "ПУБ.test",
]  # fmt: skip
PLACES = [
    "/picture",
    "/page",
    "/none",
    "/huge",
    "/empty",
    "/packed",
    "/broken",
    "/slow",
    "/gone",
    "/loop",
    "/away",
    "/up",
    "/out",
]


def _address(rng: random.Random) -> str:
    host = rng.choice(HOSTS)
    place = rng.choice(PLACES)
    return f"{rng.choice(['http', 'http', 'https', 'HTTP'])}://{f'[{host}]' if ':' in host[:6] else host}{place}"


def _data(rng: random.Random) -> str:
    text = base64.b64encode(rng.choice(FILES)).decode()
    match rng.randrange(9):
        case 0:
            return text[: rng.randrange(len(text) + 1)]
        case 1:
            place = rng.randrange(len(text) + 1)
            return text[:place] + rng.choice(["=", "\n", " ", "é", "-", "%3D", "\0", "data:"]) + text[place:]
        case 2:
            return "A" * (MAX_BYTES["image"] // 3 * 4 + 8) if rng.random() < 0.02 else text * 3
    return text


def _url(rng: random.Random) -> str:
    match rng.randrange(8):
        case 0:
            return rng.choice(
                [
                    "file:///etc/passwd",
                    "file://localhost/etc/passwd",
                    "ftp://public.test/a",
                    "data:",
                    "data:,x",
                    "x",
                    "",
                    "//x",
                ]
            )
        case 1 | 2:
            return f"data:{rng.choice(TYPES)}{rng.choice([';base64', ';base64', ';base64', ''])},{_data(rng)}"
    return _address(rng)


def _chat(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        [
            {"type": "image_url", "image_url": {"url": _url(rng), "detail": rng.choice([None, "low", "x"])}},
            {"type": "image_url", "image_url": _url(rng)},
            {
                "type": "input_audio",
                "input_audio": {"data": _data(rng), "format": rng.choice(["wav", "mp3", "x", None])},
            },
            {"type": "video_url", "video_url": {"url": _url(rng)}},
            {
                "type": "file",
                "file": {"file_data": _data(rng), "filename": rng.choice(["a.png", "a.pdf", "", "\0", None])},
            },
            {"type": "file", "file": {"file_data": _url(rng), "file_id": rng.choice([None, "file_1"])}},
        ]
    )


def _response(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        [
            {"type": "input_image", "image_url": _url(rng), "detail": rng.choice([None, "auto", 5])},
            {"type": "input_image", "file_id": "file_1"},
            {"type": "input_audio", "input_audio": {"data": _data(rng), "format": "flac"}},
            {"type": "input_file", "file_url": _url(rng), "filename": rng.choice([None, "a.mp4"])},
            {"type": "input_file", "file_data": _data(rng), "filename": rng.choice([None, "a.gif"])},
        ]
    )


def _message(rng: random.Random) -> dict[str, Any]:
    source = rng.choice(
        [
            {"type": "base64", "media_type": rng.choice(TYPES), "data": _data(rng)},
            {"type": "url", "url": _url(rng)},
            {"type": "file", "file_id": "file_1"},
            {"type": rng.choice(["text", "content", "x"]), "data": _data(rng), "content": "x"},
        ]
    )
    return {"type": rng.choice(["image", "document"]), "source": source, "title": rng.choice([None, "t"])}


ROUTES: dict[str, tuple[str, Callable[[random.Random], dict[str, Any]]]] = {
    "chat/completions": ("messages", _chat),
    "responses": ("input", _response),
    "responses/input_tokens": ("input", _response),
    "messages": ("messages", _message),
    "messages/count_tokens": ("messages", _message),
}


def request(seed: str) -> Call:
    """Make a request with some media; a field of its own may say something odd of them all."""
    rng = random.Random(seed)
    path = rng.choice(list(ROUTES))
    field, part = ROUTES[path]
    body: dict[str, Any] = {"model": "fake", "max_tokens": 9, "stream": rng.random() < 0.2}
    body[field] = [{"role": "user", "content": [part(rng) for _ in range(rng.choice([1, 1, 1, 1, 3]))]}]
    if rng.random() < 0.1:
        name = rng.choice(["resize_shape", "min_pixels", "max_pixels", "fps", "max_frames"])
        body[name] = rng.choice([[1], [1, 2], [], [0], 1, 0, -1, 2**40, 0.5, "x", None])
    return Call("POST", f"/v1/{path}", {"content-type": "application/json"}, json.dumps(body).encode())


class Internet(httpx.AsyncBaseTransport):
    """Names that change from lookup to lookup, and servers that answer as their paths say."""

    def __init__(self) -> None:
        self._rng = random.Random(SEED)
        self.asked: Counter[str] = Counter()

    def __call__(self, _: Any) -> "Internet":
        return self

    def lookup(self, host: str, port: int, **flags: Any) -> Any:
        choices = {
            "public.test": PUBLIC[:1],
            "private.test": [self._rng.choice(PRIVATE)],
            "changing.test": [self._rng.choice([*PUBLIC, *PRIVATE])],
            "several.test": [PUBLIC[0], self._rng.choice(PRIVATE)],
        }
        if host in choices:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in choices[host]]
        return socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, **flags)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked[request.url.host] += 1
        answer = self._answers().get(request.url.path, httpx.Response(404))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answers(self) -> dict[str, httpx.Response | Exception]:
        elsewhere = f"http://{self._rng.choice(HOSTS)}/picture".encode("ascii", "replace").decode()
        media_type = self._rng.choice(["image/png", "audio/wav", "application/pdf"])
        return {
            "/picture": _answer(self._rng.choice(FILES), content_type=media_type),
            "/page": _answer(b"<!doctype html>", content_type="text/html"),
            "/huge": _answer(b"x", content_length=str(2**40)),
            "/empty": _answer(b""),
            "/packed": _answer(b"\x1f\x8b", content_encoding="gzip"),
            "/broken": httpx.RemoteProtocolError("it ends too early"),
            "/slow": httpx.ReadTimeout("nothing comes"),
            "/gone": httpx.ConnectError("nobody listens"),
            "/loop": _answer(b"", 302, location="/loop"),
            "/away": _answer(b"", 301, location=elsewhere),
            "/up": _answer(b"", 307, location="file:///etc/passwd"),
            "/out": _answer(b"x", content_length="?"),
        }


def _answer(content: bytes, status: int = 200, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=given, stream=httpx.ByteStream(content))


@pytest.mark.timeout(3600)
async def test_broken_media() -> None:
    settings = Settings(responses_path=":memory:")
    internet = Internet()
    pool = Pool(Registry([ModelEntry("fake", "fake", 1000, "fake", configured=True)]), settings)
    app = create_app(pool, settings, Fetcher(False, internet.lookup, internet))
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    waiting = iter([f"{SEED}:{number}" for number in range(AMOUNT)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=60) as client:

        async def send() -> None:
            for seed in waiting:
                call = request(seed)
                try:
                    answer = await client.post(call.path, content=call.content, headers=call.headers)
                    outcomes[str(answer.status_code)] += 1
                    assert answer.status_code in (200, 400, 413), answer.text
                    if answer.status_code != 200:
                        check_error(call, answer)
                except Exception as error:
                    faults.append(f"{seed}: {type(error).__name__}: {error!s:.600}\n    {call.content!r:.2000}")

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
    (worker,) = [process for process in pool.processes.workers if process.loads]
    assert (worker.loads, worker.failure) == (1, None)
    await pool.close()
    print(f"{AMOUNT} requests: {dict(outcomes.most_common())}; {sum(internet.asked.values())} fetches")
    assert not faults, f"{len(faults)} of {AMOUNT} fail:\n" + "\n".join(faults[:20])
    assert internet.asked.keys() <= set(PUBLIC)
    assert not any(ipaddress.ip_address(address).is_private for address in internet.asked)
    assert outcomes["200"]
    assert outcomes["400"]
