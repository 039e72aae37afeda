"""How far two answers are apart: where they part, and before.

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


def drift(tokens: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> float:
    """Return the greatest difference of a token's log-probability between two answers, up to where they part.

    Both are lists of tokens with their log-probabilities and those of the likeliest ones in their place.
    """
    most = 0.0
    for token, other in zip(tokens, others, strict=False):
        here = {bytes(one["bytes"]): one["logprob"] for one in token["top_logprobs"]}
        there = {bytes(one["bytes"]): one["logprob"] for one in other["top_logprobs"]}
        most = max([most, *(abs(here[name] - there[name]) for name in here.keys() & there.keys())])
        if token["bytes"] != other["bytes"]:
            break
    return most
