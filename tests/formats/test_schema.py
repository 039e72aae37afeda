"""The types that a schema gives a parameter, and values as models write them."""

from typing import Any

import pytest

from orchard.core.tasks.generate import Tool
from orchard.formats.schema import Signature, convert_text, load_json

NUMBER: dict[str, Any] = {"type": "integer"}
TEXT: dict[str, Any] = {"type": "string"}
ANYTHING: dict[str, Any] = {"description": "Whatever you like."}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (NUMBER, {"integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({**TEXT, "nullable": True}, {"string", "null"}),
        ({"anyOf": [NUMBER, TEXT]}, {"integer", "string"}),
        ({"anyOf": [NUMBER, ANYTHING]}, set()),  # it may be a string, too
        ({"oneOf": [ANYTHING, NUMBER]}, set()),
        ({"anyOf": [NUMBER, {"anyOf": [TEXT, True]}]}, set()),
        ({"allOf": [{"type": ["integer", "string"]}, ANYTHING, NUMBER]}, {"integer"}),
        ({"enum": ["a", 1, None]}, {"string", "integer", "null"}),
        ({"const": True}, {"boolean"}),
        ({"$ref": "#/$defs/number"}, {"integer"}),
        ({"$ref": "#/$defs/none"}, set()),
        (ANYTHING, set()),
    ],
)
def test_the_types_of_a_parameter(schema: Any, types: set[str]) -> None:
    tool = Tool("f", parameters={"type": "object", "properties": {"a": schema}, "$defs": {"number": NUMBER}})
    assert Signature(tool).types("a") == types


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ude00\\ud83d"])
def test_half_a_surrogate_stays_escaped(half: str) -> None:
    """A text that holds one can't be sent: it is no UTF-8."""
    text = f'["{half}é\n"]'  # with a bare newline, so that it is written anew
    found = load_json(text)
    assert found
    assert found[1].encode() == f'["{half}\\u00e9\\n"]'.encode()
    assert convert_text(text, frozenset({"array"})) == found[1]
    assert load_json('["é\n"]') == (["é\n"], '["é\\n"]')
    whole = load_json('["\\ud83d\\ude00\n"]')
    assert whole
    assert whole[1] == '["\U0001f600\\n"]'


@pytest.mark.parametrize(
    ("text", "types", "fits"),
    [
        ("2.0", {"integer"}, "2"),
        ("2.5", {"integer"}, None),
        ("2.5", {"number"}, "2.5"),
        ("2", {"number"}, "2"),
        ("True", {"boolean"}, "true"),
        ("None", {"null"}, "null"),
        ("2", {"boolean"}, None),
        ('"a"', {"string"}, None),
        ("[1]", set(), "[1]"),
        ("2", set(), None),
        ("1e999", {"number"}, None),
        ("NaN", {"number"}, None),
    ],
)
def test_which_value_a_text_stands_for(text: str, types: set[str], fits: str | None) -> None:
    assert convert_text(text, frozenset(types)) == fits
