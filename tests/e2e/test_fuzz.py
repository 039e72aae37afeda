"""Requests that real clients sent, made wrong at random: nothing fails, and whatever is refused is refused well.

`make test-deep` sends 10,000. `FUZZ_REQUESTS` says how many else, and `FUZZ_SEED` chooses others.
"""

from collections.abc import Iterator

import pytest

from orchard.gateway.models.entry import ModelEntry
from tests.support.fuzzing import AMOUNT, fuzz, sent_to
from tests.support.serving import Server, serve

REQUESTS = sent_to("demo")
MANY = 1000
"""So many mutations are asked for only where time doesn't matter."""


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    """A server whose model answers with the prompt; it has the demo model's name, which the requests ask for."""
    with serve([ModelEntry("demo", "fake", 1000, "fake")]) as running:
        running.until("demo", state="ready")
        yield running


@pytest.mark.timeout(3600)
async def test_the_gateway(fake: Server) -> None:
    outcomes = await fuzz(fake, REQUESTS, AMOUNT)
    assert not outcomes["left"]  # the fake model always answers


@pytest.mark.timeout(3600)
async def test_a_model(server: Server) -> None:
    # The bundled model takes its time for prompts, and what a client sends to one route is much alike.
    last = {(one.client, one.path, one.client == "by hand" and number): one for number, one in enumerate(REQUESTS)}
    # Some mutations lift the limit of tokens; the client then goes away.
    await fuzz(server, REQUESTS if AMOUNT >= MANY else list(last.values()), AMOUNT // 10, patience=3)
