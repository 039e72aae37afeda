"""What a grammar for calls lets through: what each family writes, with its tags as tokens and as plain text."""

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from llguidance import LLMatcher
from msgspec.structs import replace

from orchard.backends.text.grammar import lark
from orchard.core.tasks.generate import Tool
from orchard.engine.sampling.grammar import GrammarVocabulary
from orchard.formats.registry import choose_family
from tests.support.format_reading import TOOLS, Call, parse, prepared, whole
from tests.support.specimens.one import SPECIMENS, Specimen

FORCED = [one for one in SPECIMENS if one.forced]
_TAG = re.compile(
    r"\]<\]minimax\[>\[|<\|[^<>]+\|?>|<[a-z_]+\|>|<｜[^<>]+｜>|｜DSML｜|</?ifm[^<>]+>|</?(?:\w*tool_call|\w*arg_\w+|\w+:(?:opensource|6124c78e)|escape|\w+_function_call)>"
)

each = pytest.mark.parametrize("specimen", FORCED, ids=lambda one: f"{one.parser}-{one.text[:40]!r}")


@cache
def alphabet(tags: tuple[str, ...]) -> GrammarVocabulary:
    """One token a byte, and one a tag."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"<eos>", *(tag.encode() for tag in tags)]
    return GrammarVocabulary(pieces, range(256, len(pieces)), [256], lambda text: tokens(text, tags))


def tokens(text: str, tags: tuple[str, ...]) -> list[int]:
    parts = re.split(f"({'|'.join(map(re.escape, tags))})", text) if tags else [text]
    return [id_ for part in parts for id_ in ([257 + tags.index(part)] if part in tags else part.encode())]


def accepts(specimen: Specimen, text: str, tags: tuple[str, ...], tools: Sequence[Tool] = TOOLS) -> bool:
    grammar = prepared(choose_family("", tool_call_parser=specimen.parser).calls_grammar(tools), tags)
    known = lark.Tags({tag: 257 + place for place, tag in enumerate(tags)})
    matcher = LLMatcher(
        alphabet(tags).tokenizer, lark.complete_grammar("calls", lark.call_rules(grammar, known, parallel=True))
    )
    assert not matcher.get_error()
    found = tokens(text, tags)
    return matcher.try_consume_tokens(found) == len(found) and matcher.is_accepting()


def tags_of(specimen: Specimen) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_TAG.findall(specimen.text)))


@each
def test_what_a_family_writes_is_let_through(specimen: Specimen) -> None:
    assert accepts(specimen, specimen.text, tags_of(specimen))
    assert accepts(specimen, specimen.text, ())


@each
def test_other_tools_and_other_text_are_not(specimen: Specimen) -> None:
    tags = tags_of(specimen)
    name = next(one.name for one in specimen.expected if isinstance(one, Call))
    assert not accepts(specimen, specimen.text.replace(name, "another"), tags)
    assert not accepts(specimen, f"Sure! {specimen.text}", tags)
    assert not accepts(specimen, specimen.text[:-1], tags)


TOOL = Tool(
    "f",
    parameters={
        "type": "object",
        "properties": {
            "early": {"type": "boolean"},
            "text": {"type": "string"},
            "late": {"type": ["integer", "null"]},
            "deep": {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/item"}}}},
        },
        "required": ["text"],
        "$defs": {"item": {"type": "string", "enum": ["x", "y"]}},
    },
)
MIXED = Tool("f", parameters={"properties": {"a b": {"enum": [1, "x", None]}}, "required": ["a b"]})
CODE = Tool("f", parameters={"properties": {"a": {"type": "string", "pattern": "^x+$"}}, "required": ["a", "b"]})
ANY = Tool("f", parameters={"type": "object"})
TWO = {"const": 2}
NAMED = Tool(
    "f",
    parameters={
        "$ref": "#/$defs/arguments",
        "$defs": {
            "arguments": {
                "properties": {"a": {"$ref": "#/$defs/one"}, "b": False},
                "additionalProperties": {"const": 2},
            },
            "one": {"const": 1},
        },
    },
)
FREE = Tool("f", parameters={"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})


def _pairs(**values: str) -> str:
    pairs = "".join(f"<arg_key>{name}</arg_key><arg_value>{value}</arg_value>" for name, value in values.items())
    return f"<tool_call>f{pairs}</tool_call>"


def _dsml(values: str) -> str:
    inner = f'<｜DSML｜invoke name="f">\n{values}</｜DSML｜invoke>\n'
    return f"<｜DSML｜function_calls>\n{inner}</｜DSML｜function_calls>"


def _m3(*elements: str) -> str:
    mark = "]<]minimax[>["
    inner = "".join(elements).replace("~", mark)
    return f'{mark}<tool_call>\n{mark}<invoke name="f">{inner}{mark}</invoke>\n{mark}</tool_call>'


@pytest.mark.parametrize(
    ("parser", "tool", "text", "accepted"),
    [
        ("pythonic", TOOL, '[f(text="a < b")]', True),
        ("pythonic", TOOL, '[f(early=True, text="a", late=null, deep={"a": ["x"]})]', True),
        ("pythonic", TOOL, '[f(early="yes", text="a")]', False),
        ("pythonic", TOOL, "[f(early=True)]", False),
        ("pythonic", TOOL, '[f(text="a", deep={"a": ["z"]})]', False),
        ("glm47", MIXED, "<tool_call>f<arg_key>a b</arg_key><arg_value>null</arg_value></tool_call>", True),
        ("glm47", MIXED, "<tool_call>f<arg_key>a b</arg_key><arg_value>y</arg_value></tool_call>", False),
        ("glm47", CODE, _pairs(a="xx", b="any"), True),
        ("glm47", CODE, _pairs(a="xy", b="any"), False),
        ("glm47", CODE, _pairs(a="xx"), False),
        ("glm47", ANY, _pairs(), True),
        ("glm47", ANY, _pairs(b="{", c="5"), True),
        ("glm47", NAMED, _pairs(a="1", c="2", d="2"), True),
        ("glm47", NAMED, _pairs(a="2"), False),
        ("glm47", NAMED, _pairs(c="2", a="2"), False),
        ("glm47", NAMED, _pairs(c="3"), False),
        ("glm47", NAMED, _pairs(b="2"), False),
        ("glm47", FREE, _pairs(c="1"), False),
        ("pythonic", ANY, "[f(a=1, b_2=[])]", True),
        ("pythonic", ANY, "[f()]", True),
        ("pythonic", NAMED, "[f(a=1)]", True),
        ("pythonic", NAMED, "[f(a=2)]", False),
        ("gemma4", ANY, '<|tool_call>call:f{a:{"b":1}}<tool_call|>', True),
        ("gemma4", CODE, '<|tool_call>call:f{a:<|"|>xx<|"|>,b:1}<tool_call|>', True),
        ("gemma4", CODE, '<|tool_call>call:f{a:<|"|>xy<|"|>,b:1}<tool_call|>', False),
        (
            "deepseek_v32",
            NAMED,
            _dsml('<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n'),
            True,
        ),
        ("deepseek_v32", ANY, _dsml('<｜DSML｜parameter name="z" string="true">x</｜DSML｜parameter>\n'), True),
        ("pythonic", FREE, "[f()]", True),
        ("pythonic", FREE, "[f(b=1)]", True),
        ("pythonic", FREE, "[f(a=1, b=2)]", True),
        ("pythonic", FREE, "[f(b=1, )]", False),
        ("gemma4", TOOL, '<|tool_call>call:f{text:<|"|>a < <b> "c"<|"|>,late:5}<tool_call|>', True),
        ("gemma4", TOOL, '<|tool_call>call:f{early:true,text:<|"|><|"|>,deep:{a:["x","y"]}}<tool_call|>', True),
        ("gemma4", TOOL, "<|tool_call>call:f{text:a}<tool_call|>", False),
        ("gemma4", TOOL, '<|tool_call>call:f{text:<|"|>a<|"|>,late:<|"|>5<|"|>}<tool_call|>', False),
        ("functiongemma", FREE, "<start_function_call>call:f{}<end_function_call>", True),
        (
            "kimi_k2",
            FREE,
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f<|tool_call_argument_begin|>{}",
            False,
        ),
        ("harmony", FREE, " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}", True),
        ("harmony", FREE, " to=functions.f<|channel|>commentary json{}", False),
        ("minimax_m3", TOOL, _m3("~<early>true~</early>", "~<text>a < ]<b>~</text>"), True),
        ("minimax_m3", TOOL, _m3("~<text>~</text>", "~<deep>~<a>~<item>x~</item>~<item>y~</item>~</a>~</deep>"), True),
        ("minimax_m3", TOOL, _m3("~<text>~</text>", "~<deep>~<a>~<item>z~</item>~</a>~</deep>"), False),
        ("minimax_m3", TOOL, _m3("~<text>a~</early>"), False),
        ("minimax_m3", TOOL, _m3("~<early>yes~</early>", "~<text>a~</text>"), False),
        ("minimax_m3", CODE, _m3("~<a>xx~</a>", "~<b>any~</b>"), True),
        ("minimax_m3", CODE, _m3("~<a>xy~</a>", "~<b>any~</b>"), False),
        ("minimax_m3", NAMED, _m3("~<a>1~</a>"), True),
        ("minimax_m3", NAMED, _m3("~<a>2~</a>"), False),
        ("minimax_m3", ANY, _m3(), True),
    ],
)
def test_arguments_keep_the_schema(parser: str, tool: Tool, text: str, accepted: bool) -> None:
    for tags in (tuple(dict.fromkeys(_TAG.findall(text))), ()):
        assert accepts(Specimen(parser, text, []), text, tags, [tool]) is accepted


def test_many_optional_arguments_make_no_large_grammar() -> None:
    schema = {"type": "string", "description": "x" * 50}
    tool = Tool("f", parameters={"properties": {f"p{number}": schema for number in range(50)}})
    for parser in ("pythonic", "gemma4"):
        grammar = prepared(choose_family("", tool_call_parser=parser).calls_grammar([tool]))
        assert len(lark.call_rules(grammar, lark.Tags({}), parallel=True)) < 100_000


@pytest.mark.parametrize(
    "parser", ["qwen3_coder", "glm45", "deepseek_v32", "pythonic", "gemma4", "minicpm5", "minimax_m3", "muse_glimmer"]
)
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"minProperties": 1}, "can't be made to match `minProperties`"),
        ({"anyOf": [{"required": ["a"]}]}, "can't be made to match `anyOf`"),
        ({"$ref": "#/$defs/none"}, "can't be made to match `\\$ref`"),
        ({"$ref": "#/$defs/b", "$defs": {"b": {"properties": {}}}}, "can't be made to match `\\$ref`"),
        ({"properties": {"a": False}, "required": ["a"]}, "nothing satisfies the schema of the parameter 'a'"),
        ({"properties": {"a>b": {}}}, "can't write the name of the parameter 'a>b'"),
    ],
    ids=str,
)
def test_what_arguments_cannot_keep_is_refused_where_a_tool_is_strict(parser: str, more: Any, why: str) -> None:
    tool = Tool("f", parameters={"properties": {"a": {}}, **more}, strict=True)
    family = choose_family("", tool_call_parser=parser)
    with pytest.raises(ValueError, match=why):
        family.calls_grammar([tool])
    assert family.calls_grammar([replace(tool, strict=False)])


@pytest.mark.parametrize(("value", "expected"), [("5", 5), ("five", "five")])
def test_a_parameter_that_is_not_listed_has_the_type_of_the_others(value: str, expected: Any) -> None:
    tool = Tool("f", parameters={"properties": {}, "additionalProperties": {"type": "integer"}})
    (call,) = whole(parse(choose_family("", tool_call_parser="glm47").begin("", [tool]), _pairs(x=value)))
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == {"x": expected}
