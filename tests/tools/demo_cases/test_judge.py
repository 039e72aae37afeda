"""What is right and what is wrong."""

import json
from typing import Any

import pytest
from tools.demo_cases.cases import Call, Step, object_schema
from tools.demo_cases.judge import DECLINES, Said, misfit, wrong_calls, wrong_text

TOOLS = {
    "order": object_schema({"item": "string", "count": "integer", "price": "number?", "gift": "boolean?"}),
    "mail": object_schema({"to": "string[]", "kind": "letter|card"}),
}


def text(step: Step, said: str) -> str | None:
    return wrong_text(step, Said(said))


@pytest.mark.parametrize("said", ["Hello.", "It is Bo, hello"])
def test_a_text_without_expectations_is_right(said: str) -> None:
    assert text(Step("hi"), said) is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said(" \n"), "says nothing"),
        (Said("On and on", ended=False), "doesn't end: On and on"),
        (Said("", [("order", "{}")]), "calls order({})"),
        (Said("x" * 400, ended=False), "doesn't end: " + "x" * 300 + "…"),
    ],
)
def test_an_answer_that_is_no_whole_text(said: Said, why: str) -> None:
    assert wrong_text(Step("hi"), said) == why


@pytest.mark.parametrize(
    ("step", "said", "why"),
    [
        (Step("nice weather"), '{"city": "Rome"}', "is a JSON object"),
        (Step("nice weather"), '```\n{"name": "add"\n}\n```', "is a JSON object"),
        (Step("nice weather", has=["add"]), '{"name": "add"}', "is a JSON object"),
        (Step("nice weather"), "...", "makes no sense"),
        (Step("nice weather"), "Yes, {sun} it is.", None),
        (Step("say it", says='{"city": "Rome"}'), '{"city": "Rome"}', None),
        (Step("say it", says="👍"), "👍", None),
    ],
)
def test_a_text_is_no_json_object_and_has_a_word(step: Step, said: str, why: str | None) -> None:
    found = text(step, said)
    assert (found and found.partition(": ")[0]) == why


@pytest.mark.parametrize(
    ("has", "said", "right"),
    [
        (["Bo"], "Your name is bo.", True),
        (["Bo"], "Your name is Bob.", False),
        ([["four", "4"]], "There are 4.", True),
        (["4"], "There are 42.", False),
        (["4"], "There are 4.2 of them", False),
        (["4"], "There are 3,4 of them", False),
        (["9"], "At 9:30", False),
        (["8000"], "It listens at http://127.0.0.1:8000.", True),
        (["one", "two"], "Only one", False),
        (["don't know"], "I don\N{RIGHT SINGLE QUOTATION MARK}t   KNOW", True),
        (["--port"], "Use --port 9000", True),
        (["brew"], "Homebrew", False),
    ],
)
def test_what_a_text_has(has: list[str | list[str]], said: str, right: bool) -> None:
    assert (text(Step("?", has=has), said) is None) is right


def test_what_a_text_lacks() -> None:
    step = Step("?", lacks=["pip install"])
    assert text(step, "make serve") is None
    assert text(step, "Run PIP  install it") == "has pip install: Run PIP  install it"


@pytest.mark.parametrize(
    ("says", "said", "right"),
    [
        ("A cat sat.", "A cat sat.", True),
        ("A cat sat.", ' "A cat sat." ', True),
        ("A cat sat", "'A cat sat'.", True),
        ("A cat sat.", "a cat sat.", False),
        ("A cat sat.", "Sure: A cat sat.", False),
        ("It's me", "It\N{RIGHT SINGLE QUOTATION MARK}s me", True),
        (["pong", "Pong"], "Pong", True),
        ("Mind the gap!", "Mind the gap", False),
    ],
)
def test_what_a_text_says(says: str | list[str], said: str, right: bool) -> None:
    assert (text(Step("?", says=says), said) is None) is right


@pytest.mark.parametrize(
    ("number", "said", "right"),
    [
        (42, "17 + 25 = 42.", True),
        (42, "42 is 17 + 25", False),
        (1250, "That is 1,250.", True),
        (7.5, "7.50", True),
        (-5, "3 - 8 = -5", True),
        (5, "3 - 8 = -5", False),
        (42, "forty-two", False),
    ],
)
def test_the_last_number(number: float, said: str, right: bool) -> None:
    assert (text(Step("?", number=number), said) is None) is right


def test_declining() -> None:
    step = Step("?", declines=True)
    for phrase in DECLINES:
        assert text(step, f"Well, {phrase.upper()} it.") is None
    assert text(step, "It is sunny.") == "doesn't decline: It is sunny."


