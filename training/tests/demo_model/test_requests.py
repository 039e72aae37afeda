"""Requests for tools in people's own words: what the call has is what the request says, and nothing else."""

import re
from collections.abc import Mapping
from random import Random

from demo_model.skills import requests, together, values
from demo_model.skills.define import Offer
from demo_model.text import Split


def offers(split: Split = "train") -> list[Offer]:
    rng = Random(3)
    return [requests.everyday(rng, split) for _ in range(600)]


def spoken(value: object, ask: str) -> bool:
    """Whether the request says a value, as figures or words."""
    said = ask.lower().replace("_", " ")
    if isinstance(value, int | float):
        ways = {str(value), values.figures(value), f"minus {-value}"}
        tables: list[Mapping[str, float]] = [values.AMOUNTS, *values.SPANS.values()]
        ways |= {way for table in tables for way, amount in table.items() if amount == value}
        if isinstance(value, int) and abs(value) < 1000:
            ways.add(values.spoken(abs(value)))
        # "half a litre", "one and a half hours": what stands before the unit.
        ways |= {words.split(" {u")[0].removesuffix(" a") for words, amount in together.PARTS if amount == value}
        return any(way in said for way in ways)
    text = str(value)
    units = {
        currency: ways.replace("{v}", "").replace(" ", "") for currency, ways in together.MONEY.items()
    } | together.UNITS
    return text.lower().replace("_", " ") in said or any(
        way.rstrip("es") in said for way in units.get(text, "\0").split("|")
    )


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, list) else [value]


def test_every_value_stands_in_the_request() -> None:
    for made in offers():
        for value in leaves(made.arguments):
            # What is on or off is said in words of its own.
            said = isinstance(value, bool) or value in {"on", "off"} or spoken(value, made.ask)
            assert said, (made.ask, made.arguments)


def test_with_and_without_are_yes_and_no() -> None:
    seen = set()
    rng = Random(9)
    for _ in range(300):
        mention, (argument,) = together.switch(rng, "train")
        seen.add(argument.value)
        assert bool(re.search(r"without|, (but )?no |: no$| off$", mention)) is not argument.value, mention
        mention, (_, state) = together.toggled(rng, "train")
        on = state.value if isinstance(state.value, bool) else state.value == "on"
        assert bool(re.search(r"\boff\b|disable|deactivate|no more", mention)) is not on, mention
    assert seen == {True, False}


def test_numbers_are_what_the_words_mean() -> None:
    assert values.spoken(342) == "three hundred and forty-two"
    rng = Random(11)
    for _ in range(300):
        for shown, value in (
            values.count(rng, 2000, things=True),
            values.span(rng, "minutes", 90),
            values.signed(rng, 40),
        ):
            figures = re.search(r"\d[\d,.]*", shown)
            if figures and shown not in values.SPANS["minutes"]:
                assert abs(value) == float(figures[0].replace(",", "")), (shown, value)
        shown, value = values.money(rng, "train")
        assert re.sub(r"[^\d.]", "", shown) == str(value)


def test_what_is_missing_is_asked_for_and_then_used() -> None:
    rng = Random(12)
    for _ in range(200):
        made, missing, reply = requests.incomplete(rng, "train")
        assert missing == list(made.arguments) == made.tool["function"]["parameters"]["required"]
        assert all(isinstance(value, bool) or spoken(value, reply) for value in leaves(made.arguments)), (
            reply,
            made.arguments,
        )


def test_several_values_are_several_calls_of_one_tool() -> None:
    rng = Random(13)
    amounts = set()
    for _ in range(200):
        made = requests.several(rng, "train")
        amounts.add(len(made))
        assert len({one.name for one in made}) == 1
        assert len({str(one.arguments) for one in made}) == len(made)
        assert all(spoken(value, made[0].ask) for one in made for value in leaves(one.arguments))
    assert amounts >= {2, 3}


def test_a_value_may_follow_in_a_request_of_its_own() -> None:
    rng = Random(14)
    for _ in range(100):
        for one in requests.several(rng, "train", apart=True):
            assert all(spoken(value, one.ask) for value in leaves(one.arguments))


def test_tools_beside_do_something_else() -> None:
    made = [one for one in offers() if one.beside]
    assert len(made) > 10
    for one in made:
        assert one.name not in [tool["function"]["name"] for tool in one.beside]


KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def check_arguments(made: Offer) -> set[str]:
    """Check that a call's arguments are those that its tool takes, and return their types."""
    parameters = made.tool["function"].get("parameters", {"properties": {}})
    assert set(parameters.get("required", ())) <= set(made.arguments) <= set(parameters["properties"])
    met = set()
    for name, value in made.arguments.items():
        schema = parameters["properties"][name]
        kind = schema.get("type") or schema["anyOf"][0]["type"]
        met.add(kind)
        assert isinstance(value, KINDS[kind])
        assert value in schema.get("enum", [value])
    return met


def test_arguments_follow_the_schema() -> None:
    assert {kind for made in offers() for kind in check_arguments(made)} == set(KINDS)


def test_some_actions_are_held_out() -> None:
    held = {made.key for made in offers("held")}
    assert held
    assert not held & {made.key for made in offers("train")}


def test_requests_vary() -> None:
    assert len({made.ask.split()[0] for made in offers()}) > 60
    assert sum(made.name.replace("_", " ") in made.ask for made in offers()) < 60
