"""Attention over a batch whose rows are in several groups.

mlx-lm's models pass the keys and values that a cache returned to one function, `scaled_dot_product_attention` of
`models/base.py`; mlx-vlm's models have one that does the same with the caches used here. A batch's cache may return one
array for each group of rows. In the modules of loaded models, `install_attention` replaces that function by `attend`,
which calls it for each group with the queries of the group's rows.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mlx.core as mx
from msgspec import Struct

from orchard.engine.batching import decode_attention
from orchard.engine.batching.model import on_cuda

_NAME = "scaled_dot_product_attention"
_exact = ContextVar("exactly", default=False)
PromptKernel = Callable[[mx.array, mx.array, mx.array, float, Any], mx.array]
"""Attends from several tokens of each row. Its arguments: queries, keys and values (rows, heads, tokens, width) in
float32, the scale, and the mask as the library's function takes it."""
_prompt_kernel: ContextVar[PromptKernel | None] = ContextVar("prompt kernel", default=None)
_LEAST_PRODUCTS = 2**21  # of queries and keys, with all their numbers: fewer are not worth the wait for another library


class GroupedArrays(Struct, eq=False):
    """One array for each group of rows: `arrays[i]` belongs to the rows from `bounds[i]` to `bounds[i+1]`.

    `layers[i]` is the cache of group i, as the library's function wants to see it.
    """

    arrays: list[Any]
    bounds: list[int]
    layers: list[Any]


@contextmanager
def exact_attention() -> Iterator[None]:
    """Let MLX compute all attention in float32 and without Orchard's kernels, whatever type its arguments have.

    Kernels sum in different orders, and MLX rounds attention weights to their type if it has no kernel for a size. So
    the results of two kernels differ by rounding, which some models amplify from layer to layer.
    """
    before = _exact.set(True)
    try:
        yield
    finally:
        _exact.reset(before)


def use_prompt_kernel(kernel: PromptKernel | None) -> None:
    """Use a kernel where it gains, from now on and in this thread; None: MLX's own."""
    _prompt_kernel.set(kernel)


def attend(queries: mx.array, keys: Any, values: Any, cache: Any, *args: Any, **kwargs: Any) -> mx.array:
    """Attend in place of the library's function, which has the same arguments; the others are `scale`, `mask`, `sinks`.

    Keys, values and the mask may be `GroupedArrays`; for a single group, only the mask may be.
    """
    given = dict(zip(("scale", "mask", "sinks"), args, strict=False)) | kwargs
    if not isinstance(keys, GroupedArrays):
        own = {name: _value_of_group(value, 0) for name, value in given.items()}
        return _attend_group(queries, keys, values, cache, **own)
    attended = []
    for index, layer in enumerate(keys.layers):
        rows = queries[keys.bounds[index] : keys.bounds[index + 1]]
        own = {name: _value_of_group(value, index) for name, value in given.items()}
        attended.append(_attend_group(rows, keys.arrays[index], values.arrays[index], layer, **own))
    return mx.concatenate(attended)


def _attend_group(
    queries: mx.array, keys: Any, values: Any, cache: Any, *, scale: float, mask: Any = None, sinks: Any = None
) -> mx.array:
    """Attend as the library does. Use a kernel for rows on CUDA; dequantise keys and values if that is better.

    The library multiplies quantised keys and values directly, which reads less memory for one token. It is slower for
    several tokens (six times on a CPU in bfloat16) and can't be used with attention sinks. On CUDA, MLX 0.32.4 rejects
    some sizes and computes others wrongly.
    """
    from mlx_lm.models.base import scaled_dot_product_attention as plain

    given = queries.dtype
    layer = getattr(cache, "single_layer", cache)
    exactly = _exact.get()
    if on_cuda() and sinks is None and not exactly and decode_attention.can_attend_rows(queries, keys, layer, mask):
        return decode_attention.attend_rows(queries, layer, scale, mask)
    several = queries.shape[2] > 1
    if hasattr(cache, "bits") and (several or on_cuda() or sinks is not None):
        keys, values = (
            mx.dequantize(weights, scales, biases, group_size=cache.group_size, bits=cache.bits)
            for weights, scales, biases in (keys, values)
        )
        cache = None
    if exactly and isinstance(keys, mx.array):
        queries, keys, values = (array.astype(mx.float32) for array in (queries, keys, values))
        sinks = None if sinks is None else sinks.astype(mx.float32)
    elif (kernel := _prompt_kernel.get()) and sinks is None and _is_large(queries, keys, values):
        return kernel(queries, keys, values, scale, mask)
    attended: mx.array = plain(queries, keys, values, cache, scale=scale, mask=mask, sinks=sinks)
    return attended.astype(given)


def _is_large(queries: mx.array, keys: Any, values: Any) -> bool:
    """Return whether several float32 queries meet so many keys that a `PromptKernel` gains."""
    in_float32 = all(isinstance(one, mx.array) and one.dtype == mx.float32 for one in (queries, keys, values))
    return in_float32 and queries.shape[2] > 1 and queries.size * keys.shape[2] >= _LEAST_PRODUCTS


def install_attention() -> None:
    """Make every model module that has been imported use `attend`."""
    for name, module in list(sys.modules.items()):
        of_model = name.startswith(("mlx_lm.models.", "mlx_vlm.models.")) and not name.endswith(".base")
        if of_model and hasattr(module, _NAME):
            setattr(module, _NAME, attend)


def _value_of_group(value: Any, index: int) -> Any:
    return value.arrays[index] if isinstance(value, GroupedArrays) else value
