"""What is said of addresses that are not served."""

import functools

import httpx
import pytest
from starlette.types import ASGIApp

from orchard.config import Settings
from orchard.gateway.http.not_found import advise_on_path, shorten_path
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app import create_app

KNOWN = [
    "/",
    "/health",
    "/metrics",
    "/v1/chat/completions",
    "/v1/chat/completions/{completion_id}",
    "/v1/completions",
    "/v1/conversations/{conversation_id}/items/{item_id}",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1/models/{model_id:path}",
    "/v1/responses",
    "/openai/deployments/{deployment:path}/chat/completions",
]


@functools.cache
def app() -> ASGIApp:
    """An application without any process."""
    settings = Settings(responses_path=":memory:")
    return create_app(Pool(Registry((), settings), settings), settings)


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app()), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("//v1//chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/v1/models", "/v1/models"),
        ("/v1/v1/models/org/name", "/v1/models/org/name"),
        ("/v1/openai/deployments/a/b/chat/completions", "/openai/deployments/a/b/chat/completions"),
        ("/messages", "/v1/messages"),
        ("/v1/health", "/health"),
        ("/v1/chat/completion", "/v1/chat/completions"),
        ("/v1/chat", "/v1/chat/completions"),
        ("/v1/chta/completions", "/v1/chat/completions"),
        ("/v1/response", "/v1/responses"),
        ("/api/v0/models", "/v1/models"),
        ("/api/v0/models/org/name", "/v1/models/org/name"),
        ("/api/v0/chat/completions", "/v1/chat/completions"),
    ],
)
def test_a_wrong_address_is_told_the_right_one(path: str, meant: str) -> None:
    assert advise_on_path(path, KNOWN) == f"no such route; use {meant}"


@pytest.mark.parametrize("path", ["/", "/nowhere", "/x/" * 500, "/" + "y" * 5000, "/v1/(a+)+$/{id}"])
def test_an_address_like_no_other_is_told_of_the_list(path: str) -> None:
    assert advise_on_path(path, KNOWN) == "no such route; /docs lists all routes"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/realtime/calls", "over a WebSocket at /v1/realtime only"),
        ("/v1/images/variations", "use /v1/images/edits"),
        ("/v1/files", "files are not served"),
        ("/v1", "the beginning of routes such as /v1/chat/completions"),
        ("/v1/", "the beginning of routes such as /v1/chat/completions"),
    ],
)
def test_what_is_not_served_is_said(path: str, words: str) -> None:
    assert words in advise_on_path(path, KNOWN)


def test_long_paths_are_shortened() -> None:
    assert shorten_path("/short") == "/short"
    assert len(shorten_path("/" * 100_000)) < 250


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/v1/v1/chat/completions", 404, "POST /v1/v1/chat/completions: no such route; use /v1/"),
        ("POST", "/v1/chat/completions/chat/completions", 404, "use /v1/chat/completions."),
        ("GET", "/v1/v1/models/org/name", 404, "use /v1/models/org/name."),
        ("POST", "/v1/images/edit", 404, "use /v1/images/edits"),
        ("GET", "/v1/completions", 405, "this route takes only POST"),
        ("POST", "/anthropic/v1/models", 405, "this route takes only GET"),
        ("PUT", "/anthropic/v1/models/fake", 405, "this route takes only GET"),
        ("DELETE", "/v1/chat/completions", 405, "this route takes only GET and POST"),
        ("GET", "/v1/models/gpt", 404, "`--fallback-model NAME`"),
    ],
)
async def test_every_404_says_what_to_do(method: str, path: str, status: int, words: str) -> None:
    async with client() as http:
        response = await http.request(method, path)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]
    if status == 405:
        assert f"takes only {' and '.join(response.headers['allow'].split(', '))}" in words


async def test_a_404_speaks_the_callers_dialect() -> None:
    async with client() as http:
        error = (await http.post("/anthropic/v1/message", json={})).json()
    assert (error["type"], error["error"]["type"]) == ("error", "not_found_error")
    assert error["error"]["message"].endswith("use /v1/messages.")


def test_what_has_come_to_be_served_is_not_refused() -> None:
    assert "files are not served" in advise_on_path("/v1/files/x", KNOWN)
    assert advise_on_path("/v1/files/x", [*KNOWN, "/v1/files"]) == "no such route; use /v1/files"
