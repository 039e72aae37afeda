"""Requests for tools in people's own words: what the call has is what the request says, and nothing else."""

import re
from random import Random

from tools.demo_model.skills import requests, sums
from tools.demo_model.skills.define import Offer
from tools.demo_model.text import Split


def offers(split: Split = "train") -> list[Offer]:
    rng = Random(3)
    return [requests.everyday(rng, split) for _ in range(600)]


def spoken(value: object, ask: str) -> bool:
    """Whether the request says a value, as figures or words."""
    names = {"EUR": "euros", "USD": "dollars", "GBP": "pounds", "JPY": "yen"}
    small = isinstance(value, int) and value <= 20 and sums.spoken(value) in ask.lower()
    return str(value) in ask or str(value).lower() in ask.lower() or names.get(str(value), "\0") in ask or small


def test_every_value_stands_in_the_request() -> None:
    for made in offers():
        for value in made.arguments.values():
            parts = value if isinstance(value, list) else [] if isinstance(value, bool) else [value]
            assert all(spoken(part, made.ask) for part in parts), (made.ask, made.arguments)


def test_with_and_without_are_yes_and_no() -> None:
    seen = set()
    for made in offers():
        for value in made.arguments.values():
            if isinstance(value, bool):
                seen.add(value)
                assert bool(re.search(r"without|, (but )?no (?!more)", made.ask)) is not value, made.ask
    assert seen == {True, False}


def test_arguments_follow_the_schema() -> None:
    kinds: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
    }
    met = set()
    for made in offers():
        parameters = made.tool["function"].get("parameters", {"properties": {}})
        assert set(parameters.get("required", ())) <= set(made.arguments) <= set(parameters["properties"])
        for name, value in made.arguments.items():
            schema = parameters["properties"][name]
            kind = schema.get("type") or schema["anyOf"][0]["type"]
            met.add(kind)
            assert isinstance(value, kinds[kind])
            assert value in schema.get("enum", [value])
    assert met == set(kinds)


def test_some_actions_are_held_out() -> None:
    held = {made.key for made in offers("held")}
    assert held
    assert not held & {made.key for made in offers("train")}


def test_requests_vary() -> None:
    assert len({made.ask.split()[0] for made in offers()}) > 60
    assert sum(made.name.replace("_", " ") in made.ask for made in offers()) < 60
