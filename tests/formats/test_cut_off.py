"""Answers that a limit has cut off: what there is of them is that of the whole answer, and nothing of a tag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats.format import CallArguments, CallStart, Content, Format, Piece, Thought
from orchard.formats.registry import choose_family
from tests.formats.families.test_families import begin, family
from tests.support.examples import some
from tests.support.format_reading import TOOLS, Call, cut, marked, whole
from tests.support.specimens.one import HERMES_NOW, NOW, PARIS_3, SPECIMENS, Specimen

each = pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: f"{one.parser}-{one.text[:40]!r}")
_LIKE_TEXT = ("phi4_mini_json", "gigachat3", "command_r_plus", "pythonic")  # what opens their calls begins so


def parse_cut(format_: Format, *texts: str) -> list[Piece]:
    return [piece for text in texts for piece in format_.feed(text)] + format_.finish(cut_off=True)


def said(pieces: list[Piece], kind: type[Content | Thought]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, kind)).rstrip()


def calls(pieces: list[Piece]) -> list[Call]:
    return [one for one in whole(pieces) if isinstance(one, Call)]


def names(pieces: list[Piece]) -> list[str]:
    return [piece.name for piece in pieces if isinstance(piece, CallStart)]


@each
def test_what_is_left_of_an_answer_is_the_beginning_of_the_whole(specimen: Specimen) -> None:
    format_ = begin(specimen)
    full = [*format_.feed(specimen.text), *format_.finish()]
    like_text = specimen.text.startswith(("{", "[", "```")) or specimen.parser in _LIKE_TEXT
    for length in some(range(len(specimen.text))):
        text = specimen.text[:length]
        pieces = parse_cut(begin(specimen), text)
        content = said(pieces, Content)
        assert said(full, Content).startswith(content) or (like_text and content == text.rstrip()), text
        assert said(full, Thought).startswith(said(pieces, Thought)), text
        if names(full):
            assert names(full)[: len(names(pieces))] == names(pieces), text
        for found, expected in zip(calls(pieces), calls(full), strict=False):
            # A text may tell of tags; values as Python writes them are raw where they are cut.
            told = "</" in expected.arguments or "'" in specimen.text
            assert expected.arguments.startswith(found.arguments) or told, text


@given(specimen=st.sampled_from(SPECIMENS), length=st.integers(0, 2000), places=st.lists(st.integers(0, 1000)))
def test_cuts_change_nothing(specimen: Specimen, length: int, places: list[int]) -> None:
    text = specimen.text[: length % (len(specimen.text) + 1)]
    uncut = parse_cut(begin(specimen), text)
    for texts in (cut(text, places), text):
        pieces = parse_cut(begin(specimen), *texts)
        assert whole(pieces) == whole(uncut)
        assert marked(pieces) == marked(uncut)


@pytest.mark.parametrize("specimen", [one for one in SPECIMENS if one.forced], ids=lambda one: one.text[:40])
def test_nothing_of_a_forced_call_is_text(specimen: Specimen) -> None:
    """A call begins as soon as its name is known, and is as long as what there is of it."""
    for length in some(range(len(specimen.text))):
        format_ = family(specimen).begin(specimen.prompt, TOOLS, forced=True)
        pieces = parse_cut(format_, specimen.text[:length])
        assert not any(isinstance(piece, Content | Thought) for piece in pieces), specimen.text[:length]
        for found, expected in zip(whole(pieces), specimen.expected, strict=False):
            assert isinstance(found, Call)
            assert isinstance(expected, Call)
            assert found.name == expected.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi <tool", ["Hi "]),
        ("Hi\n\n<tool_call>", ["Hi"]),
        ('Hi\n<tool_call>\n{"name": "weath', ["Hi"]),
        ('<tool_call>\n{"name": "weather"', []),
        ('<tool_call>\n{"name": "weather", "arguments": {"ci', [Call("weather", "{", over=False)]),
        ('<tool_call>\n{"name": "weather", "arguments": {"city": "Par', [Call("weather", '{"city": "Par', over=False)]),
        (f"{HERMES_NOW}\n<tool_", [NOW]),
        ("<thi", []),
        ("<think>\nHm.\n</thi", ["[Hm.]"]),
        ("<think>\nHm.\n<tool_c", ["[Hm.]"]),
        (f"<think>\nHm.\n{HERMES_NOW}\nSo <tool_c", ["[Hm.]", NOW, "So "]),
        ('<think>Hm.\n<tool_call>{"name": "weather", "arg', ["[Hm.]"]),
        (
            '<think>Hm.<tool_call>{"name": "weather", "arguments": {"',
            ["[Hm.]", Call("weather", "{", over=False)],
        ),
        ("a < b <", ["a < b "]),
        ("<tool_call>nothing", ["<tool_call>nothing"]),
    ],
)
def test_what_a_limit_leaves(text: str, expected: list[Call | str]) -> None:
    assert whole(parse_cut(choose_family("<think><tool_call>").begin("", TOOLS), text)) == expected
    assert whole(parse_cut(choose_family("<think><tool_call>").begin("", TOOLS), *text)) == expected


@pytest.mark.parametrize("parser", ["qwen3_coder", "glm45", "minimax_m2", "minimax_m3", "deepseek_v32", "kimi_k3"])
def test_arguments_between_tags_have_nothing_of_them(parser: str) -> None:
    specimens = [
        one for one in SPECIMENS if one.parser == parser and PARIS_3 in one.expected and "a\n<" not in one.text
    ]
    assert specimens
    for specimen in specimens:
        given_out = set()
        for length in range(len(specimen.text)):
            pieces = parse_cut(begin(specimen), specimen.text[:length])
            arguments = "".join(piece.text for piece in pieces if isinstance(piece, CallArguments))
            assert not set("<|]") & set(arguments), specimen.text[:length]
            given_out.add(arguments)
        assert {"", '{"city": "Par', '{"city": "Paris"'} <= given_out


@given(
    calls=st.lists(st.sampled_from([HERMES_NOW, HERMES_NOW.replace("now", "other")]), min_size=1, max_size=3),
    thought=st.text("a\n", max_size=5),
    after=st.sampled_from(["", "So.", "\n\nSo.\n"]),
    closed=st.booleans(),
    places=st.lists(st.integers(0, 1000)),
)
def test_reasoning_without_an_end_ends_at_the_first_call(
    calls: list[str], thought: str, after: str, places: list[int], *, closed: bool
) -> None:
    """With an end it has all of it."""
    text = f"{thought}{''.join(calls)}{after}" + ("</think>Hi" if closed else "")
    format_ = choose_family("<think><tool_call>").begin("<think>\n", TOOLS)
    pieces = [piece for part in cut(text, places) for piece in format_.feed(part)] + format_.finish()
    found = whole(pieces)
    if closed:
        assert found == [f"[{text.removesuffix('</think>Hi').strip(chr(10))}]", "Hi"]
    else:
        thoughts = [f"[{thought.strip(chr(10))}]"] if thought.strip("\n") else []
        made = [NOW if call == HERMES_NOW else Call("other") for call in calls]
        assert found == [*thoughts, *made, *([after.lstrip("\n")] if after else [])]


def test_a_call_within_reasoning_is_held_back_until_its_end_is_known() -> None:
    format_ = choose_family("<think><tool_call>").begin("<think>\n", TOOLS)
    assert format_.feed("Hm.\n") == [Thought("Hm.")]
    assert format_.feed(HERMES_NOW) == []
    assert format_.thinking
    assert whole(format_.finish()) == [NOW]
