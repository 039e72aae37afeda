"""Whether arguments fit a tool's schema."""

from typing import Any

import pytest

from orchard.core.tasks.generate import Tool
from orchard.formats.fit import fits_parameter, misfit
from orchard.formats.schema import Signature

EDIT = {"type": "object", "properties": {"old": {"type": "string"}, "n": {"type": "integer"}}, "required": ["old"]}
PROPERTIES = {
    "s": {"type": "string"},
    "n": {"type": "number"},
    "i": {"type": ["integer", "null"]},
    "o": {"type": "boolean", "nullable": True},
    "e": {"enum": ["C", 1]},
    "c": {"const": "x"},
    "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
    "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/edit"}]},
    "both": {"allOf": [{"type": "object"}, {"required": ["a"]}]},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "closed": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
    "never": False,
    "loop": {"$ref": "#/properties/loop"},
    "wide": {"anyOf": [{"$ref": "#/properties/wide", "title": str(n)} for n in range(20)] + [{"type": "null"}]},
    "any": {},
}
SIGNATURE = Signature(Tool("f", parameters={"properties": PROPERTIES, "$defs": {"edit": EDIT}}))


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("s", "x", True),
        ("s", 1, False),
        ("s", None, False),
        ("n", 1, True),
        ("n", 1.5, True),
        ("n", True, False),
        ("i", None, True),
        ("i", 1.5, False),
        ("o", None, True),
        ("o", "x", False),
        ("e", "C", True),
        ("e", "D", False),
        ("c", "y", False),
        ("edits", [{"old": "x", "n": 1}], True),
        ("edits", [{"old": "x"}, {"n": 1}], False),
        ("edits", [{"old": 1}], False),
        ("either", "x", True),
        ("either", {"old": "x"}, True),
        ("either", 1, False),
        ("both", {"a": 1}, True),
        ("both", {}, False),
        ("map", {"x": 1}, True),
        ("map", {"x": "y"}, False),
        ("closed", {"a": 1}, True),
        ("closed", {"b": 1}, False),
        ("never", 1, False),
        ("loop", 1, False),
        ("wide", 1, False),
        ("any", [1], True),
    ],
)
def test_values(name: str, value: Any, *, fits: bool) -> None:
    found = misfit(SIGNATURE, {name: value})
    assert found == (None if fits else f"the value of '{name}' doesn't fit its schema")


def test_names() -> None:
    assert misfit(Signature(Tool("f")), {}) is None
    assert misfit(Signature(Tool("f")), {"secret": 1}) == "the tool has no such parameter"
    needs = Signature(Tool("f", parameters={"required": ["a"], "additionalProperties": {"type": "integer"}}))
    assert misfit(needs, {}) == "the parameter 'a' is missing"
    assert misfit(needs, {"a": 1, "secret": "x"}) == "a value doesn't fit its schema"


@pytest.mark.parametrize(
    ("name", "text", "fits"),
    [
        ("s", "5", True),
        ("n", " 5\n", True),
        ("n", "x", False),
        ("e", "C", True),
        ("e", "2", False),
        ("i", "None", True),
    ],
)
def test_texts(name: str, text: str, *, fits: bool) -> None:
    assert fits_parameter(SIGNATURE, name, text) is fits
