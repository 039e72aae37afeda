from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.tasks.generate import Tool
from orchard.formats.format import Thought
from orchard.formats.registry import choose_family
from tests.support.format_reading import TOOLS, Call, cut, parse, whole

FAMILY = choose_family("", tool_call_parser="harmony")
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
    ("text", "expected"),
    [
        ("<|channel|>elsewhere<|message|>Hi", ["Hi"]),
        ("<|channel|><|message|>Hi", ["Hi"]),
        ("<|channel|>final one two three<|message|>Hi", ["Hi"]),
        ("<|channel|>final<|channel|>final<|message|>Hi", ["Hi"]),
        ("<|channel|>analysis<|channel|>final<|message|>Hi", ["Hi"]),
        ("<|message|>Hi", ["Hi"]),
        ("<|constrain|>json<|message|>{}", ["{}"]),
        ("<|start|><|message|>Hi", ["Hi"]),
        ("<|end|><|start|>assistant<|channel|>final<|message|>Hi", ["Hi"]),
        (f"<|channel|>final {'x' * 400}<|message|>Hi", [f"{'x' * 400}Hi"]),
        ("<|channel|>final Hi<|end|>", ["Hi"]),
        ("<|start|>assistant<|channel|>commentary <|constrain|>json Hi<|return|>", ["Hi"]),
        ("to=5 is a text", ["to=5 is a text"]),
        ("Hi<|channel|>analysis<|message|>Hm.<|channel|>final<|message|> there", ["Hi", "[Hm.]", " there"]),
        ("Hi<|message|> there<|constrain|>!", ["Hi there!"]),
        (
            "<|channel|>analysis<|message|>Hm.<|channel|>commentary to=functions.now<|message|>{}",
            ["[Hm.]", Call("now")],
        ),
        ("<|channel|>analysis<|message|>Hm. to=functions.now<|channel|>commentary", ["[Hm. to=functions.now]"]),
        (" to=functions.now", [Call("now")]),
        ("<|channel|>commentary to=functions.now {}<|call|>", [Call("now")]),
        # To others than the user, and by others than the model.
        ("<|channel|>commentary to=python<|message|>1 + 1<|call|>", ["[1 + 1]"]),
        ("<|channel|>commentary to=browser.search <|constrain|>json<|message|>{}<|call|>", ["[{}]"]),
        (" to=container.exec<|channel|>analysis code<|message|>ls", ["[ls]"]),
        ("<|start|>user<|message|>Hi", ["[Hi]"]),
        ("<|start|>browser to=assistant<|channel|>commentary<|message|>Hi<|end|>", ["[Hi]"]),
        ("<|channel|>commentary to=user<|message|>Hi", ["Hi"]),
        ("<|channel|>final to=python<|message|>Hi", ["Hi"]),
        # No call of a function, or of none.
        ("<|channel|>commentary to=functions.weather to=functions.now<|message|>Hi", ["Hi"]),
        ("<|channel|>commentary to=functions.weather<|message|>{city: <|message|>Paris}<|call|>", ["{city: Paris}"]),
        ("<|channel|>commentary to=functions.weather<|message|>", []),
    ],
)
def test_nothing_of_a_header_is_in_a_text(text: str, expected: list[Call | str]) -> None:
    assert whole(parse(FAMILY.begin(PROMPT, TOOLS), text)) == expected
    assert whole(parse(FAMILY.begin(PROMPT, TOOLS), *text)) == expected


@pytest.mark.parametrize(
    ("recipient", "expected"),
    [
        ("functions.weather", ['{"city": "Paris"}']),
        ("python", ['[{"city": "Paris"}]']),
        ("weather", ['[{"city": "Paris"}]']),
    ],
)
def test_without_tools_there_are_no_calls(recipient: str, expected: list[str]) -> None:
    text = f'<|channel|>commentary to={recipient} <|constrain|>json<|message|>{{"city": "Paris"}}<|call|>'
    assert whole(parse(FAMILY.begin(PROMPT), text)) == expected


FRAGMENTS = [
    *("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"),
    *("assistant", "user", "functions.now", "analysis", "commentary", "final", "json", "elsewhere"),
    *(
        " to=",
        " to=functions.now",
        " to=functions.weather",
        " to=python",
        " ",
        "\n",
        "Hi",
        '{"city": "Paris"}',
        "{}",
        "{",
    ),
]


@given(
    text=st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join),
    tools=st.sampled_from([(), TOOLS]),
    places=st.lists(st.integers(0, 1000), max_size=12),
    length=st.integers(0, 300),
    cut_off=st.booleans(),
)
def test_no_tag_is_ever_given_out(
    text: str, tools: Sequence[Tool], places: list[int], length: int, *, cut_off: bool
) -> None:
    def given_out(*texts: str) -> list[Call | str]:
        format_ = FAMILY.begin(PROMPT, tools)
        return whole([piece for text in texts for piece in format_.feed(text)] + format_.finish(cut_off=cut_off))

    text = text[:length] if cut_off else text
    found = given_out(text)
    assert found == given_out(*text) == given_out(*cut(text, places))
    assert not any("<|" in said or "|>" in said for said in found if isinstance(said, str))


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
