"""Mistral's models scale queries by their positions, as Llama 4 does; in a batch each row has positions of its own.

mlx-vlm 0.7.10 takes those of the first row for all, which shows beyond the length that the model was trained for.
"""

import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx

_NAME = "_get_llama_4_attn_scale"


class PositionScale:
    """Takes the place of mlx-vlm's function in a module of models. It lives in one thread.

    `offset`: the position of each row's first token, (rows,), in the pass under way; None: there is one row.
    """

    def __init__(self, of_library: Callable[[int, int, float, int], mx.array]) -> None:
        self.offset: mx.array | None = None
        self._of_library = of_library

    def __call__(self, start: int, stop: int, beta: float, most: int) -> mx.array:
        """Return what queries are multiplied by, (rows, 1, n, 1), or as the library does for one row."""
        if self.offset is None:
            return self._of_library(start, stop, beta, most)
        positions = self.offset[:, None] + mx.arange(stop - start)
        return (1 + beta * mx.log(1 + mx.floor(positions / most)))[:, None, :, None]


def scale_by_row(language_model: Any) -> PositionScale | None:
    """Let a language model scale so; None: it does not scale by positions."""
    module = sys.modules[type(language_model.model).__module__] if hasattr(language_model, "model") else None
    if not hasattr(module, _NAME):
        return None
    scale = PositionScale(getattr(module, _NAME))  # which may be that of another model, and steps aside for it
    setattr(module, _NAME, scale)
    return scale
