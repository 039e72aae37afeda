"""In which dialect errors are told: in that of the route, whatever the names in its address look like."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchard.config import Settings
from orchard.dialects.anthropic import errors as anthropic_errors
from orchard.dialects.openai import errors as openai_errors
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.errors import Dialects
from orchard.gateway.routes.app import create_app
from tests.support.gateway_client import body

NAME = "org/responses-7b"
DEPLOYMENT = f"/openai/deployments/{NAME}"
ANTHROPIC = {"anthropic-version": "2023-06-01"}


def client(pool: Pool, **settings: Any) -> httpx.AsyncClient:
    """A client of a server in this process."""
    app = create_app(pool, Settings(responses_path=":memory:", **settings))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=60)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    entry = ModelEntry(NAME, "fake", None, "fake")
    running = Pool(Registry([entry]), Settings())
    yield running
    await running.close()


def dialect(response: httpx.Response) -> str:
    """Name the dialect of an error."""
    told = response.json()
    if "type" in told:
        return "anthropic"
    return "azure" if told["error"]["code"] in ("401", "404", "BadRequest", "DeploymentNotFound") else "openai"


async def test_the_log_says_why_if_it_is_asked_to(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "orchard")
    async with client(pool) as http:
        await http.post("/v1/chat/completions", json=body() | {"n": "two\n"})
    (line,) = [record.getMessage() for record in caplog.records if record.name == "orchard.gateway.replies.errors"]
    assert line.startswith("why it is a 400: ")
    assert "`n` must be" in line
    assert "\n" not in line


async def test_a_model_named_like_a_dialect_gets_the_words_of_the_route(pool: Pool) -> None:
    async with client(pool) as http:
        for prefix, model in ((DEPLOYMENT, None), ("/openai", NAME), ("/v1", NAME)):
            chat = body(refuse="context_length_exceeded") | {"model": model}
            refused = await http.post(f"{prefix}/chat/completions", json=chat)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "messages"), prefix
            given = {"model": model, "input": chat["messages"]}
            refused = await http.post(f"{prefix}/responses", json=given)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input"), prefix
        for prefix in ("/v1", "/anthropic/v1"):
            refused = await http.post(f"{prefix}/messages", json=chat | {"max_tokens": 5})
            assert (refused.status_code, dialect(refused)) == (400, "anthropic")


ROUTES: list[tuple[str, dict[str, str], str]] = [
    (f"{DEPLOYMENT}/chat/completions", {}, "azure"),
    (f"{DEPLOYMENT}/responses", ANTHROPIC, "azure"),
    ("/openai/v1/models/org/messages", {}, "azure"),
    ("/openai/nowhere", {}, "azure"),
    ("/v1/messages", {}, "anthropic"),
    ("/v1/messages/nowhere", {}, "anthropic"),
    (f"/anthropic/v1/models/{NAME}", {}, "anthropic"),
    ("/anthropic/nowhere", {}, "anthropic"),
    (f"/v1/models/{NAME}", ANTHROPIC, "anthropic"),
    ("/v1/chat/completions", ANTHROPIC, "anthropic"),
    ("/v1/responses", ANTHROPIC, "anthropic"),
    (f"/v1/models/{NAME}", {}, "openai"),
    ("/v1/models/openai/v1/messages", {}, "openai"),
    ("/models/chat/completions", {}, "openai"),
    ("/v1/responses", {}, "openai"),
    ("/unload", {}, "openai"),
    ("/nowhere", {}, "openai"),
]


async def test_who_has_no_key_is_told_so_in_the_dialect_of_the_route(pool: Pool) -> None:
    """Before the route is found, and also where it takes another method."""
    async with client(pool, api_keys=("key",)) as http:
        for path, headers, told in ROUTES:
            for method in ("POST", "GET", "PATCH"):
                response = await http.request(method, path, headers=headers)
                assert (response.status_code, dialect(response)) == (401, told), (method, path, headers)


def test_a_route_of_the_method_goes_before_one_of_another() -> None:
    async def nothing(http: Request) -> Response:
        return Response()

    dialects = Dialects()
    dialects.add([Route("/{name}", nothing, methods=["POST"])], openai_errors.azure_error_answer)
    dialects.add([Route("/one", nothing, methods=["GET"])], anthropic_errors.anthropic_error_answer)
    about = {"type": "http", "path": "/one", "headers": []}
    assert dialects.fail_of(about | {"method": "GET"}) is anthropic_errors.anthropic_error_answer
    assert dialects.fail_of(about | {"method": "DELETE"}) is openai_errors.azure_error_answer
