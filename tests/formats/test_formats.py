from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats import choose
from orchard.formats.pieces import CallArguments, CallEnd, CallStart, Content, Format, Piece, Thought
from orchard.formats.plain import Plain
from orchard.formats.qwen3 import Qwen3


class Call(NamedTuple):
    name: str
    arguments: str
    over: bool = True


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
F = Call("f", '{"a": 1}')

# Fragments that meet every branch, and every beginning of a tag.
FRAGMENTS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "\n",
    "\n\n",
    " ",
    "text",
    "<",
    "<t",
    "</",
    "<tool_",
    "</tool_call",
    '{"name": "f", "arguments": {"a": 1}}',
    '{"name": "f"}',
    '{"name": "f", "arguments": {"a": "',
    '"}}',
    "{",
    "é😀",
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
formats = st.sampled_from(
    [
        {"thinking": thinking, "may_think": may_think, "may_call": may_call}
        for thinking in (False, True)
        for may_think in (False, True)
        for may_call in (False, True)
    ]
)


def whole(pieces: Iterable[Piece]) -> list[Call | str]:
    """Neighbouring pieces of one kind joined, reasoning in brackets."""
    joined: list[Call | str] = []
    last: type | None = None
    for piece in pieces:
        match piece:
            case CallStart(name):
                joined.append(Call(name, "", over=False))
            case CallArguments(text):
                call = joined.pop()
                assert isinstance(call, Call)
                joined.append(call._replace(arguments=call.arguments + text))
            case CallEnd():
                call = joined.pop()
                assert isinstance(call, Call)
                joined.append(call._replace(over=True))
            case Thought(text) | Content(text):
                opened, closed = ("[", "]") if isinstance(piece, Thought) else ("", "")
                if last is type(piece):
                    text = str(joined.pop())[len(opened) :].removesuffix(closed) + text
                joined.append(f"{opened}{text}{closed}")
        last = type(piece)
    return joined


def parse(format_: Format, *texts: str) -> list[Piece]:
    return [piece for text in texts for piece in format_.feed(text)] + format_.finish()


