"""Convert tiktoken's files, which list tokens, to the pairs that byte-pair encoding merges into them."""

import base64
from collections.abc import Sequence

_BYTES = 256


def words(text: bytes) -> list[bytes]:
    """Return the tokens of a file by their numbers: each line is a token in base64 and its number."""
    lines = [line.split() for line in text.splitlines()]
    if [int(number) for _, number in lines] != list(range(len(lines))):
        raise ValueError("its tokens are not in the order of their numbers")
    return [base64.b64decode(word) for word, _ in lines]


def merges(tokens: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the two earlier tokens that each token after the bytes consists of; an empty token has none.

    tiktoken merges the neighbours first whose token has the lowest number. So the last two parts of a token are its
    merge. Raise ValueError if a token is not made so.
    """
    numbers = {token: number for number, token in enumerate(tokens)}
    if any(len(token) != 1 for token in tokens[:_BYTES]):
        raise ValueError("its first tokens are not the bytes")
    pairs = []
    for number, token in enumerate(tokens[_BYTES:], _BYTES):
        parts = _parts(token, numbers, number) if token else []
        if len(parts) == 2:
            pairs.append((numbers[parts[0]], numbers[parts[1]]))
        elif token:
            raise ValueError(f"token {number} is no merge of two")
    return pairs


def _parts(token: bytes, numbers: dict[bytes, int], end: int) -> list[bytes]:
    """Split a token into what the merges before number `end` leave of it."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        made = [numbers.get(parts[at] + parts[at + 1], end) for at in range(len(parts) - 1)]
        if (lowest := min(made)) >= end:
            break
        at = made.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
