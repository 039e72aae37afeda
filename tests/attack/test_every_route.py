"""Hostile hosts, origins and keys against every route and socket of the application, so that new ones are held to it.

Each test walks all routes. A route with a new path parameter needs a value for it in `NAMES`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from socket import create_connection
from typing import Any, NamedTuple, cast

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from orchard.config import Settings
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app import create_app
from orchard.gateway.routes.table import ROUTES
from tests.support.serving import Server, serve
from tests.support.sounds import noise, wav

ANN, BEN, ROOT = "ann-key", "ben-key", "root-key"
SOCKET = "WEBSOCKET"
STORED = ("response_id", "conversation_id", "item_id", "completion_id", "voice_id", "consent_id")
NAMES = {
    "model_id": "fake",
    "deployment": "fake",
    "name": "some.png",
    "request_id": "of_nobody",
    "digest": "sha256:0",
    "job_id": "job_0",
    **dict.fromkeys(STORED, "of_nobody"),
}
OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/"), ("HEAD", "/"), ("GET", "/v1/images/made/{name}")}
OPEN |= {("GET", "/console/{name:path}")}  # the page asks for a key
OPEN |= {("GET", "/v1/audio/voices"), ("GET", "/audio/voices")}  # names alone
"""What needs no key."""
MANAGING = {f"/v1/models/{{model_id:path}}/{what}" for what in ("load", "unload", "pin", "unpin", "download")}
MANAGING |= {f"/api/v1/models/{what}" for what in ("load", "unload", "download", "download/status/{job_id}")}
MANAGING |= {"/unload", "/v1/logs", "/v1/settings", "/api/pull", "/api/delete"}
"""What changes which models are here or in memory, or tells of the server as a whole."""
ELSEWHERE: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
]
ANSWERS = tuple(end for group in ROUTES for end in group.answers)


class Target(NamedTuple):
    """A method, or SOCKET, and a path with its parameters in braces."""

    method: str
    path: str


def walk(
    server: Server,
    targets: list[Target],
    headers: Mapping[str, str],
    names: Mapping[str, str] = NAMES,
    body: object = None,
) -> dict[Target, int]:
    """Send a request, or open a socket, to each of the targets, and return the statuses of the responses."""
    with httpx.Client(base_url=server.url, headers=headers, timeout=30) as client:
        paths = {target: filled(target.path, names) for target in targets}
        return {
            target: handshake(server, path, headers)
            if target.method == SOCKET
            else client.request(target.method, path, json=body).status_code
            for target, path in paths.items()
        }


def filled(path: str, names: Mapping[str, str]) -> str:
    return re.sub(r"{(\w+)(:path)?}", lambda found: names[found[1]], path)


def handshake(server: Server, path: str, headers: Mapping[str, str]) -> int:
    host = headers.get("host", f"127.0.0.1:{server.port}")
    more = {name: value for name, value in headers.items() if name != "host"}
    sock = create_connection(("127.0.0.1", server.port), 30)
    try:
        connect(f"ws://{host}{path}", sock=sock, additional_headers=more).close()
    except InvalidStatus as refused:
        return refused.response.status_code
    return 101


def check(statuses: Mapping[Target, int], status: int, expected: Callable[[Target], bool]) -> None:
    """Check that the targets which are `expected` to have this status, and no others, have it."""
    wrong = {target: found for target, found in statuses.items() if (found == status) != expected(target)}
    assert not wrong


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    settings = Settings(responses_path=":memory:")
    found: list[Target] = []
    for route in cast(Any, create_app(Pool(Registry((), settings), settings), settings))._app.routes:
        if isinstance(route, WebSocketRoute):
            found.append(Target(SOCKET, route.path))
        else:
            assert isinstance(route, Route), f"this test can't ask {route}"
            found += [Target(method, route.path) for method in sorted(route.methods or ())]
    assert len(found) > 150
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def keyless() -> Iterator[Server]:
    with serve(allow_download=True) as server:
        server.until(state="ready")
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = str(tmp_path_factory.mktemp("voices"))
    with serve(api_keys=(ANN, BEN), admin_keys=(ROOT,), allow_download=True, voices_dir=folder) as server:
        server.until(state="ready")
        yield server


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example"])
def test_a_name_that_is_not_this_servers(keyless: Server, targets: list[Target], host: str) -> None:
    check(walk(keyless, targets, {"host": f"{host}:{keyless.port}"}), 403, lambda _: True)


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
@pytest.mark.parametrize("key", [None, ROOT], ids=["no keys", "admin key"])
def test_a_page_of_another_site_only_reads(
    keyless: Server, locked: Server, targets: list[Target], headers: dict[str, str], key: str | None
) -> None:
    server, headers = (locked, headers | {"x-api-key": key}) if key else (keyless, headers)
    check(walk(server, targets, headers), 403, lambda target: target.method not in ("GET", "HEAD"))
    for target in targets:
        if target.method == "GET":  # the browser keeps what it reads from the page
            read = httpx.get(server.url + filled(target.path, NAMES), headers=headers)
            assert not [name for name in read.headers if name.startswith("access-control-")]


def test_a_desktop_app_only_asks_for_answers(keyless: Server, targets: list[Target]) -> None:
    def is_barred(target: Target) -> bool:
        return target.method not in ("GET", "HEAD") and not (
            target.method in ("POST", SOCKET) and target.path.endswith(ANSWERS)
        )

    check(walk(keyless, targets, {"origin": "app://x"}), 403, is_barred)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"x-api-key": ANN[:-1]}], ids=str)
def test_a_caller_without_a_key(locked: Server, targets: list[Target], headers: dict[str, str]) -> None:
    check(walk(locked, targets, headers), 401, lambda target: target not in OPEN)


def test_a_key_opens_every_route_but_those_of_admin_keys(locked: Server, targets: list[Target]) -> None:
    assert {path for _, path in targets} >= MANAGING
    for key in (ROOT, BEN):
        found = walk(locked, targets, {"x-api-key": key, "host": "any.example"})
        check(found, 401, lambda _: False)
        check(found, 403, lambda target, key=key: key == BEN and target.path in MANAGING)  # type: ignore[misc]


def post(server: Server, key: str, path: str, **body: object) -> Any:
    response = httpx.post(server.url + path, json=body, headers={"x-api-key": key}, timeout=30)
    assert response.is_success, response.text
    return response.json()


def post_recording(server: Server, path: str, file: str, **fields: str) -> str:
    """Post a form of Ann's with a recording, and return the id of what it has made."""
    files = {file: ("a.wav", wav(noise(1.1)), "audio/wav")}
    response = httpx.post(server.url + path, data=fields, files=files, headers={"x-api-key": ANN}, timeout=60)
    assert response.is_success, response.text
    made: str = response.json()["id"]
    return made


