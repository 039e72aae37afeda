"""Scales queries by their positions for Mistral's models, as in Llama 4; in a batch each row has its own positions.

mlx-vlm 0.7.10 uses the first row's for all rows, which is wrong beyond the length that the model was trained for.
"""

import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx

_FUNCTION_NAME = "_get_llama_4_attn_scale"


class PositionScale:
    """Replaces mlx-vlm's function in a module of models. Only one thread may use it.

    `offset`: the position of each row's first token, (rows,), in the current pass; None: there is one row.
    """

    def __init__(self, original: Callable[[int, int, float, int], mx.array]) -> None:
        self.offset: mx.array | None = None
        self._original = original

    def __call__(self, start: int, stop: int, beta: float, most: int) -> mx.array:
        """Return the factors for queries, (rows, 1, n, 1), or in the library's form for one row."""
        if self.offset is None:
            return self._original(start, stop, beta, most)
        positions = self.offset[:, None] + mx.arange(stop - start)
        return (1 + beta * mx.log(1 + mx.floor(positions / most)))[:, None, :, None]


def scale_by_row(language_model: Any) -> PositionScale | None:
    """Make a language model scale each row by its positions; return None if it doesn't scale by positions."""
    module = sys.modules[type(language_model.model).__module__] if hasattr(language_model, "model") else None
    if not hasattr(module, _FUNCTION_NAME):
        return None
    scale = PositionScale(getattr(module, _FUNCTION_NAME))  # it may be another model's replacement
    setattr(module, _FUNCTION_NAME, scale)
    return scale
