"""What a schema becomes before llguidance gets it; what comes of that is test_constraint's."""

import json
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer

from orchard.worker.json_schema import prepared

A: dict[str, Any] = {"properties": {"a": {}}}
CLOSED = A | {"additionalProperties": False}


def made(schema: Any) -> dict[str, Any]:
    found = prepared(schema)
    del found["x-guidance"]
    return found


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (A, CLOSED),
        ({"properties": {"b": {"items": A}}}, CLOSED | {"properties": {"b": {"items": CLOSED}}}),
        ({"anyOf": [A, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$defs": {"x": A}, "$ref": "#/$defs/x"}, {"$defs": {"x": CLOSED}, "$ref": "#/$defs/x"}),
        ({"properties": {"properties": {"enum": [A]}}}, CLOSED | {"properties": {"properties": {"enum": [A]}}}),
        (A | {"format": {"$ref": "#"}}, CLOSED),
        (A | {"required": ["a", "b"]}, CLOSED | {"required": ["a", "b"], "properties": {"a": {}, "b": {}}}),
    ],
)  # fmt: skip
def test_an_object_that_lists_its_properties_gets_no_others(schema: Any, expected: Any) -> None:
    assert made(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        A | {"additionalProperties": True},
        A | {"patternProperties": {"x": {}}},
        {"allOf": [A, {"properties": {"b": {}}}]},
        A | {"anyOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]},
        A | {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"b": {}}}}},
    ],
)
def test_where_others_are_spoken_of_they_stay(schema: Any) -> None:
    assert made(schema) == schema


@pytest.mark.parametrize(
    ("bounds", "number"),
    [
        ({"exclusiveMinimum": 0, "maximum": 0.9}, "0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, "0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1e-9}, "0"),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 1.5}, "1"),
        ({"exclusiveMinimum": 5.0, "maximum": 5.5}, "5"),
        ({"minimum": -0.5, "exclusiveMaximum": 0}, "-0"),
        ({"minimum": -1.5, "exclusiveMaximum": -1}, "-1"),
        ({"exclusiveMinimum": 0, "maximum": 0.9, "minimum": 0}, "0"),
        ({"exclusiveMinimum": 0, "maximum": 0.9, "minimum": 0.1}, "0.05"),
        ({"exclusiveMinimum": 0, "maximum": 1}, "0"),
        ({"exclusiveMinimum": 0}, "0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 5}, "5"),
    ],
)
def test_a_whole_number_that_is_excluded_is_none_that_comes(bounds: dict[str, Any], number: str) -> None:
    """llguidance lets it in where the other bound is less than 1 away."""
    bound = prepared({"type": "number"} | bounds)
    assert not takes(bound, number)
    assert not takes(bound, str(float(number)))
    given = [*bounds.values(), bounds[next(iter(bounds))] + 1]  # two bounds, or one and what is beyond it
    assert takes(bound, f"{sum(given[:2]) / 2:.12f}".rstrip("0"))


def takes(schema: dict[str, Any], text: str) -> bool:
    tokens = LLTokenizer("byte")
    matcher = LLMatcher(tokens, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    assert not matcher.get_error()
    given = tokens.tokenize_str(text)
    return bool(matcher.try_consume_tokens(given) == len(given) and matcher.is_accepting())


def test_what_says_nothing_is_left_out() -> None:
    """Libraries write it."""
    silent = {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"uniqueItems": False}}
    assert made(silent) == {"type": "object", "additionalProperties": {}}


@pytest.mark.parametrize(
    "pattern", ["^(([a-z]{1,10}){1,10}x?){1,10}$", r"^(.{1,72}\n?){1,50}$", "([a-z]{1,50}){1,50}y"]
)
def test_patterns_that_can_be_read_in_too_many_ways_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="repeats too much within repetitions"):
        prepared({"pattern": pattern})
    assert "pattern" not in prepared({"pattern": pattern}, lenient=True)


def test_other_repetitions_are_kept() -> None:
    for pattern in ("^([A-Z][a-z]{1,20} ?){1,40}$", "^[a-z]{1,5000}$", "^([a-z]{0,100}){0,100}$"):
        assert prepared({"pattern": pattern})["pattern"] == pattern
