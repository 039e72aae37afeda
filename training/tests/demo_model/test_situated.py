"""Tools of situations: each request gives what the tool must have, and nothing that it does not say."""

from random import Random

from demo_model.skills import requests, situated, situations
from demo_model.skills.define import Offer
from tests.demo_model.test_requests import leaves, spoken


def offers(amount: int = 1200) -> list[Offer]:
    rng = Random(3)
    return [requests.situation(rng, "train") for _ in range(amount)]


def test_each_line_can_be_read_and_each_request_is_whole() -> None:
    for line in situations.SITUATIONS:
        names, about, fields, asks = situated._line(line.removeprefix("~"))
        assert len(names) > 1, line
        assert about.endswith(".")
        assert asks
        known = {keys[0]: kind for keys, kind, _ in fields}
        assert all(kind == "bool" or kind[0] == "=" or kind in situated.KINDS for kind in known.values()), line
        for tags, ask in asks:
            for name, value in tags.items():
                assert value in (known[name][1:].split("/") if known[name][0] == "=" else ["true", "false"]), (
                    line,
                    tags,
                )
            for keys, _, needed in fields:
                # What is in brackets may be left out, so it can't be what a tool must have.
                depth, shown = 0, ""
                for letter in ask:
                    depth += (letter == "[") - (letter == "]")
                    shown += letter if not depth else ""
                assert not needed or keys[0] in tags or f"{{{keys[0]}}}" in shown, (names[0], keys[0], ask)


def test_every_value_stands_in_the_request_or_is_a_choice() -> None:
    for made in offers():
        assert "{" not in made.ask
        assert "<" not in made.ask
        for value in leaves(made.arguments):
            options = [one.get("enum", ()) for one in made.tool["function"]["parameters"]["properties"].values()]
            chosen = isinstance(value, bool) or any(value in one for one in options)
            assert chosen or spoken(value, made.ask), (made.ask, made.arguments)


def test_arguments_follow_the_schema_and_the_tool_is_described() -> None:
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}
    met = set()
    for made in offers():
        function = made.tool["function"]
        assert function["description"].endswith(".")
        assert set(function["parameters"].get("required", ())) <= set(made.arguments)
        for name, value in made.arguments.items():
            schema = function["parameters"]["properties"][name]
            kind = schema.get("type") or schema["anyOf"][0]["type"]
            met.add(kind)
            assert isinstance(value, kinds[kind])  # type: ignore[arg-type]
            assert value in schema.get("enum", [value])
            assert kind != "array" or all(isinstance(one, str) for one in value)
    assert met == set(kinds)


def test_of_a_correction_the_second_value_counts() -> None:
    rng = Random(4)
    for _ in range(50):
        said = situated.corrected(rng, "Berlin", "Rome")
        assert said.startswith("Rome")
        assert said.endswith("Berlin")
    assert situated.corrected(rng, "4", "14") == "4"
    assert sum(any(mark in made.ask for mark in situated.MEANT) for made in offers()) > 20


def test_many_requests_have_no_word_of_the_tool() -> None:
    made = offers()
    silent = [
        one for one in made if not set(one.name.lower().split("_")) & set(one.ask.lower().replace(",", " ").split())
    ]
    assert len(silent) > len(made) * 0.4