def cut(text: str, places: Iterable[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", ["Hello"]),
        ("", []),
        ("\n\nHello\n", ["\n\nHello\n"]),
        ("<think>\nHm.\n</think>\n\nHello", ["[Hm.]", "Hello"]),
        ("\n <think>Hm.\n\nYes.</think>Hello\n", ["[Hm.\n\nYes.]", "Hello\n"]),
        ("<think>\n\n</think>\n\nHello", ["Hello"]),
        ("<think>still thinking", ["[still thinking]"]),
        ("<think>a</thi", ["[a</thi]"]),
        ("Use <think> and </think>.", ["Use <think> and </think>."]),
        (CALL, [F]),
        (f"<think>\nHm.\n</think>\n\n{CALL}\n{CALL}\n", ["[Hm.]", F, F]),
        (f"I look.\n\n{CALL}\nDone.", ["I look.", F, "Done."]),
        (CALL.removesuffix("\n</tool_call>"), [F]),
        (CALL.removesuffix("call>"), [f"{CALL.removesuffix('call>')}"]),
        ("a\n<tool_call>{nonsense}</tool_call>\nb", ["a\n<tool_call>{nonsense}</tool_call>\nb"]),
        ('<tool_call>{"name": "f", "argum', ['<tool_call>{"name": "f", "argum']),
        ("<tool_call>", ["<tool_call>"]),
        ("a <tool", ["a <tool"]),
        ('<tool_call>{"name": "f"}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": null}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": ""}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": [1, 2]}"}</tool_call>', [Call("f", '{"a": [1, 2]}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "é\ny"}}</tool_call>', [Call("f", '{"a": "é\\ny"}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}', [Call("f", '{"a": "</tool_call>"}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>', [Call("f", '{"a": "\\ud800"}')]),
    ],
)  # fmt: skip
def test_an_answer_with_tools(text: str, expected: list[Call | str]) -> None:
    assert whole(parse(Qwen3(may_call=True), text)) == expected


@pytest.mark.parametrize(
    "body",
    [
        "[1]",
        '{"name": 1, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "\\ud800", "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "x"}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}",
        '{"name": "f", "arguments": {"a": ' + "[" * 100_000 + "}}",
    ],
)
def test_what_is_no_call_comes_back(body: str) -> None:
    text = f"\n<tool_call>{body}</tool_call>\n"
    assert whole(parse(Qwen3(may_call=True), text)) == [text]


def test_without_tools_a_call_is_text() -> None:
    assert whole(parse(Qwen3(), f"a\n{CALL}\n")) == [f"a\n{CALL}\n"]


def test_reasoning_that_the_prompt_opened() -> None:
    assert whole(parse(Qwen3(thinking=True), "Hm.\n</think>\n\nHello")) == ["[Hm.]", "Hello"]


def test_thinking_is_known_while_it_lasts() -> None:
    format_ = Qwen3()
    seen = [(format_.feed(text), format_.thinking)[1] for text in ("<thi", "nk>", "a", "</think", ">", "b")]
    assert seen == [False, True, True, True, False, False]


@given(text=texts, options=formats, places=st.lists(st.integers(0, 200), max_size=12))
def test_cuts_change_nothing(text: str, options: dict[str, bool], places: list[int]) -> None:
    uncut = parse(Qwen3(**options), text)
    pieces = parse(Qwen3(**options), *cut(text, places))
    assert whole(pieces) == whole(uncut) == whole(parse(Qwen3(**options), *text))
    assert marked(pieces) == marked(uncut)


def marked(pieces: list[Piece]) -> set[tuple[int, str]]:
    return {
        (piece.start + n, char) for piece in pieces if isinstance(piece, Content) for n, char in enumerate(piece.text)
    }


@given(text=texts, options=formats, places=st.lists(st.integers(0, 200), max_size=12))
def test_content_says_where_it_stood(text: str, options: dict[str, bool], places: list[int]) -> None:
    last = 0
    for piece in parse(Qwen3(**options), *cut(text, places)):
        if isinstance(piece, Content):
            assert piece.text
            assert text[piece.start :].startswith(piece.text)
            assert piece.start >= last
            last = piece.start + len(piece.text)


@given(text=st.lists(st.sampled_from([f for f in FRAGMENTS if not f.endswith(">")]), max_size=12).map("".join))
def test_text_without_tags_is_the_answer(text: str) -> None:
    assert "".join(str(piece) for piece in whole(parse(Qwen3(may_call=True), *text))) == text
    thought = whole(parse(Qwen3(thinking=True, may_call=True), *text))
    assert thought == ([f"[{text.lstrip(chr(10))}]"] if text.strip("\n") or text.lstrip("\n") else [])


@given(text=st.text(), places=st.lists(st.integers(0, 50)))
def test_plain_passes_everything_through(text: str, places: list[int]) -> None:
    pieces = parse(Plain(), *cut(text, places))
    assert "".join(str(piece) for piece in whole(pieces)) == text
    assert marked(pieces) == set(enumerate(text))


@pytest.mark.parametrize(
    ("template", "prompt", "tools", "text", "expected"),
    [
        ("no tags", "", True, f"<think>a</think>{CALL}", [f"<think>a</think>{CALL}"]),
        ("<think><tool_call>", "assistant\n", True, f"<think>a</think>{CALL}", ["[a]", F]),
        ("<think><tool_call>", "assistant\n", False, f"<think>a</think>{CALL}", ["[a]", CALL]),
        ("<think><tool_call>", "assistant\n<think>\n", True, f"a</think>{CALL}", ["[a]", F]),
        ("<think>", "<think>\n\n</think>\n\n", True, "<think>a", ["<think>a"]),
        ("<tool_call>", "assistant\n", True, f"<think>{CALL}", ["<think>", F]),
    ],
)
def test_the_format_is_found_by_the_template(
    template: str, prompt: str, tools: bool, text: str, expected: list[Call | str]
) -> None:
    assert whole(parse(choose(template)(prompt, tools), text)) == expected
