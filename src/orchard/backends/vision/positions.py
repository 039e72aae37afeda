"""Positions of tokens in three dimensions, for models with multimodal rotary embeddings (M-RoPE).

Written from the papers. Text counts in all three dimensions equally. A token of an image or of a frame has the time,
row and column of its patch, counted from the image's beginning; the next token continues after the largest of them
(Qwen2-VL, https://arxiv.org/abs/2409.12191, section 2.1). In Qwen2.5-VL, the time positions of a video's frames follow
the seconds between them (https://arxiv.org/abs/2502.13923, section 2.1). Qwen3-VL writes the time as text before each
frame, so that each frame is a separate image (https://arxiv.org/abs/2511.21631).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TokenGrid(NamedTuple):
    """The tokens of an image or a video: they begin at `start`; columns change fastest, then rows, then times.

    `time_step`: the distance from one time to the next.
    """

    start: int
    times: int
    rows: int
    columns: int
    time_step: float = 1.0

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.times * self.rows * self.columns


def positions_of(length: int, grids: Sequence[TokenGrid]) -> tuple[NDArray[np.int32], int]:
    """Return the positions (3, length) of a prompt's tokens, and the next token's position minus `length`.

    `grids` are in order and don't overlap.
    """
    pieces: list[NDArray[np.int32]] = []
    place = following = 0
    for grid in grids:
        pieces.append(_text_positions(following, grid.start - place))
        following += grid.start - place
        times, rows, columns = np.indices((grid.times, grid.rows, grid.columns)).reshape(3, -1)
        own = np.stack([np.floor(times * grid.time_step), rows, columns]).astype(np.int32)
        pieces.append(own + following)
        following += int(own.max()) + 1
        place = grid.start + grid.tokens
    pieces.append(_text_positions(following, length - place))
    return np.concatenate(pieces, axis=1), following + length - place - length


def _text_positions(first: int, count: int) -> NDArray[np.int32]:
    return np.broadcast_to(np.arange(first, first + count, dtype=np.int32), (3, count))
