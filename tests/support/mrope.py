"""Positions in three dimensions as the papers define them, to test others' code with. Plain numpy, no library's code.

Qwen2-VL (arXiv:2409.12191, section 2.1): a token of text has one number thrice. A token of a picture has the picture's
first number as its time, and its row and its column, counted from it. In a film the time counts the groups of frames.
Whatever comes next begins one above the greatest number so far, in any of the three dimensions.
Qwen2.5-VL (arXiv:2502.13923, section 2.1): the time of a film's group is in proportion to its seconds.
Qwen3-VL (arXiv:2511.21631): the time of a group is written before it as text, and each group is counted as a picture.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Words:
    """So many tokens of text; special tokens are text, too."""

    count: int


@dataclass(frozen=True)
class Grid:
    """A picture, or a film's `groups` of frames that come without text between them.

    `rows` and `columns` of tokens. `step`: how many numbers of time a group takes.
    """

    rows: int
    columns: int
    groups: int = 1
    step: Fraction = Fraction(1)


def reference_positions(parts: Sequence[Words | Grid]) -> tuple[NDArray[np.int64], int]:
    """Return positions (3, n), and what is added to the length to get the position of the next token."""
    numbered: list[tuple[int, int, int]] = []
    first = 0
    for part in parts:
        if isinstance(part, Words):
            inside = [(n, n, n) for n in range(part.count)]
        else:
            inside = [
                (math.floor(group * part.step), row, column)
                for group in range(part.groups)
                for row in range(part.rows)
                for column in range(part.columns)
            ]
        numbered += [(first + time, first + row, first + column) for time, row, column in inside]
        first = max((max(one) for one in numbered), default=-1) + 1
    return np.array(numbered, np.int64).reshape(-1, 3).T, first - len(numbered)
