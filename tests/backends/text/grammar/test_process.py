"""Grammars that take too much are refused, and what asks for others goes on."""

import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from orchard.backends.text.grammar import input_grammar, lark
from orchard.backends.text.grammar.input_grammar import mark_input
from orchard.backends.text.grammar.process import LIMITS, GrammarProcess, make_answer
from orchard.backends.text.grammar.writer import GrammarRequest, GrammarWriter, ToolCalls
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Grammar, Tool
from orchard.formats.registry import choose_family

SPECIAL = {"<|im_end|>": 3, "<tool_call>": 9}
ENDLESS = {"allOf": [{"type": "string", "pattern": f".*[a-z]{{{20 + n}}}.*"} for n in range(30)]}
_RULES = [f'r{n}: /[a-z]{{1,{n + 1}}}/ r{(n + 1) % 3000} | "x"' for n in range(3000)]
DEEP = "\n".join([f"start: {' | '.join(f'r{n}' for n in range(3000))}", *_RULES]) + "\n"


def wanting(kind: object, value: object) -> GrammarRequest:
    return GrammarRequest(Grammar(kind, value, "response_format"), (), must_call=False, parallel_calls=True)  # type: ignore[arg-type]


PERSON = wanting("json_schema", {"type": "object", "properties": {"name": {"type": "string"}}})


@pytest.fixture
def process() -> Iterator[GrammarProcess]:
    process = GrammarProcess(SPECIAL, LIMITS._replace(cpu_seconds=0.5))
    yield process
    process.close()


def test_a_process_writes_what_a_writer_writes(process: GrammarProcess) -> None:
    shape = choose_family("", tool_call_parser="hermes").calls_grammar([Tool("f")])
    assert shape
    for wanted in (PERSON, GrammarRequest(None, (ToolCalls("f", shape, None),), must_call=True, parallel_calls=True)):
        assert process.write(wanted) == GrammarWriter(SPECIAL).write(wanted)
    with pytest.raises(ValueError, match="nothing satisfies the schema"):
        process.write(wanting("json_schema", False))
    free = GrammarRequest(None, (), must_call=False, parallel_calls=True)
    assert process.write(free) is None


def test_what_is_known_of_terminals_is_not_used_for_other_callers() -> None:
    answer = make_answer(msgspec.msgpack.encode(SPECIAL))
    tool = Tool("f", input_grammar="start: /[a-z]+/")
    shape = choose_family("", tool_call_parser="hermes").calls_grammar([mark_input(tool)])
    assert shape
    called = GrammarRequest(
        None, (ToolCalls("f", shape, None, tool.input_grammar),), must_call=True, parallel_calls=True
    )
    pattern = wanting("json_schema", {"type": "string", "pattern": "^[a-z]{1,9}(foo|bar)+$"})
    known = []
    for salt in (b"a", b"b", b"b"):
        for wanted in (pattern, called):
            list(answer(msgspec.msgpack.encode(replace(wanted, salt=salt))))
        known.append(
            [one.cache_info() for one in (lark.terminal_fault, lark.repetition_fault, input_grammar.escape_class)]
        )
    assert all(info.misses for info in known[0])
    assert known[0] == known[1] != known[2]


def test_a_strict_tool_is_to_blame_by_its_name(process: GrammarProcess) -> None:
    tool = Tool("f", parameters={"type": "object", "properties": {"a": {"type": "nothing"}}}, strict=True)
    shape = choose_family("", tool_call_parser="hermes").calls_grammar([tool])
    assert shape
    with pytest.raises(OrchardError, match="the strict tool 'f' can't be enforced") as refused:
        process.write(GrammarRequest(None, (ToolCalls("f", shape, None),), must_call=True, parallel_calls=True))
    assert refused.value.param == "tools"


def test_what_takes_too_long_is_refused_and_the_next_grammar_is_not(process: GrammarProcess) -> None:
    with pytest.raises(ValueError, match="takes too long"):
        process.write(wanting("json_schema", ENDLESS))
    assert process.write(PERSON)


def test_what_crashes_is_refused_and_the_next_grammar_is_not(process: GrammarProcess) -> None:
    with pytest.raises(ValueError, match=r"takes too (long|much memory)"):
        process.write(wanting("lark", DEEP))
    assert process.write(PERSON)


def test_the_process_needs_no_mlx() -> None:
    code = "import orchard.backends.text.grammar.process, sys; sys.exit('mlx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
