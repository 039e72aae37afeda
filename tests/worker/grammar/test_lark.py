"""Terminals for texts up to a tag, and what is wrong with a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.worker.grammar.lark import ANY, fault, text_up_to


@given(text=st.text("</ab>\n", max_size=12))
def test_a_text_up_to_a_tag_doesnt_have_it(text: str) -> None:
    pattern = text_up_to("\n</ab>")[1:-1]
    assert bool(re.fullmatch(pattern, f"{text}\n</ab>")) == ("</ab>" not in text)


@pytest.mark.parametrize(
    ("terminal", "why"),
    [
        ("/a+/", ""),
        ('""', ""),
        ("/a/ & /b/", "nothing keeps it"),
        ('/a*/ & ~("" | /a+/)', "nothing keeps it"),
        (text_up_to("</p>", '"a</p>b</p>"'), "nothing keeps it"),
        ("/(/", "unclosed group"),
        (f"{ANY} & (/[0-9]*/ & /(?s:.{{90000,}})/)", "its lengths and repetitions are too large together"),
    ],
)
def test_what_is_wrong_with_a_terminal(terminal: str, why: str) -> None:
    assert fault(terminal) == why
