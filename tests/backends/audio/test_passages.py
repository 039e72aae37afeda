"""Texts in passages."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.audio.passages import MAX_PASSAGE_CHARS, split_into_passages


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One.", ["One."]),
        ("  No end ", ["No end"]),
        ("First! Second? Third. Fourth", ["First!", "Second? Third. Fourth"]),
        ("Title\n\nIt costs 3.50 today. Yes.", ["Title", "It costs 3.50 today. Yes."]),
        ("你好。再见！好", ["你好。", "再见！ 好"]),
    ],
)
def test_the_first_sentence_stands_alone_and_the_others_together(text: str, found: list[str]) -> None:
    assert split_into_passages(text) == found


def test_a_long_sentence_is_cut_at_commas_and_spaces_and_a_long_word_anywhere() -> None:
    clause = "x" * 90
    assert split_into_passages(f"{clause}, {clause}, {clause}, {clause}.") == [
        f"{clause}, {clause}, {clause},",
        f"{clause}.",
    ]
    assert split_into_passages("y" * 700) == ["y" * 300, "y" * 300, "y" * 100]


@given(st.text(alphabet="ab .,!?\n。，", max_size=1500) | st.text(max_size=600))
def test_nothing_but_white_space_is_lost(text: str) -> None:
    found = split_into_passages(text)
    assert re.sub(r"\s", "", "".join(found)) == re.sub(r"\s", "", text)
    assert all(passage.strip() == passage and 0 < len(passage) <= MAX_PASSAGE_CHARS for passage in found)
