"""Corrects Gemma 3n's last layers, which read earlier layers' keys: rotates their queries by the positions of the pass.

mlx-vlm 0.7.10 rotates them by the cache's end after the pass, so the result depends on how a prompt is divided.
"""

from typing import Any

import mlx.core as mx
from mlx import nn


class QueryRotary:
    """Replaces the rotary embedding of a layer that only rotates queries."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __call__(self, queries: mx.array, offset: int) -> mx.array:
        """Rotate queries (rows, heads, n, width); `offset` is the position after the last of them."""
        rotated: mx.array = self._original(queries, offset=offset - queries.shape[2])
        return rotated


def mend_shared_keys(language_model: nn.Module) -> None:
    """Make Gemma 3n's layers rotate queries this way, if they don't yet; leave other models unchanged."""
    for _, module in language_model.named_modules():
        shares = type(module).__name__ == "Gemma3nAttention" and module.is_kv_shared_layer
        if shares and not isinstance(module.rope, QueryRotary):
            module.rope = QueryRotary(module.rope)
