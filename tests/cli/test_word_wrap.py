"""Answers, broken between words."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from orchard.cli.word_wrap import WordWrap, print_line


def wrapped(*pieces: str, width: int = 12) -> str:
    wrap = WordWrap(width)
    return "".join([*map(wrap.feed, pieces), wrap.end()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A farmer called Michelle was kind.", "A farmer\ncalled\nMichelle was\nkind."),
        ("twelve cells then", "twelve cells\nthen"),
        ("- one\n\n  - two and three\n", "- one\n\n  - two and\nthree\n"),
        ("a word-that-is-longer-than-a-line b", "a\nword-that-is-longer-than-a-line\nb"),
        ("trailing spaces        \nthe end", "trailing\nspaces\nthe end"),
        (
            "see:\n```sh\norchard serve a-long-name\n```\nand wrap this again",
            "see:\n```sh\norchard serve a-long-name\n```\nand wrap\nthis again",
        ),
        ("我想知道今天的天气", "我想知道今天\n的天气"),
    ],
)
def test_lines_end_at_words(text: str, expected: str) -> None:
    assert wrapped(text) == wrapped(*text) == expected


def test_text_without_spaces_does_not_wait_for_the_end() -> None:
    assert WordWrap(80).feed("我想知道") == "我想知道"


@given(st.text("ab \n我"), st.integers(4, 20))
def test_nothing_but_spaces_is_lost_and_short_words_fit(text: str, width: int) -> None:
    shown = wrapped(*text, width=width)
    assert "".join(shown.split()) == "".join(text.split())
    widest = max(map(cell_len, text.split()), default=0)
    if widest <= width:
        assert all(cell_len(line.strip()) <= width for line in shown.split("\n"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_end_at_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        print_line("A farmer called\nMichelle was kind.", stream)
    assert terminal.getvalue() == "A farmer\ncalled\nMichelle was\nkind.\n"
    assert file.getvalue() == "A farmer called\nMichelle was kind.\n"
