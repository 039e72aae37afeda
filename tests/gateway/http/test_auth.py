"""API keys and other origins: who gets in, and what everybody else is told."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from orchard.core.tasks.speak import SpeechOptions
from orchard.core.voices import OPENAI_VOICES
from orchard.gateway.models.entry import ModelEntry
from tests.support.gateway_client import body, streamed
from tests.support.serving import Server, serve

ORIGIN = "https://example.com"
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    """A server with three keys, which lets pages of one origin in."""
    with serve(api_keys=("first-key", "second-key", "clé-à"), cors_origins=(ORIGIN,)) as server:
        yield server


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer first-key"},
        {"authorization": "bearer  second-key"},
        {"x-api-key": "first-key"},
        {"api-key": "second-key"},
        {"authorization": "Bearer none", "x-api-key": "first-key"},
    ],
)
def test_any_key_in_any_of_its_headers_gets_in(locked: Server, headers: dict[str, str]) -> None:
    assert httpx.post(locked.url + CHAT, json=body(), headers=headers).status_code == 200


def test_a_key_may_have_any_letters(locked: Server) -> None:
    headers = {b"x-api-key": "clé-à".encode()}  # whose last byte is a space in Latin-1
    assert httpx.post(locked.url + CHAT, json=body(), headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Basic first-key"},
        {"authorization": "first-key"},
        {"authorization": "Bearer first-key,second-key"},
        {"x-api-key": "first-ke"},
        {"x-api-key": ""},
        {"api-key": "First-Key"},
    ],
)
def test_everybody_else_is_told_so(locked: Server, headers: dict[str, str]) -> None:
    response = httpx.post(locked.url + CHAT, json=body(), headers=headers)
    assert response.status_code == 401
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert "API key" in error["message"]
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    "path",
    [
        CHAT,
        "/v1/models",
        "/v1/cache",
        "/v1/stats",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/nowhere",
        "/v1/models/",
    ],
)
def test_every_other_path_is_closed(locked: Server, path: str) -> None:
    assert httpx.get(locked.url + path).status_code == 401
    assert httpx.head(locked.url + path).status_code == 401


def test_the_dialect_of_the_request_tells_of_a_wrong_key(locked: Server) -> None:
    anthropic = httpx.post(f"{locked.url}/v1/messages", json={}, headers={"x-api-key": "no"})
    assert (anthropic.status_code, anthropic.json()["type"]) == (401, "error")
    assert anthropic.json()["error"]["type"] == "authentication_error"
    azure = httpx.post(f"{locked.url}/openai/deployments/fake/chat/completions", json={}, headers={"api-key": "no"})
    assert (azure.status_code, azure.json()["error"]["code"]) == (401, "401")


def test_probes_need_no_key(locked: Server) -> None:
    health = httpx.get(f"{locked.url}/health")
    assert (health.status_code, health.json()) == (200, {"status": "healthy"})
    assert httpx.get(f"{locked.url}/ready").status_code in (200, 503)
    assert httpx.get(f"{locked.url}/").status_code == 200
    assert httpx.head(f"{locked.url}/").status_code == 200
    assert httpx.post(f"{locked.url}/health").status_code == 401


def test_the_names_of_voices_need_no_key() -> None:
    options = SpeechOptions(voices={"Assistant": "ann"})
    mine = ModelEntry("secret-model", "fake", None, "speech", voices=("ann",), options=options, on_demand=True)
    with serve([mine], api_keys=("the-key",)) as server:
        address = f"{server.url}/v1/audio/voices"
        told = httpx.get(address).json()
        assert [voice["name"] for voice in told.pop("voices")] == ["ann", "Assistant", *OPENAI_VOICES]
        assert told == {"object": "list", "data": []}
        for query in ({"model": "secret-model"}, {"model": "nobody"}):
            assert httpx.get(address, params=query).status_code == 401
        known = httpx.get(address, headers={"x-api-key": "the-key"}).json()
        assert [voice["model"] for voice in known["data"]] == ["secret-model"] * 2
        assert httpx.post(address).status_code == 401


def test_no_key_is_ever_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with serve(api_keys=("the-secret",), log_level="debug") as server:
        for key in ("the-secret", "the-wrong-one"):
            httpx.post(server.url + CHAT, json=body(), headers={"x-api-key": key})
    logged = capfd.readouterr().err
    assert CHAT in logged
    assert "the-" not in logged


def preflight(server: Server, origin: str) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
        "access-control-request-private-network": "true",
    }
    return httpx.options(server.url + CHAT, headers=headers)


def test_pages_of_an_allowed_origin_may_ask(locked: Server) -> None:
    asked = preflight(locked, ORIGIN)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == ORIGIN
    assert asked.headers["access-control-allow-private-network"] == "true"
    assert "x-stainless-os" in asked.headers["access-control-allow-headers"]
    for key, status in (("first-key", 200), ("wrong", 401)):
        response = httpx.post(locked.url + CHAT, json=body(), headers={"origin": ORIGIN, "x-api-key": key})
        assert response.status_code == status
        assert response.headers["access-control-allow-origin"] == ORIGIN
        assert "x-request-id" in response.headers["access-control-expose-headers"]


def test_pages_of_other_origins_may_not(locked: Server, server: Server) -> None:
    for where, origin in ((locked, "https://evil.example"), (locked, "null"), (server, ORIGIN)):
        assert "access-control-allow-origin" not in preflight(where, origin).headers
        headers = {"origin": origin, "x-api-key": "first-key"}
        response = httpx.post(where.url + CHAT, json=body(), headers=headers)
        assert "access-control-allow-origin" not in response.headers


async def test_a_page_can_read_that_the_server_is_busy() -> None:
    with serve(cors_origins=(ORIGIN,), max_requests=1) as server:
        async with streamed(server, pieces=10_000, interval=0.01) as stream:
            await stream.read(until=1)
            asked = await asyncio.to_thread(preflight, server, ORIGIN)
            assert asked.status_code == 200
            async with httpx.AsyncClient(base_url=server.url) as client:
                busy = await client.post(CHAT, json=body(), headers={"origin": ORIGIN})
            assert (busy.status_code, busy.headers["access-control-allow-origin"]) == (429, ORIGIN)


def test_a_star_lets_all_origins_in() -> None:
    with serve(cors_origins=("*",)) as server:
        assert preflight(server, "https://anything.example").headers["access-control-allow-origin"] == "*"
