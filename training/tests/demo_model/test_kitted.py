"""Sets of tools: each request gives what its tool must have, and the tools beside it are others."""

import re
from random import Random

import pytest

from demo_model.skills import kitted, situated
from demo_model.skills.kits import KITS
from demo_model.skills.kits_near import NEAR_KITS
from demo_model.skills.kits_work import WORK_KITS
from tests.demo_model.test_requests import leaves, spoken

LINES = [line for kit in (*KITS, *WORK_KITS, *NEAR_KITS) for line in kit]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[0])
def test_requests_give_what_the_tool_must_have(line: str) -> None:
    rng = Random(1)
    for _ in range(60):
        made, _ = situated.made(rng, "train", line)
        parameters = made.tool["function"].get("parameters", {"properties": {}})
        assert set(parameters.get("required", ())) <= set(made.arguments), (made.ask, made.arguments)
        assert not set("{<") & set(made.ask)
        for name, value in made.arguments.items():
            schema = parameters["properties"][name]
            assert value in schema.get("enum", [value])
            if "enum" not in schema:
                assert all(isinstance(leaf, bool) or spoken(leaf, made.ask) for leaf in leaves(value)), (
                    made.ask,
                    value,
                )


def test_tools_beside_have_other_names() -> None:
    rng = Random(2)
    for _ in range(300):
        made = kitted.kitted(rng, "train")
        names = [made.name, *(tool["function"]["name"] for tool in made.beside)]
        assert len(set(names)) == len(names)


def test_two_values_are_two_calls() -> None:
    rng = Random(3)
    for _ in range(200):
        first, second = kitted.doubled(rng, "train")
        changed = [name for name, value in first.arguments.items() if second.arguments[name] != value]
        assert len(changed) == 1
        assert all(spoken(made.arguments[changed[0]], first.ask) for made in (first, second)), first.ask


def test_what_was_named_is_meant_by_it() -> None:
    rng = Random(4)
    for _ in range(200):
        first, second = kitted.referred(rng, "train")
        shared = [value for value in second.arguments.values() if value in first.arguments.values()]
        said = re.findall(r"[\w.@/-]+", second.ask)
        assert any(isinstance(value, str) and value not in said for value in shared), second.ask


def test_arguments_that_nobody_gives_are_not_in_the_call() -> None:
    rng = Random(5)
    for _ in range(400):
        offer, _ = situated.made(rng, "train", rng.choice(LINES))
        properties = offer.tool["function"].get("parameters", {}).get("properties", {})
        spare = set(properties) & {"notes", "metadata", "callback_url", "cc"}
        assert not spare & set(offer.arguments) or any(spoken(offer.arguments[name], offer.ask) for name in spare)


def test_the_same_again_changes_one_value() -> None:
    rng = Random(6)
    for _ in range(200):
        first, second = kitted.refilled(rng, "train")
        changed = [name for name, value in first.arguments.items() if second.arguments[name] != value]
        assert first.tool is second.tool
        assert len(changed) == 1
        assert all(spoken(leaf, second.ask) for leaf in leaves(second.arguments[changed[0]])), second.ask


def test_two_tools_of_a_set_are_asked_for_at_once() -> None:
    rng = Random(7)
    for _ in range(200):
        first, second = kitted.paired(rng, "train")
        assert first.name != second.name
        assert second.ask[1:] in first.ask
