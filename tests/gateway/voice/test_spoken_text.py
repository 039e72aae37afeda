import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.gateway.voice.spoken_text import MAX_CLAUSE_CHARS, SpokenText


def said(*pieces: str) -> list[str]:
    cutter = SpokenText()
    return [one.text for piece in pieces for one in cutter.feed(piece)] + [one.text for one in cutter.finish()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three", ["One.", "Two!", "Three"]),
        ('He said: "Go." Then 3.5 more', ["He said:", '"Go."', "Then 3.5 more"]),
        ("# Title\n- *one* and **two**\n> a `quote`\n", ["Title", "one and two", "a quote"]),
        ("See:\n```python\nprint(1)\n\nx = 2.\n```\nDone.", ["See:", "Done."]),
        ("Look [here](https://a.example/b) or https://c.example/d now", ["Look here or now"]),
        ("\u4f60\u597d\u3002\u518d\u89c1\uff01", ["\u4f60\u597d\u3002", "\u518d\u89c1\uff01"]),
        ("--- ... !\n\n", []),
        ("2 * 3 = 6", ["2 3 = 6"]),
    ],
)
def test_what_is_spoken(text: str, expected: list[str]) -> None:
    assert said(text) == expected
    assert said(*text) == expected


def test_a_clause_comes_as_soon_as_it_is_complete() -> None:
    cutter = SpokenText()
    assert [one.text for one in cutter.feed("One. Tw")] == ["One."]
    assert list(cutter.feed("o")) == []
    (last,) = cutter.finish()
    assert (last.text, last.end) == ("Two", 8)


@given(st.text(alphabet="ab ,.\n`#*é", max_size=900), st.lists(st.integers(0, 900), max_size=8))
def test_pieces_make_no_difference_to_the_words(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[begin:end] for begin, end in itertools.pairwise(places)]
    cutter, whole = SpokenText(), SpokenText()
    found = [one for piece in pieces for one in cutter.feed(piece)] + list(cutter.finish())
    assert found == list(whole.feed(text)) + list(whole.finish())
    assert all(0 < len(one.text) <= MAX_CLAUSE_CHARS for one in found)
    ends = [one.end for one in found]
    assert ends == sorted(set(ends))
    assert all(end <= len(text) for end in ends)
