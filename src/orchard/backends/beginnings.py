"""Tokenises only as much of a long text as a model can read, and large requests after small ones."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from orchard.device.lane import give_way

AT_ONCE = 64 * 2**10
"""The characters that may always be tokenised at once: it takes a tenth of a second, or a quarter at worst."""
MARGIN = 256
"""The most tokens before a cut that the cut may change. WordPiece reads a word of more than 100 characters as one
unknown token, and a shorter part of it as up to 100 tokens."""
_CHARS_PER_TOKEN = 6  # more than prose has
_YIELDING_BYTES = 64 * 2**10

_encoder = msgspec.msgpack.Encoder()


def yields_of(given: Any) -> float:
    """Return for how many seconds tokenising a task or a text lets smaller work go first, see `Lane.do`."""
    return len(_encoder.encode(given)) / _YIELDING_BYTES


class Beginning(NamedTuple):
    """The tokens of a text; if not `whole`, those of its beginning, of which the last `MARGIN` may differ."""

    tokens: list[int]
    whole: bool

    @property
    def certain(self) -> int:
        """How many tokens the text has at least."""
        return len(self.tokens) - (0 if self.whole else MARGIN)


def read_beginning(text: str, most: int, most_chars: int, encode: Callable[[str], list[int]]) -> Beginning:
    """Tokenise a text, or a beginning with more than `most` certain tokens, or the first `most_chars` characters.

    If several beginnings are tried, smaller work of the thread's lane goes first before each, see `give_way`.
    """
    for chars in beginnings(len(text), most, most_chars):
        found = Beginning(encode(text[:chars]), chars >= len(text))
        if found.whole or found.certain > most:
            break
        give_way()
    return found


def beginnings(length: int, most: int, most_chars: int) -> Iterator[int]:
    """Yield the lengths of the beginnings to try of a text of `length` characters, up to `most_chars`.

    The first is hardly ever too short for `most` tokens.
    """
    end = min(length, most_chars)
    chars = max(AT_ONCE, most * _CHARS_PER_TOKEN)
    while chars < end:
        yield chars
        chars *= 2
    yield end
