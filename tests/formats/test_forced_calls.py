"""What a grammar for calls lets through: what each family writes, with its tags as tokens and as plain text."""

import re
from collections.abc import Sequence
from functools import cache

import pytest
from llguidance import LLMatcher

from orchard.core.request import Tool
from orchard.engine.grammar import Alphabet
from orchard.formats import choose
from orchard.worker import lark
from tests.formats.reading import TOOLS, Call
from tests.formats.specimens import SPECIMENS, Specimen

FORCED = [one for one in SPECIMENS if one.forced]
_TAG = re.compile(r"<\|[^<>]+\|?>|<[a-z_]+\|>|<｜[^<>]+｜>|</?(?:\w*tool_call|\w*arg_\w+|escape|\w+_function_call)>")

each = pytest.mark.parametrize("specimen", FORCED, ids=lambda one: f"{one.parser}-{one.text[:40]!r}")


@cache
def alphabet(tags: tuple[str, ...]) -> Alphabet:
    """One token a byte, and one a tag."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"<eos>", *(tag.encode() for tag in tags)]
    return Alphabet(pieces, range(256, len(pieces)), [256], lambda text: tokens(text, tags))


def tokens(text: str, tags: tuple[str, ...]) -> list[int]:
    parts = re.split(f"({'|'.join(map(re.escape, tags))})", text) if tags else [text]
    return [id_ for part in parts for id_ in ([257 + tags.index(part)] if part in tags else part.encode())]


def accepts(specimen: Specimen, text: str, tags: tuple[str, ...], tools: Sequence[Tool] = TOOLS) -> bool:
    shape = choose("", tool_call_parser=specimen.parser).calls(tools)
    assert shape
    known = lark.Tags({tag: 257 + place for place, tag in enumerate(tags)})
    matcher = LLMatcher(alphabet(tags).tokenizer, lark.whole("calls", lark.calls(shape, known, several=True)))
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
FREE = Tool("f", parameters={"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})


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
    ],
)
def test_arguments_keep_the_schema(parser: str, tool: Tool, text: str, accepted: bool) -> None:
    for tags in (tuple(dict.fromkeys(_TAG.findall(text))), ()):
        assert accepts(Specimen(parser, text, []), text, tags, [tool]) is accepted


def test_many_optional_arguments_make_no_large_grammar() -> None:
    schema = {"type": "string", "description": "x" * 50}
    tool = Tool("f", parameters={"properties": {f"p{number}": schema for number in range(50)}})
    for parser in ("pythonic", "gemma4"):
        shape = choose("", tool_call_parser=parser).calls([tool])
        assert shape
        assert len(shape.calls[0].body) < 100_000
