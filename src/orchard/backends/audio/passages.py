"""Splits long texts into passages. A passage is spoken as a whole. The first is short, so that speech begins soon."""

import re
from collections.abc import Iterator

MAX_PASSAGE_CHARS = 300
"""Speech models make mistakes in longer texts; the limit also bounds the memory of a passage."""

# With the ideographic full stop, and the full-width forms of "!", "?", ";" and ",".
_SENTENCE = re.compile(r"(?<=[.!?…:;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\s*\n\s*")
_CLAUSE = re.compile(r"(?<=[,\u3001\uff0c])\s*|\s+")


def split_into_passages(text: str) -> list[str]:
    """Split a text into passages of at most `MAX_PASSAGE_CHARS`, in order.

    Only white space is lost. The first passage is at most one sentence, so that its audio comes soon; each later
    passage has as many sentences as fit. A sentence that is too long is cut at commas or spaces, or else anywhere.
    """
    found: list[str] = []
    for sentence in _split_sentences(text):
        if len(found) > 1 and len(found[-1]) + 1 + len(sentence) <= MAX_PASSAGE_CHARS:
            found[-1] += " " + sentence
        else:
            found.append(sentence)
    return found


def _split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, and the pieces of those that are too long."""
    for sentence in filter(None, map(str.strip, _SENTENCE.split(text))):
        piece = ""
        for clause in _CLAUSE.split(sentence) if len(sentence) > MAX_PASSAGE_CHARS else [sentence]:
            if piece and len(piece) + 1 + len(clause) > MAX_PASSAGE_CHARS:
                yield piece
                piece = ""
            piece = f"{piece} {clause}".strip()
            while len(piece) > MAX_PASSAGE_CHARS:
                yield piece[:MAX_PASSAGE_CHARS]
                piece = piece[MAX_PASSAGE_CHARS:]
        if piece:
            yield piece
