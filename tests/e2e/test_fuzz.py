"""Requests that real clients sent, made wrong at random: nothing fails, and whatever is refused is refused well.

`make test-deep` sends 10,000. `FUZZ_REQUESTS` says how many else, and `FUZZ_SEED` chooses others.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.gateway.models.registry import ModelEntry
from tests.support.fuzzing import Call, Captured, check_error, mutated
from tests.support.serving import Server, serve

REQUESTS = [
    Captured(**json.loads(line)) for line in Path(__file__).with_name("requests.jsonl").read_text().splitlines()
]
AMOUNT = int(os.environ.get("FUZZ_REQUESTS", "400"))
SEED = os.environ.get("FUZZ_SEED", "1")
MANY = 1000
"""So many mutations are asked for only where time doesn't matter."""
AT_ONCE = 8


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    """A server whose model answers with the prompt; it has the demo model's name, which the requests ask for."""
    with serve([ModelEntry("demo", "fake", 1000, "fake")]) as running:
        running.until("demo", state="ready")
        yield running


@pytest.mark.timeout(3600)
async def test_the_gateway(fake: Server) -> None:
    outcomes = await fuzz(fake, REQUESTS, AMOUNT, patience=60)
    assert not outcomes["left"]  # the fake model always answers


@pytest.mark.timeout(3600)
async def test_a_model(server: Server) -> None:
    # The bundled model takes its time for prompts, and what a client sends to one route is much alike.
    last = {(one.client, one.path, one.client == "by hand" and number): one for number, one in enumerate(REQUESTS)}
    # Some mutations lift the limit of tokens; the client then goes away.
    await fuzz(server, REQUESTS if AMOUNT >= MANY else list(last.values()), AMOUNT // 10, patience=3)


async def fuzz(server: Server, requests: Sequence[Captured], amount: int, patience: float) -> Counter[str]:
    """Send the requests as they are, then mutations, which the worker must outlive; count what became of them.

    A client waits `patience` seconds for the whole answer.
    """
    pid = server.health("demo")["pid"]
    outcomes: Counter[str] = Counter()
    calls = [(request.client, request.call()) for request in requests]
    calls += [(f"{SEED}:{number}", mutated(REQUESTS, f"{SEED}:{number}")) for number in range(amount)]
    waiting = iter(calls)
    faults: list[str] = []
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

        async def send() -> None:
            for name, call in waiting:
                try:
                    outcomes[await outcome(client, call, patience)] += 1
                except (AssertionError, LookupError, TypeError, ValueError, httpx.HTTPError) as error:
                    sent = f"{call.method} {call.path} {call.headers} {call.content!r:.3000}"
                    faults.append(f"{name}: {type(error).__name__}: {error!s:.600}\n    {sent}")

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
    print(f"{len(calls)} requests: {dict(outcomes.most_common())}")
    assert not faults, f"{len(faults)} of {len(calls)} fail:\n" + "\n".join(faults[:20])
    assert server.health("demo")["pid"] == pid
    server.until("demo", state="ready", running=0, waiting=0)
    return outcomes


async def outcome(client: httpx.AsyncClient, call: Call, patience: float) -> str:
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
        check_stream(response.text)
    return str(response.status_code)


def check_stream(text: str) -> None:
    """Every event holds JSON, and none of them tells of a fault of the server's own."""
    for event in text.split("\n\n"):
        for line in event.split("\n"):
            if line.startswith("data:") and line != "data: [DONE]":
                data: Any = json.loads(line[5:])
                told = str(data.get("error") or (data.get("response") or {}).get("error") or "")
                assert "server_error" not in told, told
                assert "api_error" not in told, told
