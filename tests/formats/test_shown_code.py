import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats.shown_code import ShownCode
from tests.support.format_reading import cut


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("", False),
        ("a `", True),
        ("a `b", True),
        ("a `b` c", False),
        ("a `b\nc", False),
        ("``a `b` c", True),
        ("``a `b` c``", False),
        ("```\na\n", True),
        ("```\na\n```", False),
        ("```\na\n````", False),
        ("````\na\n```\n", True),
        ("```\n`\n", True),
        ("```a``` b", False),
    ],
)
def test_code_is_what_stands_between_as_many_backticks(text: str, is_open: bool) -> None:
    code = ShownCode()
    code.add(text)
    assert code.is_open() == is_open


@given(st.text("`a\n"), st.lists(st.integers(0, 20)))
def test_pieces_are_read_as_the_whole_text(text: str, places: list[int]) -> None:
    whole, parts = ShownCode(), ShownCode()
    whole.add(text)
    for part in cut(text, places):
        parts.add(part)
    assert parts.is_open() == whole.is_open()
