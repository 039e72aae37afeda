"""Finds an earlier occurrence of a text's last tokens in it or in another text, to propose the tokens after it.

For a few lengths n, a table maps the hash of n tokens to the place of their last occurrence, as in llama.cpp's n-gram
maps (https://github.com/ggml-org/llama.cpp/tree/master/common, `ngram-map`). A slot of a table holds one place, which
a later n-gram with the same hash replaces. So memory is bounded, and a token costs the same in texts of any length. A
lookup compares the tokens themselves, too.
"""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

LENGTHS = (8, 4, 2)
"""The lengths of n-grams that are indexed, the longest first."""
SHORTEST_MATCH = LENGTHS[-1]
"""The shortest match: what follows a single token is not worth a pass."""
LONGEST_MATCH = 32
"""The longest match that a search measures."""
_FACTOR = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_LEAST_BITS = 8
_BULK = 64  # tokens; numpy indexes more than these


Ngrams = list[tuple["array[int]", int]]
"""The n-grams at a text's end, one for each of `LENGTHS`, each with its hash; empty if the text is shorter."""


def ngrams_of(suffix: Sequence[int]) -> Ngrams:
    """Return the n-grams at a text's end, to search for them in other texts."""
    longest = array("q", suffix[-LENGTHS[0] :])
    ngrams = [longest[-length:] if len(longest) >= length else array("q") for length in LENGTHS]
    return [(ngram, _hash_tokens(ngram)) for ngram in ngrams]


class SuffixIndex:
    """A growing text of token ids, with the last place of each of its n-grams."""

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self.tokens = array("q")
        self._index_end = 0
        self._bits = _LEAST_BITS
        self._tables = [array("i", bytes(4 << self._bits)) for _ in LENGTHS]
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens; the text may have up to 2^31 - 1 tokens."""
        self.tokens.extend(tokens)

    def find(self, ngrams: "Ngrams") -> int:
        """Return the place after the last occurrence of the longest n-gram that is found in the text; 0: none.

        An n-gram at the very end of the text doesn't count, since no token follows it.
        """
        self._index()
        for table, (ngram, hashed) in zip(self._tables, ngrams, strict=True):
            place = table[hashed >> 64 - self._bits] if ngram else 0
            if place and self.tokens[place - len(ngram) : place] == ngram:
                return place
        return 0

    def _index(self) -> None:
        """Index all new n-grams that a token follows."""
        stop = len(self.tokens) - 1
        if stop <= self._index_end:
            return
        if len(self.tokens) > 1 << self._bits - 2:
            self._bits = len(self.tokens).bit_length() + 2
            self._tables = [array("i", bytes(4 << self._bits)) for _ in LENGTHS]
            self._index_end = 0
        new = range(self._index_end + 1, stop + 1)
        for table, length in zip(self._tables, LENGTHS, strict=True):
            if len(new) > _BULK:
                self._index_many(table, length, new)
                continue
            for place in new:
                if place >= length:
                    table[_hash_tokens(self.tokens[place - length : place]) >> 64 - self._bits] = place
        self._index_end = stop

    def _index_many(self, table: "array[int]", length: int, new: range) -> None:
        first = max(new.start - length, 0)
        tokens = np.frombuffer(self.tokens, np.uint64)[first : new.stop - 1]
        count = len(tokens) - length + 1
        if count < 1:
            return
        hashes = np.zeros(count, np.uint64)
        for place in range(length):
            hashes = (hashes + tokens[place : place + count]) * np.uint64(_FACTOR)
        slots = (hashes >> np.uint64(64 - self._bits)).astype(np.int64)
        # If a slot occurs twice, numpy keeps the last value.
        np.frombuffer(table, np.int32)[slots] = np.arange(first + length, first + length + count, dtype=np.int32)


def _hash_tokens(tokens: Sequence[int]) -> int:
    hashed = 0
    for token in tokens:
        hashed = (hashed + token) * _FACTOR & _MASK
    return hashed


class Follower:
    """A place in a text after a match of a row's last tokens; it moves on while the row repeats that text."""

    def __init__(self) -> None:
        self.text: SuffixIndex | None = None
        """The text; None: nothing is followed."""
        self.match_length = 0
        """How many tokens before the place match the row's last tokens."""
        self._place = 0

    def follow(self, text: SuffixIndex, place: int, match_length: int) -> None:
        """Follow a text from `place` on; the `match_length` tokens before it are the row's last tokens."""
        self.text, self._place, self.match_length = text, place, match_length

    def advance(self, token: int) -> bool:
        """Move past the row's next token and return True if the text has the same token; else stop following."""
        if self.text and self._place < len(self.text) and self.text.tokens[self._place] == token:
            self._place += 1
            self.match_length += 1
            return True
        self.text, self.match_length = None, 0
        return False

    def search(self, texts: Iterable[SuffixIndex], ending: Sequence[int]) -> None:
        """Follow the text with the longest match for a row's last tokens, if it is longer than the present match.

        Of equally long matches, the first wins. `ending` needs at most `LONGEST_MATCH` tokens.
        """
        ngrams = ngrams_of(ending)
        for text in texts:
            if place := text.find(ngrams):
                match_length = _matching_tokens(text.tokens, place, ending)
                if match_length > self.match_length:
                    self.follow(text, place, match_length)

    def next_tokens(self, count: int) -> list[int]:
        """Return up to `count` of the next tokens; stop at a negative one, which separates texts."""
        if self.text is None:
            return []
        found = self.text.tokens[self._place : self._place + count].tolist()
        return found[: next((place for place, token in enumerate(found) if token < 0), len(found))]


def _matching_tokens(tokens: Sequence[int], place: int, ending: Sequence[int]) -> int:
    """Return how many tokens before a place match an ending."""
    most = min(place, len(ending), LONGEST_MATCH)
    return next((count for count in range(most) if tokens[place - 1 - count] != ending[-1 - count]), most)