@pytest.fixture(scope="module")
def anns(locked: Server) -> Iterator[dict[str, str]]:
    """The ids of what Ann has stored, and of a response that runs in the background."""
    messages = [{"role": "user", "content": "Hi"}]
    conversation = post(locked, ANN, "/v1/conversations", items=messages)["id"]
    items = httpx.get(f"{locked.url}/v1/conversations/{conversation}/items", headers={"x-api-key": ANN}).json()
    script = json.dumps({"pieces": 10_000, "interval": 0.05})
    running = post(locked, ANN, "/v1/responses", model="fake", input=script, background=True)["id"]
    consent = post_recording(locked, "/v1/audio/voice_consents", "recording", name="Ann", language="en")
    voice = post_recording(locked, "/v1/audio/voices", "audio_sample", name="Ann", consent=consent)
    yield {
        "running": running,
        "consent_id": consent,
        "voice_id": voice,
        "response_id": post(locked, ANN, "/v1/responses", model="fake", input="Hi")["id"],
        "conversation_id": conversation,
        "item_id": items["data"][0]["id"],
        "completion_id": post(locked, ANN, "/v1/chat/completions", model="fake", messages=messages, store=True)["id"],
    }
    post(locked, ANN, f"/v1/responses/{running}/cancel")


def test_what_another_key_has_stored_is_not_there(locked: Server, targets: list[Target], anns: dict[str, str]) -> None:
    about = [target for target in targets if any(f"{{{name}}}" in target.path for name in STORED)]
    reads = [target for target in about if target.method == "GET"]
    mine = {"x-api-key": ANN}
    change = {"metadata": {"by": "Ben"}, "name": "by Ben", "items": [{"role": "user", "content": "by Ben"}]}
    for ids in (anns, anns | {"response_id": anns["running"]}):
        check(walk(locked, reads, mine, ids), 200, lambda _: True)
        check(walk(locked, about, {"x-api-key": BEN}, ids, change), 404, lambda _: True)
        check(walk(locked, reads, mine, ids), 200, lambda _: True)
    with httpx.Client(base_url=locked.url, headers=mine) as client:
        assert not [target for target in reads if "by Ben" in client.get(filled(target.path, anns)).text]


def test_nor_can_a_request_go_on_from_it(locked: Server, targets: list[Target], anns: dict[str, str]) -> None:
    bodies: list[dict[str, Any]] = [
        {"previous_response_id": anns["response_id"]},
        {"conversation": anns["conversation_id"]},
        {"input": [{"type": "item_reference", "id": anns["item_id"]}]},
    ]
    ways = [target for target in targets if re.search(r"/responses(/\w+)?$", target.path) and target.method != "GET"]
    for body in bodies:
        asked = {"type": "response.create", "model": "fake", "input": "on", **body}
        # Compacting has no field for a conversation.
        posts = [way for way in ways if way.method == "POST" and not ("conversation" in body and "compact" in way.path)]
        check(walk(locked, posts, {"x-api-key": BEN}, NAMES, asked), 404, lambda _: True)
        sockets = [way.path for way in ways if way.method == SOCKET]
        assert len(sockets) == 4
        for path in sockets:
            url = f"ws://127.0.0.1:{locked.port}{path}"
            with connect(url, additional_headers={"x-api-key": BEN}, proxy=None) as socket:
                socket.send(json.dumps(asked))
                assert json.loads(socket.recv(timeout=30))["error"]["code"].endswith("_not_found")
