"""Answers of every family, put together, cut and cut off at random: tags are never text, streamed or whole."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats.format import Content, Piece, Thought
from orchard.formats.registry import CALLS, Family, add_hermes, choose_family
from tests.support.format_reading import TOOLS, Call, cut, marked, whole
from tests.support.specimens.one import SPECIMENS, Specimen

_OWN = {row.names[0] for row in CALLS if callable(row.value)}  # machines that know no tags of reasoning
_BARE = ("json", "llama3_json", "pythonic")  # calls without tags, which are calls only where an answer begins
_THINKING = ("think", "seed_oss", "mistral", "gemma4", "minimax_m3", "longcat", "apertus", "plamo3", "k2_horizon")
_MARKUP = re.compile(r"[<\[]/?\|?[\w:]*(?:think|THINK|call|CALL|function|FUNCTION|channel|inner|tool|TOOL)|DSML|\|>")

FORCED = [one for one in SPECIMENS if one.forced and not (one.prompt or _MARKUP.search(str(one.expected)))]
TAGGED = [one for one in FORCED if choose_family("", tool_call_parser=one.parser).name not in {*_OWN, *_BARE}]
words = st.text("ab .\n", max_size=6)


def read(family: Family, prompt: str, texts: list[str], *, cut_off: bool) -> list[Piece]:
    format_ = family.begin(prompt, TOOLS)
    return [piece for text in texts for piece in format_.feed(text)] + format_.finish(cut_off=cut_off)


def clean(pieces: list[Piece]) -> bool:
    """Whether no text has a tag, or the beginning of one."""
    said = [piece.text for piece in pieces if isinstance(piece, Content | Thought)]
    return not any(_MARKUP.search(text) or set(text) & set("<|>{}") for text in said)


@given(
    call=st.sampled_from(TAGGED),
    reasoning=st.sampled_from(_THINKING),
    said=st.tuples(words, words, words, words, words),
    way=st.sampled_from(["closed", "unclosed", "draft", "none"]),
    cuts=st.tuples(st.integers(0, 4000), st.lists(st.integers(0, 4000), max_size=8)),
)
def test_tags_are_never_text(
    call: Specimen, reasoning: str, said: tuple[str, ...], way: str, cuts: tuple[int, list[int]]
) -> None:
    family = choose_family("", tool_call_parser=call.parser, reasoning_parser=reasoning)
    family = add_hermes(family) if cuts[0] % 2 else family
    assert family.reasoning_tags
    (length, places), thoughts, texts = cuts, said[:2], said[2:]
    start, end = family.reasoning_tags
    answer = f"{texts[0]}{call.text}{texts[1]}{call.text}{texts[2]}"
    text = {
        "closed": f"{start}\n{thoughts[0]}\n{end}\n\n{answer}",
        "unclosed": f"{start}\n{thoughts[0]}{call.text}{texts[1]}",
        "draft": f"{start}{thoughts[0]}{call.text}{thoughts[1]}{end}{answer}",
        "none": answer,
    }[way]
    for whole_text, cut_off in ((text, False), (text[: length % (len(text) + 1)], True)):
        pieces = read(family, "", [whole_text], cut_off=cut_off)
        for parts in (list(whole_text), cut(whole_text, places)):
            again = read(family, "", parts, cut_off=cut_off)
            assert whole(again) == whole(pieces)
            assert marked(again) == marked(pieces)
        if way == "draft":
            pieces = [piece for piece in pieces if not isinstance(piece, Thought)]
        assert clean(pieces), whole(pieces)
        if not cut_off:
            made = [one for one in whole(pieces) if isinstance(one, Call)]
            assert made == call.expected * (1 if way == "unclosed" else 2)


@pytest.mark.parametrize("specimen", TAGGED, ids=lambda one: f"{one.parser}-{one.text[:30]}")
def test_unclosed_reasoning_ends_at_the_calls_of_every_family(specimen: Specimen) -> None:
    family = choose_family("", tool_call_parser=specimen.parser, reasoning_parser="think")
    found = whole(read(family, "<think>\n", [f"Hm.\n{specimen.text}\nSo."], cut_off=False))
    assert found == ["[Hm.]", *specimen.expected, "So."]
    closed = whole(read(family, "<think>\n", [f"Hm.\n{specimen.text}\n</think>\n\nSo."], cut_off=False))
    assert closed == [f"[Hm.\n{specimen.text.rstrip(chr(10))}]", "So."]
