"""The attention of CUDA where there is none: a reference stands for the kernel, and gets what the kernel would get."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import pytest

from orchard.engine.batching import attention, decode_attention, layer_views
from orchard.engine.batching.batched_cache import PlacedArrays


@contextmanager
def as_on_cuda() -> Iterator[list[int]]:
    """Let rows attend as on CUDA; yield a list of how many first places each call of the kernel hides."""
    calls: list[int] = []

    def attend(queries: mx.array, layer: PlacedArrays, scale: float, mask: Any = None) -> mx.array:
        keys, values = layer.arrays
        hidden = decode_attention.count_hidden_places(mask, layer.lengths, layer.last_fetch[0].shape[2])
        assert hidden is not None
        calls.append(hidden)
        places = mx.arange(keys.shape[2])
        seen = (places <= layer.lengths.positions[:, None, :, None]) & (places >= hidden)
        return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=seen)

    with pytest.MonkeyPatch.context() as patch:
        for module in (attention, layer_views):
            patch.setattr(module, "on_cuda", lambda: True)
        patch.setattr(decode_attention, "attend_rows", attend)
        yield calls
