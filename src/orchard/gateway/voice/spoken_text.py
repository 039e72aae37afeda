"""Cuts an answer that is still being generated into texts to speak."""

import re
from collections.abc import Iterator

from msgspec import Struct

MAX_CLAUSE_CHARS = 300
"""The longest text that is spoken at once."""

# A sentence ends at punctuation before white space, with the full-width marks of Chinese at once, or with the line.
_END = re.compile(r"[.!?…:;]+[\"')\]*_\u2019\u201d]*\s|[\u3002\uff01\uff1f\uff1b]|\n")
_BREAK = re.compile(r"[,\u3001\uff0c]\s*|\s+")
_FENCE = re.compile(r"\s*(```|~~~)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_MARKS = re.compile(r"^\s*(?:#{1,6}\s+|>\s*|[-*+]\s+)+|[*_`~#|]+", re.MULTILINE)
_URL = re.compile(r"https?://\S+")


class Clause(Struct, frozen=True):
    """A text to speak, and where it ends in the answer."""

    text: str
    end: int


class SpokenText:
    """Cuts an answer into clauses as soon as they are complete: sentences, or pieces of long ones.

    Code, addresses and the marks of Markdown are left out.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._end = 0
        self._in_code = False

    def feed(self, text: str) -> Iterator[Clause]:
        """Yield the clauses that the next piece of the answer completes."""
        self._rest += text
        while cut := self._find_cut():
            yield from self._take(cut)

    def finish(self) -> Iterator[Clause]:
        """Yield what is left at the end of the answer."""
        yield from self._take(len(self._rest))

    def _find_cut(self) -> int:
        """Return the length of the first complete sentence; 0: there is none."""
        if found := _END.search(self._rest):
            if found.end() <= MAX_CLAUSE_CHARS:
                return found.end()
        elif len(self._rest) <= MAX_CLAUSE_CHARS:
            return 0
        breaks = [one.end() for one in _BREAK.finditer(self._rest, 0, MAX_CLAUSE_CHARS)]
        return breaks[-1] if breaks else MAX_CLAUSE_CHARS

    def _take(self, size: int) -> Iterator[Clause]:
        piece, self._rest = self._rest[:size], self._rest[size:]
        self._end += size
        if _FENCE.match(piece):
            self._in_code = not self._in_code
        elif not self._in_code:
            said = _URL.sub("", _LINK.sub(r"\1", piece))
            said = " ".join(_MARKS.sub("", said).split())
            if any(character.isalnum() for character in said):
                yield Clause(said, self._end)
