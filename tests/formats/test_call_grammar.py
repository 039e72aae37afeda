"""What a grammar for calls keeps out, and that any text may stand in a string (see also test_forced_calls)."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from orchard.backends.text.grammar import lark
from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsGrammar
from orchard.formats.registry import CALLS, choose_family
from tests.support.format_reading import TOOLS, Call, parse, prepared, whole
from tests.support.specimens.one import SPECIMENS

STRING = Tool("write", parameters={"properties": {"content": {"type": "string"}}, "required": ["content"]})
PARTS = ["<", "/", "p", "a", ">", "\n", "</p", "</parameter", "</arg_valu", "x"]


@cache
def byte_tokens() -> Any:
    return LLTokenizer("byte")


def grammar_of(parser: str, tools: list[Tool]) -> CallsGrammar:
    return prepared(choose_family("", tool_call_parser=parser).calls_grammar(tools))


def accepts(grammar: CallsGrammar, text: str) -> bool:
    matcher = LLMatcher(
        byte_tokens(), lark.complete_grammar("calls", lark.call_rules(grammar, lark.Tags({}), parallel=True))
    )
    assert not matcher.get_error()
    tokens = byte_tokens().tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.names[0])
def test_every_family_has_a_grammar_and_a_specimen_of_it(row: Any) -> None:
    grammar = grammar_of(row.names[0], TOOLS)
    assert [call.name for call in grammar.calls] == [tool.name for tool in TOOLS]
    assert all(grammar.trigger in grammar.prefix + call.begin for call in grammar.calls)
    assert any(specimen.forced for specimen in SPECIMENS if specimen.parser in row.names)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("hermes", '<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>'),
        ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"days": 3}}\n</tool_call>'),
        ("qwen3_coder", "<tool_call>\n<function=weather>\n</function>\n</tool_call>"),
        ("qwen3_coder", "<tool_call>\n<function=now>\n<parameter=a>\nb\n</parameter>\n</function>\n</tool_call>"),
        (
            "qwen3_coder",
            "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\nthree\n</parameter>\n"
            "</function>\n</tool_call>",
        ),
        (
            "glm45",
            "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>unit</arg_key>\n"
            "<arg_value>K</arg_value>\n</tool_call>",
        ),
    ],
)
def test_a_grammar_lets_nothing_else_through(parser: str, text: str) -> None:
    assert not accepts(grammar_of(parser, TOOLS), text)


@pytest.mark.parametrize(
    ("parser", "opening", "close"),
    [
        ("qwen3_coder", "<parameter=content>\n", "\n</parameter>\n"),
        ("minimax_m2", '<parameter name="content">', "</parameter>\n"),
        ("glm45", "<arg_key>content</arg_key>\n<arg_value>", "</arg_value>\n"),
        ("glm47", "<arg_key>content</arg_key><arg_value>", "</arg_value>"),
    ],
)
@given(value=st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_any_text_may_stand_in_a_string_and_is_read_as_it_is(parser: str, opening: str, close: str, value: str) -> None:
    assume(close.strip() not in value)
    grammar = grammar_of(parser, [STRING])
    (call,) = grammar.calls
    text = f"{grammar.prefix}{call.begin}{opening}{value}{close}{call.end}{grammar.suffix}"
    assert accepts(grammar, text)
    expected = Call("write", json.dumps({"content": value}))
    assert whole(parse(choose_family("", tool_call_parser=parser).begin("", [STRING]), text)) == [expected]
