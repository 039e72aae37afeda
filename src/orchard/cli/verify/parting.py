"""How far two answers are apart where they part.

Two computations of the same logits round differently, so answers may part where two tokens are nearly equally likely.
"""

import codecs
from collections.abc import Sequence
from typing import Any


def gap(tokens: Sequence[dict[str, Any]], text: str) -> float | None:
    """Return the gap at the first of an answer's tokens, with their log-probabilities, from which `text` parts.

    None where that is not clear, as where the token that was taken begins with the other one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    told = ""
    behind: list[tuple[int, float]] = []  # the tokens that `text` may have taken: their characters and gaps
    for token in tokens:
        state = decoder.getstate()
        for other in token["top_logprobs"]:
            piece = decoder.decode(bytes(other["bytes"]))
            if piece and other["bytes"] != token["bytes"] and text.startswith(told + piece):
                behind.append((len(piece), round(token["logprob"] - other["logprob"], 4)))
            decoder.setstate(state)
        piece = decoder.decode(bytes(token["bytes"]))
        if not text.startswith(told + piece):
            return max(behind)[1] if behind else None
        if piece:  # else it is a part of a character, and may be where they part
            told += piece
            behind.clear()
    return None
