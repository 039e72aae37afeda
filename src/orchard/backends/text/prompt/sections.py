"""Tokenises prompts in sections that begin with special tokens, and remembers the tokens of each: the next turn of a
conversation repeats nearly all of them.

A tokenizer cuts a text at its added tokens before it does anything else. So the tokens of a text are those of its
sections, one after the other, if no section begins inside an added token, and with a token that doesn't depend on the
text before it.
"""

import re
import sys
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

from orchard.backends.beginnings import Beginning, first_length, read_beginning, tokenise_in_lane
from orchard.backends.bounded_cache import BoundedCache
from orchard.device.lane import give_way

_LEAST_CHARS = 512  # of a section: each call of a tokenizer takes as long as some dozen tokens
_SEARCH_CHARS = 64 * 2**10  # at once, so that the interpreter's lock is never held for long
_MOST_BYTES = 16 * 2**20  # the tokens and texts of about two million tokens of English
_PROBE_TEXTS = (
    *("The sea", "", " ", "\n", "\n\n", "\t", "  \n a", "a", " a", "user\nHi", "1", "12 345", ".", "!?", "'s", "_x_"),
    *("é", "e\u0301", "\u0301", "ﬁ", "日本語", "각", "😀", "▁", "\u00a0", "\u200d", "\ufeff", "\x00", "İ", "ß", "<"),
)


class _SectionTokens(NamedTuple):
    """A section's tokens, and the bytes of memory that they and the section's text take."""

    tokens: "array[int]"
    bytes: int


class SectionTokenizer:
    """Tokenises prompts for one model. Only one thread at a time may use it."""

    def __init__(self, tokenizer: Any, template_source: str, encode: Callable[[str], list[int]]) -> None:
        """`tokenizer` is mlx-lm's wrapper; `encode` tokenises a text without adding special tokens."""
        self._encode = encode
        self._cache: BoundedCache[_SectionTokens] = BoundedCache(_MOST_BYTES)
        self.openers = section_openers(tokenizer, template_source, encode)
        """The tokens that sections begin with; none: texts are tokenised as a whole, and nothing is remembered."""
        self._opener = re.compile("|".join(map(re.escape, self.openers)))

    def read(self, text: str, most: int, salt: bytes) -> Beginning:
        """Tokenise a text, or a beginning with more than `most` certain tokens, as `read_beginning` does.

        `salt`: see `CacheScope`. What is remembered serves only texts with the same salt: the time would tell a caller
        which texts others use.
        """
        if not self.openers:
            return read_beginning(text, most, len(text), self._encode)
        tokens: list[int] = []
        for start, end in pairwise(self._places(text)):
            beginning, room = Beginning(tokens, is_whole=False), most - len(tokens)
            if beginning.least_tokens > most:
                return beginning
            section = text[start:end]
            if len(section) <= first_length(room):
                tokens += self._cache.get((salt, section), partial(self._tokenise, section)).tokens
                continue
            rest = read_beginning(section, room, len(section), self._encode)  # it is unlikely to fit
            tokens += rest.tokens
            if not rest.is_whole:
                return Beginning(tokens, is_whole=False)
        return Beginning(tokens, is_whole=True)

    def _tokenise(self, section: str) -> _SectionTokens:
        """Tokenise a section and let the lane do smaller work, which may use the cache, too."""
        tokens = array("I", tokenise_in_lane(len(section), partial(self._encode, section)))
        give_way()
        return _SectionTokens(tokens, sys.getsizeof(section) + sys.getsizeof(tokens))

    def _places(self, text: str) -> Iterator[int]:
        """Yield where the sections of a text begin, and its end. Texts with the same beginning have the same places."""
        yield 0
        place = _LEAST_CHARS
        while place < len(text):
            if opener := self._opener.search(text, place, place + _SEARCH_CHARS):
                yield opener.start()
                place = opener.start() + _LEAST_CHARS
            else:
                place += _SEARCH_CHARS
        yield len(text)


def section_openers(tokenizer: Any, template_source: str, encode: Callable[[str], list[int]]) -> list[str]:
    """Return the texts of the tokens that a section may begin with: those that the chat template writes, and where a
    text may be cut without changing its tokens."""
    if not tokenizer.is_fast:
        return []
    shown = f"{template_source}\0{tokenizer.bos_token}\0{tokenizer.eos_token}"
    added = [token for token in tokenizer.added_tokens_decoder.values() if not token.normalized]
    ends = "".join(f"{token.content[1:]}\0" for token in added)

    def is_opener(token: Any) -> bool:
        text: str = token.content
        # A token before it may take a space, or look whether a letter follows: this one begins with neither.
        if token.lstrip or not text.startswith(("<", "[")) or text not in shown:
            return False
        # Whether a longer token begins with it depends on the text before that.
        if any(other.single_word and other.content.startswith(text) for other in added):
            return False
        # Its text begins inside no other token.
        if text in ends or any(f"{text[:size]}\0" in ends for size in range(1, len(text))):
            return False
        parts = [_PROBE_TEXTS[0], *(text + probe for probe in _PROBE_TEXTS)]
        return list(chain.from_iterable(map(encode, parts))) == encode("".join(parts))

    return [token.content for token in added if is_opener(token)]
