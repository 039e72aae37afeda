from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats import choose
from orchard.formats.pieces import Thought
from tests.formats.reading import TOOLS, Call, cut, parse, whole

FAMILY = choose("", tool_call_parser="harmony")
PROMPT = "<|start|>user<|message|>Hi<|end|><|start|>assistant"
PARIS = Call("weather", '{"city": "Paris"}')


def test_thinking_is_known_while_it_lasts() -> None:
    format_ = FAMILY.begin(PROMPT, TOOLS)
    texts = ("<|channel|>analysis", "<|message|>", "a", "<|en", "d|>", "<|start|>assistant<|channel|>final<|message|>b")
    assert [(format_.feed(text), format_.thinking)[1] for text in texts] == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("prompt", "thinking", "expected"),
    [
        (PROMPT, False, ["so"]),
        (f"{PROMPT}<|channel|>final<|message|>And ", False, ["so"]),
        (f"{PROMPT}<|channel|>analysis<|message|>", True, ["[so]"]),
        (f"{PROMPT}<|channel|>analysis", False, ["so"]),
        ("a prompt without messages", False, ["so"]),
        ("", False, ["so"]),
    ],
)
def test_an_answer_goes_on_where_the_prompt_ends(prompt: str, thinking: bool, expected: list[str]) -> None:
    format_ = FAMILY.begin(prompt, TOOLS)
    assert format_.thinking is thinking
    assert whole(parse(format_, "so")) == expected


def test_reasoning_is_given_out_as_it_comes() -> None:
    format_ = FAMILY.begin(PROMPT, TOOLS)
    format_.feed("<|channel|>analysis<|message|>")
    assert [format_.feed(char) for char in "a<b"] == [[Thought("a")], [], [Thought("<b")]]


def test_a_call_that_breaks_late_goes_on_raw_to_its_end() -> None:
    text = f'<|channel|>commentary to=functions.weather<|message|>{{"city": "{"x" * 70}" !}}<|end|>'
    after = "<|start|>assistant<|channel|>final<|message|>Hi"
    broken = Call("weather", f'{{"city": "{"x" * 70}" !}}')
    assert whole(parse(FAMILY.begin(PROMPT, TOOLS), text + after)) == [broken, "Hi"]


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>elsewhere<|message|>",
        "<|channel|><|message|>",
        "<|channel|>final one two three<|message|>",
        "<|channel|>final<|channel|>final<|message|>",
        "<|channel|>commentary to=functions.weather to=functions.now<|message|>",
        "<|channel|>commentary to=python<|message|>",
        "<|start|><|message|>",
        "<|start|>user<|message|>",
        f"<|channel|>final {'x' * 400}<|message|>",
    ],
)
def test_what_is_no_header_is_content(header: str) -> None:
    assert whole(parse(FAMILY.begin(PROMPT, TOOLS), f"{header}Hi")) == [f"{header}Hi"]


def test_without_tools_a_call_is_content() -> None:
    text = '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>'
    assert whole(parse(FAMILY.begin(PROMPT), text)) == [text]
    assert whole(parse(FAMILY.begin(PROMPT, TOOLS), text)) == [PARIS]


@given(
    messages=st.lists(st.tuples(st.sampled_from(["analysis", "commentary", "final"]), st.text("a<|>\n ", min_size=1))),
    places=st.lists(st.integers(0, 1000), max_size=12),
)
def test_every_character_of_a_message_is_given_out(messages: list[tuple[str, str]], places: list[int]) -> None:
    text = "<|end|><|start|>assistant".join(f"<|channel|>{channel}<|message|>{said}" for channel, said in messages)
    runs = [
        (thought, "".join(said for _, said in run))
        for thought, run in groupby(messages, lambda one: one[0] == "analysis")
    ]
    expected = [f"[{said}]" if thought else said for thought, said in runs]
    assert whole(parse(FAMILY.begin(PROMPT, TOOLS), *cut(text, places))) == expected