@pytest.mark.parametrize(
    ("wanted", "arguments", "right"),
    [
        ({"item": "red tea", "count": 3}, {"item": "Red tea.", "count": 3}, True),
        ({"item": ["tea", "teas"], "count": 3}, {"item": "teas", "count": 3}, True),
        ({"item": "tea", "count": 3}, {"item": "tea", "count": 4}, False),
        ({"item": "tea", "count": 3}, {"item": "tea", "count": "3"}, False),
        ({"item": "tea", "count": 3}, {"item": "tea", "count": 3.0}, False),
        ({"item": "tea", "count": 1}, {"item": "tea", "count": True}, False),
        ({"item": "tea", "count": 3}, {"item": "tea"}, False),
        ({"item": "tea", "count": 3}, {"item": "tea", "count": 3, "gift": True}, False),
        ({"item": "tea", "count": 3}, {"item": "tea", "count": 3, "colour": "red"}, False),
        ({"item": "tea", "count": 3, "price": 2}, {"item": "tea", "count": 3, "price": 2.0}, True),
        ({"item": "tea", "count": 3, "gift": False}, {"item": "tea", "count": 3, "gift": False}, True),
        ({"item": "tea", "count": 3, "gift": True}, {"item": "tea", "count": 3, "gift": 1}, False),
    ],
)
def test_the_arguments_of_a_call(wanted: dict[str, Any], arguments: dict[str, Any], right: bool) -> None:
    step = Step("?", call={"order": wanted})
    assert (wrong_calls(step, Said("", [("order", json.dumps(arguments))]), TOOLS) is None) is right


def test_lists_and_choices_in_a_call() -> None:
    step = Step("?", call={"mail": {"to": ["Ana", "Bo"], "kind": "card"}})
    for to, kind, right in (
        (["ana", "Bo"], "card", True),
        (["Bo", "Ana"], "card", False),
        ("Ana", "card", False),
        (["Ana", "Bo"], "parcel", False),
    ):
        assert (wrong_calls(step, Said("", [("mail", json.dumps({"to": to, "kind": kind}))]), TOOLS) is None) is right


def test_several_calls() -> None:
    calls: list[Call] = [{"order": {"item": "tea", "count": count}} for count in (1, 2)]
    step = Step("?", call=calls)
    one, two = (("order", json.dumps({"item": "tea", "count": count})) for count in (1, 2))
    assert wrong_calls(step, Said("Here.", [two, one]), TOOLS) is None
    assert wrong_calls(step, Said("", [one]), TOOLS) == "doesn't call order({'item': 'tea', 'count': 2})"
    for made in ([one, one], [one, two, two], [one, ("sell", "{}")], [one, ("order", "{")]):
        assert wrong_calls(step, Said("", made), TOOLS) is not None
    assert wrong_calls(step, Said("Fine."), TOOLS) == "calls nothing: Fine."


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": 1, "b": [{"c": "x"}], "d": {"e": True}}, None),
        ({"a": 1.5, "b": [], "d": {"e": False}}, None),
        ({"a": True, "b": [], "d": {"e": False}}, "a is no number"),
        ({"a": 1, "b": {}, "d": {"e": False}}, "b is no list"),
        ({"a": 1, "b": [{"c": "z"}], "d": {"e": False}}, "c is no string"),
        ({"a": 1, "b": [], "d": {"e": None}}, "e is no boolean"),
        ({"a": 1, "b": []}, "the answer has other properties"),
        ([], "the answer has other properties"),
    ],
)
def test_values_that_fit_a_schema(value: Any, why: str | None) -> None:
    assert misfit(value, object_schema({"a": "number", "b": [{"c": "x|y"}], "d": {"e": "boolean"}})) == why


PERSON = {"name": "string", "age": "integer", "likes": "string[]", "home": {"city": "string"}}
FIELDS: dict[str, str | tuple[float, float]] = {
    "name": "^[A-Z]",
    "age": (1, 110),
    "likes": (1, 2),
    "home.city": "oslo|rome",
}
MIA: dict[str, Any] = {"name": "Mia", "age": 40, "likes": ["tea"], "home": {"city": "Rome"}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"age": 200}, "age isn't 1 to 110"),
        ({"age": "40"}, "age is no integer"),
        ({"name": "mia"}, "name isn't ^[A-Z]"),
        ({"name": "Name"}, "name makes no sense"),
        ({"name": "M" * 81}, "name makes no sense"),
        ({"name": "..."}, "name makes no sense"),
        ({"name": "Mia mia, Mia"}, "name repeats itself"),
        ({"likes": ["tea", "tea"]}, "likes has something twice"),
        ({"likes": ["tea", ""]}, "likes makes no sense"),
        ({"likes": []}, "likes isn't 1 to 2"),
        ({"home": {"city": "Paris"}}, "home.city isn't oslo|rome"),
    ],
)
def test_an_answer_by_schema(change: dict[str, Any], why: str | None) -> None:
    found = wrong_text(Step("?", fields=FIELDS), Said(json.dumps(MIA | change)), object_schema(PERSON))
    assert (found and found.partition(": ")[0]) == why


def test_an_answer_by_schema_that_is_no_json() -> None:
    assert wrong_text(Step("?"), Said('{"name": '), object_schema(PERSON)) == 'is no JSON: {"name": '
