"""What a server says of itself over HTTP, after requests that are known."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway_client import body, chat, streamed
from tests.support.serving import FAKE, Server, serve

CHAT = "/v1/chat/completions"


@pytest.fixture
def server() -> Iterator[Server]:
    with serve([FAKE]) as running:
        yield running


def scrape(server: Server, name: str, **labels: str) -> float:
    """Sum up the values that a metric has with these labels, whatever the others."""
    response = httpx.get(f"{server.url}/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return sum(
        sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def told(server: Server) -> dict[str, Any]:
    stats: dict[str, Any] = httpx.get(f"{server.url}/v1/stats").json()
    return stats


async def test_the_numbers_add_up(server: Server) -> None:
    server.until(state="ready")
    for pieces in (3, 5):
        async with streamed(server, pieces=pieces, interval=0.01) as stream:
            await stream.read()
    await chat(server, pieces=7)
    await chat(server, refuse="context_length_exceeded")
    assert (await chat(server, model="nothing/of-that-name")).status_code == 404
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{server.url}/nowhere/at/all")).status_code == 404
        answer = await http.post(f"{server.url}/v1/messages", json=body(pieces=2) | {"max_tokens": 9})
        assert answer.status_code == 200

    def requests(**labels: str) -> float:
        return scrape(server, "orchard_requests_total", **labels)

    assert requests(model="fake", outcome="ok", route=CHAT) == 3
    assert requests(model="fake", outcome="ok", route="/v1/messages") == 1
    assert requests(model="fake", outcome="context_length_exceeded", route=CHAT) == 1
    assert requests() == 5
    responses = {
        status: scrape(server, "orchard_http_responses_total", route=CHAT, status=status)
        for status in ("200", "400", "404")
    }
    assert responses == {"200": 3, "400": 1, "404": 1}
    assert scrape(server, "orchard_http_responses_total", route="", status="404") == 1
    assert scrape(server, "orchard_completion_tokens_total", model="fake") == 3 + 5 + 7 + 2
    assert scrape(server, "orchard_prompts_total", model="fake") == 4
    assert scrape(server, "orchard_time_to_first_token_seconds_count", model="fake") == 4
    assert scrape(server, "orchard_model_load_seconds_count", model="fake") == 1
    assert scrape(server, "orchard_model_state", model="fake", state="ready") == 1
    assert scrape(server, "orchard_worker_memory_bytes", model="fake", kind="rss") > 0
    assert scrape(server, "orchard_worker_crashes_total") == 0
    stats = told(server)
    model = stats["models"]["fake"]
    assert model["requests"] == {"ok": 4, "context_length_exceeded": 1}
    assert model["tokens"]["completion"] == 17
    assert stats["tokens_per_second"] > 0
    assert (stats["running"], stats["waiting"]) == (0, 0)
    assert model["first_token_ms"]["median"] > 0


async def test_a_crash_counts_and_so_does_a_caller_that_goes_away(server: Server) -> None:
    async with streamed(server, pieces=2, interval=0.05, crash=True) as stream:
        await stream.read()
        assert stream.error
    await chat(server)
    assert scrape(server, "orchard_worker_crashes_total", model="fake") == 1
    assert scrape(server, "orchard_worker_restarts_total", model="fake") == 1
    assert scrape(server, "orchard_model_load_seconds_count", model="fake") == 2
    assert scrape(server, "orchard_requests_total", model="fake", outcome="worker_crashed", route=CHAT) == 1
    model = told(server)["models"]["fake"]
    assert (model["crashes"], model["restarts"], model["loads"]) == (1, 1, 2)
    async with streamed(server, pieces=1000, interval=0.05) as stream:
        await stream.read(until=1)
        assert scrape(server, "orchard_requests_running", model="fake") == 1
    server.until(running=0)
    assert scrape(server, "orchard_requests_total", model="fake", outcome="cancelled") == 1


def test_a_window_over_http(server: Server) -> None:
    server.until(state="ready")
    asyncio.run(chat(server, pieces=7))

    def points() -> list[dict[str, Any]]:
        return list(httpx.get(f"{server.url}/v1/stats?window=30").json()["window"]["points"])

    while not sum(point["requests"] for point in points()):
        time.sleep(0.1)  # until the second is over
    assert len(points()) == 30
    for window in ("0", "901", "x"):
        refused = httpx.get(f"{server.url}/v1/stats?window={window}")
        assert refused.json()["error"]["param"] == "window"
