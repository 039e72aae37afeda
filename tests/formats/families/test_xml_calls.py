"""Arguments of MiniMax M3, elements within each other: what the schema says of them."""

import json
from typing import Any

import pytest

from orchard.core.tasks.generate import Tool
from orchard.formats.registry import choose_family
from tests.support.format_reading import Call, parse, whole

UNIONS = Tool(
    "f",
    parameters={
        "properties": {
            "either": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/size"}}, {"$ref": "#/$defs/box"}]},
            "text": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/box"}]},
            "sizes": {"type": "array", "items": {"type": "array", "items": {"$ref": "#/$defs/size"}}},
            "maybe": {"type": ["object", "null"], "additionalProperties": {"type": "boolean"}},
        },
        "$defs": {
            "size": {"type": "integer"},
            "box": {"properties": {"width": {"$ref": "#/$defs/size"}, "item": {"type": "string"}}, "type": "object"},
        },
    },
)


def read(elements: str) -> list[Call | str]:
    text = f'~<invoke name="f">{elements}~</invoke>'.replace("~", "]<]minimax[>[")
    found = whole(parse(choose_family("", tool_call_parser="minimax_m3").begin("", [UNIONS]), *text))
    assert found == whole(parse(choose_family("", tool_call_parser="minimax_m3").begin("", [UNIONS]), text))
    return found


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ("~<either>~<item>3~</item>~</either>", {"either": [3]}),
        ("~<either>~<width>3~</width>~</either>", {"either": {"width": 3}}),
        ("~<either>~</either>", {"either": []}),
        ("~<text>~<width>3~</width>~</text>", {"text": {"width": 3}}),
        ("~<text>~<item>3~</item>~</text>", {"text": {"item": "3"}}),
        ("~<text>a <b>~</text>", {"text": "a <b>"}),
        ("~<text>~</text>", {"text": ""}),
        (
            "~<sizes>~<item>~<item>1~</item>~<item>2~</item>~</item>\n~<item>~</item>~</sizes>",
            {"sizes": [[1, 2], []]},
        ),
        ("~<maybe>null~</maybe>", {"maybe": None}),
        ("~<maybe>~<a>True~</a>~<b>no~</b>~</maybe>", {"maybe": {"a": True, "b": "no"}}),
        ("~<other>~<a>1~</a>~</other>", {"other": {"a": "1"}}),
        ("~<other>5~</other>", {"other": "5"}),
        ("", {}),
    ],
)
def test_values_are_of_the_types_of_their_schema(elements: str, expected: dict[str, Any]) -> None:
    (call,) = read(elements)
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == expected


@pytest.mark.parametrize(
    "elements",
    ["~<text>a~</sizes>", "~<sizes>~<b>1~</b>~</sizes>", "~<>1~</>", "text"],
)
def test_what_is_no_call_is_text(elements: str) -> None:
    text = f'~<invoke name="f">{elements}~</invoke>'.replace("~", "]<]minimax[>[")
    assert read(elements) == [text]


def test_elements_within_each_other_have_an_end() -> None:
    (call,) = read("~<other>" + "~<a>" * 1000)
    assert isinstance(call, Call)
    assert not call.over
    assert call.arguments.count("{") == 33
