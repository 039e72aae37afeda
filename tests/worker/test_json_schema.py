"""What a schema becomes before llguidance gets it; what comes of that is test_constraint's."""

from typing import Any

import pytest

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
