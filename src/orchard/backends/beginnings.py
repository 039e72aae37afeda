"""Tokenises only as much of a long text as a model can read, and small requests before large ones."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from orchard.device.lane import run_beside

T = TypeVar("T")

CHARS_AT_ONCE = 64 * 2**10
"""How many characters are always tokenised at once: this takes a tenth of a second, or a quarter at worst."""
MARGIN_TOKENS = 256
"""The most tokens before a cut that the cut may change. WordPiece reads a word of more than 100 characters as one
unknown token, and a shorter part of it as up to 100 tokens."""
_CHARS_PER_TOKEN = 6  # more than prose has
_SPARE_FACTOR = 1.25
_YIELDING_BYTES = 64 * 2**10

_encoder = msgspec.msgpack.Encoder()


def yield_seconds(value: Any) -> float:
    """Return for how many seconds tokenising a task or a text lets smaller work go first, see `Lane.do`."""
    return len(_encoder.encode(value)) / _YIELDING_BYTES


class Beginning(NamedTuple):
    """The tokens of a text or, if not `is_whole`, of its beginning, whose last `MARGIN_TOKENS` may be wrong."""

    tokens: list[int]
    is_whole: bool

    @property
    def least_tokens(self) -> int:
        """How many tokens the text has at least."""
        return len(self.tokens) - (0 if self.is_whole else MARGIN_TOKENS)


def read_beginning(text: str, most: int, most_chars: int, encode: Callable[[str], list[int]]) -> Beginning:
    """Tokenise a text, or a beginning with more than `most` certain tokens, or the first `most_chars` characters.

    While it tokenises a long text, the thread's lane does smaller work: see `run_beside`.
    """
    end = min(len(text), most_chars)
    chars = min(end, first_length(most))
    while True:
        found = Beginning(tokenise_in_lane(chars, partial(encode, text[:chars])), chars == len(text))
        if chars == end or found.least_tokens > most:
            return found
        chars = min(end, next_length(chars, found.least_tokens, most))


def tokenise_in_lane(chars: int, tokenise: Callable[[], T]) -> T:
    """Tokenise a text of `chars` characters; if it is long, the lane does smaller work meanwhile."""
    return tokenise() if chars <= CHARS_AT_ONCE else run_beside(tokenise)


def first_length(most: int) -> int:
    """Return how many characters to try first for `most` tokens. Shorter texts are tokenised at once."""
    return min(max(CHARS_AT_ONCE, most * _CHARS_PER_TOKEN), 4 * CHARS_AT_ONCE)


def next_length(chars: int, certain: int, most: int) -> int:
    """Return how many characters to try next, if `chars` characters have only `certain` certain tokens.

    They are probably enough. The growth has limits, as the first part of a text may differ from the rest.
    """
    needed = chars * most * _SPARE_FACTOR // max(certain, 1)
    return int(min(max(needed, 2 * chars), 8 * chars))
