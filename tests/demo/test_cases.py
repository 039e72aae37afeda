"""The card of the bundled model says how many of the cases in `tests/demo/cases` it gets right."""

import re
from collections.abc import Iterable, Iterator

import mlx.core as mx
import pytest
from openai import OpenAI
from tools.demo_cases.__main__ import tried
from tools.demo_cases.cases import kinds, read

from orchard.config import ModelSettings
from orchard.demo import MODEL_PATH
from tests.support.serving import Server, serve

on_a_cpu = pytest.mark.skipif(
    mx.default_device() != mx.cpu, reason="a GPU rounds differently: the card has the figures of a CPU"
)
ROWS = {
    "says back": "repeat",
    "sums": "sums",
    "calls of new tools": "tools",
    "calls with paths and quantities": "quantities",
    "memory": "memory",
    "facts about Orchard": "facts",
    "no call where none is needed": "no_call",
    "says that it can't or doesn't know": "declines",
    "JSON answers, whole and sensible within 100 tokens": "schemas",
}
"""The kind of cases of each row of the card's table, which ends with a row of all cases."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve((), models=[ModelSettings(model_path="demo")], spare=False) as running:
        yield running


def card() -> dict[str, str]:
    """Return what each row of the card says is right, such as "30 of 30 100%"."""
    rows = re.findall(r"^\| (.+?) \| (\d+ of \d+) \| (\d+%) \|", (MODEL_PATH / "README.md").read_text(), re.MULTILINE)
    return {name: f"{right} {share}" for name, right, share in rows}


def test_the_card_has_a_row_for_each_kind_of_cases() -> None:
    assert sorted(ROWS.values()) == kinds()
    assert [*card()] == [*ROWS, "all"]


@on_a_cpu
@pytest.mark.parametrize("row", ["says back", "no call where none is needed"])
def test_it_gets_as_many_of_a_kind_right_as_its_card_says(server: Server, row: str) -> None:
    found = asked(server, [row])[row]
    assert share(found.count(None), len(found)) == card()[row]


@pytest.mark.deep
@on_a_cpu
@pytest.mark.timeout(600)
def test_the_bundled_model_gets_as_many_cases_right_as_its_card_says(server: Server) -> None:
    results = asked(server, ROWS)
    results["all"] = [why for found in results.values() for why in found]
    assert {row: share(found.count(None), len(found)) for row, found in results.items()} == card()


def asked(server: Server, rows: Iterable[str]) -> dict[str, list[str | None]]:
    """Return for each row what was wrong with each of its cases; None: nothing."""
    with OpenAI(base_url=f"{server.url}/v1", api_key="any") as client:
        return {row: tried(client, "demo", read(ROWS[row])) for row in rows}


def share(right: int, cases: int) -> str:
    return f"{right} of {cases} {right / cases:.0%}"
