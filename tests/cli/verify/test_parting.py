"""Where an answer parts from the one alone, and how near it is there."""

from typing import Any

import pytest

from orchard.cli.verify.parting import gap
from orchard.cli.verify.subject import _tokens


def token(*choices: tuple[bytes, float]) -> dict[str, Any]:
    """Make a token as the server tells of it; the first of the choices is the token."""
    top = [{"bytes": list(text), "logprob": logprob} for text, logprob in choices]
    return top[0] | {"top_logprobs": top}


HEART = "♥".encode()
ALONE = [
    token((b"A", -0.1)),
    token((b" b", -0.7), (b" ", -0.75), (b" bee", -0.8)),
    token((HEART[:2], -0.2), (b"x", -0.9)),
    token((HEART[2:], -0.3), (b"!", -0.5)),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A c", 0.05),
        ("A beehive", None),  # " bee", or " b" and another token than the next one
        ("A bx", 0.7),
        ("A b", None),
        ("B", None),
        ("A b\ufffd!", 0.2),
        ("A b♥ and more", None),
    ],
)
def test_the_gap_is_that_of_the_token_that_was_taken(text: str, expected: float | None) -> None:
    assert gap(ALONE, text) == expected


def test_bytes_that_are_no_text_are_read_from_a_completion() -> None:
    half = r"bytes:\xe2\x99"
    told = {"tokens": [half], "token_logprobs": [-0.1], "top_logprobs": [{half: -0.1, "x": -2.0}]}
    (found,) = _tokens(told)
    assert bytes(found["bytes"]) == HEART[:2]
    assert [bytes(other["bytes"]) for other in found["top_logprobs"]] == [HEART[:2], b"x"]
