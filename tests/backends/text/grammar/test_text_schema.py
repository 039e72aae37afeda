"""What a parameter may be whose value stands between tags, as it is; and that what is read in it keeps the schema."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from orchard.backends.text.grammar import lark
from orchard.backends.text.grammar.json_schema import prepare_schema
from orchard.core.tasks.generate import Tool
from orchard.formats.registry import choose_family
from tests.support.format_reading import Call, parse, whole
from tests.support.format_reading import prepared as prepared_calls

FRAMES = {
    "qwen3_coder": ("<tool_call>\n<function=f>\n<parameter=a>\n", "\n</parameter>\n</function>\n</tool_call>"),
    "glm47": ("<tool_call>f<arg_key>a</arg_key><arg_value>", "</arg_value></tool_call>"),
    "gemma4": ('<|tool_call>call:f{a:<|"|>', '<|"|>}<tool_call|>'),
}
STRING = {"type": "string"}
DEFINITIONS = {
    "$defs": {
        "color": {"enum": ["red", "blue"]},
        "code": STRING | {"pattern": "^[A-Z]+$"},
        "tree": {"type": "object", "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
    }
}


@cache
def byte_tokens() -> Any:
    return LLTokenizer("byte")


def matches(grammar: str, text: str) -> bool:
    matcher = LLMatcher(byte_tokens(), grammar)
    assert not matcher.get_error() or "Unsatisfiable" in matcher.get_error()
    tokens = byte_tokens().tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def tool(schema: Any) -> Tool:
    return Tool("f", parameters={"properties": {"a": schema}, "required": ["a"]} | DEFINITIONS, strict=True)


def accepts(schema: Any, text: str, parser: str = "qwen3_coder", *, lenient: bool = False) -> bool:
    grammar = prepared_calls(choose_family("", tool_call_parser=parser).calls_grammar([tool(schema)]), lenient=lenient)
    return matches(
        lark.complete_grammar("calls", lark.call_rules(grammar, lark.Tags({}), parallel=True)),
        text.join(FRAMES[parser]),
    )


def read(schema: Any, text: str, parser: str) -> Any:
    (call,) = whole(
        parse(choose_family("", tool_call_parser=parser).begin("", [tool(schema)]), text.join(FRAMES[parser]))
    )
    assert isinstance(call, Call)
    return json.loads(call.arguments)["a"]


def keeps(schema: Any, value: Any) -> bool:
    """Whether a value keeps a schema, as llguidance sees it in JSON."""
    alone = DEFINITIONS | schema if isinstance(schema, dict) else schema
    return matches(LLMatcher.grammar_from_json_schema(json.dumps(prepare_schema(alone))), json.dumps(value))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (STRING | {"pattern": "^a+$"}, ["a", "aa"], ["", "ab", "a\n"]),
        (STRING | {"pattern": "a|^b"}, ["xay", "bx"], ["xb", "x"]),
        (STRING | {"pattern": r"^\d{3}-[^<]"}, ["123-x</p>"], ["12-x", "123-<"]),
        (STRING | {"minLength": 2, "maxLength": 3}, ["ab", "äöü", "a\nb"], ["a", "abcd"]),
        (STRING | {"maxLength": 2, "pattern": "b"}, ["b", "ab"], ["aab", "a"]),
        (STRING | {"minLength": 1}, ["x"], [""]),
        (STRING | {"format": "date"}, ["2024-02-29"], ["2024-02-30", "today"]),
        (STRING | {"format": "int32"}, ["x"], []),
        (STRING | {"enum": ["a", "a<b", 'say "x"\n', 3]}, ["a", "a<b", 'say "x"\n'], ["3", "b"]),
        (STRING | {"not": {"enum": ["a"]}}, ["b", "aa", ""], ["a"]),
        (STRING | {"not": {"anyOf": [{"enum": ["x"]}, {"const": "a"}]}}, ["ab", "xx"], ["x", "a"]),
        ({"const": "a b"}, ["a b"], ["a"]),
        ({"enum": ["x", 1, None, True]}, ["x", "1", "null", "true"], ["2", "None", "y", '"x"']),
        ({"$ref": "#/$defs/color"}, ["red"], ["green", '"red"']),
        ({"$ref": "#/$defs/code", "maxLength": 2}, ["AB"], ["ABC", "a"]),
        ({"anyOf": [{"$ref": "#/$defs/code"}, {"type": "null"}]}, ["A", "null"], ["a", ""]),
        ({"type": ["string", "null"], "format": "uuid"}, ["null"], ["x"]),
        ({"allOf": [{"$ref": "#/$defs/code"}, {"minLength": 2}]}, ["AB"], ["A", "ab"]),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, ["a", "b"], ["c"]),
        ({"oneOf": [STRING | {"pattern": "^a"}, {"type": "integer"}]}, ["a", "-5"], ["b", "5.5"]),
        ({"type": ["string", "integer"]}, ["a", "5", "5.5"], []),
        ({"type": ["string", "integer"], "pattern": "^[0-9]"}, ["5", "2024-01", "07x"], ["a"]),
        ({"anyOf": [STRING, {"const": 5}]}, ["a", "5", "5x"], ["6", " 7 "]),
        ({"anyOf": [STRING, {"type": "boolean", "const": True}]}, ["a", "true", "falsely"], ["false", "False"]),
        (
            {"anyOf": [STRING, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}]},
            ["a", "[1, 2]", "a[0]"],
            ['["a"]', "[1, 2, 3]", "[", ' {"a'][:3],
        ),
        (
            {"anyOf": [STRING | {"maxLength": 3}, {"$ref": "#/$defs/tree"}]},
            ["abc", '{"of": [{"of": []}]}'],
            ["abcd", '{"of": 1}', "{}x"],
        ),
        ({"anyOf": [STRING, {}]}, ["a", "[", "{}"], []),
        ({"minLength": 2}, ["ab", "null", "[1]", '{"a": []}'], ["a", ""]),
        ({}, ["", "a", "{"], []),
        ({"type": "integer", "minimum": 3, "maximum": 12}, ["3", "12"], ["2", "13", "x"]),
        ({"type": "array", "items": {"$ref": "#/$defs/color"}, "minItems": 1}, ['["red"]'], ["[]", '["green"]']),
    ],
    ids=json.dumps,
)
def test_what_keeps_a_schema(schema: Any, good: list[str], bad: list[str]) -> None:
    for parser in ("qwen3_coder", "glm47"):
        assert [text for text in good if not accepts(schema, text, parser)] == []
        assert [text for text in bad if accepts(schema, text, parser)] == []


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (STRING | {"pattern": "(?=a)b"}, "look-around"),
        (STRING | {"pattern": "a^b"}, "has an anchor within it"),
        (STRING | {"pattern": r"\bx"}, "lookarounds not supported yet"),
        (STRING | {"pattern": 3}, "a pattern is a string"),
        (STRING | {"if": {"minLength": 3}, "then": {"pattern": "a"}}, "`if`"),
        ({"type": ["string", "integer"], "minimum": 3}, "`minimum` can't be enforced on a value"),
        (
            {"type": ["string", "null"], "not": {"const": "a"}},
            "`not` can't be enforced on a value",
        ),
        ({"oneOf": [STRING | {"pattern": "a"}, STRING | {"pattern": "b"}]}, "the branches of a `oneOf` may overlap"),
        (STRING | {"pattern": "null", "maxLength": 2}, "nothing satisfies it"),
        (STRING | {"enum": ["a", "b"], "not": {"enum": ["b", "a"]}}, "nothing satisfies it"),
        (STRING | {"not": {"pattern": "x"}}, "`not`: it must list values"),
        (STRING | {"pattern": "(a{0,1000}){0,1000}"}, "repeats too much"),
        (STRING | {"pattern": "^[0-9]*$", "minLength": 90_000}, "lengths and repetitions together are too large"),
    ],
    ids=json.dumps,
)
def test_what_can_be_dropped_where_a_tool_is_not_strict(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        accepts(schema, "")
    assert accepts(schema, "abba", lenient=True)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (STRING | {"enum": [3]}, "nothing satisfies it"),
        (STRING | {"minLength": 3, "maxLength": 2}, "no lengths"),
        (STRING | {"maxLength": -1}, "no lengths"),
        ({"$ref": "#/$defs/none"}, "#/\\$defs/none is not in the schema"),
        ({"anyOf": [STRING, {"type": "town"}]}, "Invalid type: town"),
        ({"anyOf": [STRING, 3]}, "a schema is an object"),
        ({"allOf": [{"anyOf": [STRING | {"minLength": n} for n in range(20)]} for _ in range(2)]}, "more than 256"),
    ],
    ids=json.dumps,
)
def test_what_is_never_kept(schema: Any, why: str) -> None:
    for lenient in (False, True):
        with pytest.raises(ValueError, match=why):
            accepts(schema, "", lenient=lenient)


@pytest.mark.parametrize("text", ["x", 'a "b" <c>', ""])
def test_other_formats_keep_it_too(text: str) -> None:
    assert accepts(STRING | {"maxLength": 10}, text, "gemma4")
    assert not accepts(STRING | {"maxLength": 10}, f"{text}0123456789x", "gemma4")
    assert read(STRING | {"maxLength": 10}, text, "gemma4") == text


words = st.lists(st.sampled_from(["a", "b", "5", "-1", ".0", " ", "\n", "null", "true", "[", "]", '"', "{", "}", "<"]))
strings = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "pattern": st.sampled_from(["^a", "b$", "^$|5", "null", "^[^<]*$"]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(2, 4),
        "enum": st.lists(st.sampled_from(["a", "5", "null", "[a]"]), min_size=1, unique=True),
    },
)
others = st.sampled_from(
    [
        {"type": "null"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"const": True},
        {"enum": [5, -1]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object"},
        {"$ref": "#/$defs/tree"},
    ]
)
schemas = strings | st.lists(strings | others, min_size=1, max_size=3).map(lambda several: {"anyOf": several})


@given(schemas, words.map("".join), st.sampled_from(["qwen3_coder", "glm47"]))
def test_what_is_read_in_an_accepted_text_keeps_the_schema(schema: Any, text: str, parser: str) -> None:
    try:
        accepted = accepts(schema, text, parser)
    except ValueError:
        assume(False)
    if accepted:
        assert keeps(schema, read(schema, text, parser))
    elif schema.get("type") == "string":
        assert not keeps(schema, text)
