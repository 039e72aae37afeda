"""Lets numpy compute products on slow CPUs, without Accelerate: MLX's are twenty times slower (2 GFLOP/s per machine).

On a Mac, MLX uses Accelerate on the CPU.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import product
from typing import Any, cast

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_unflatten
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

FEWEST_ROWS = 4
"""The fewest rows that numpy multiplies in a model that generates text. Fewer rows gain little, and MLX's result for
a row doesn't depend on other rows."""
_FEWEST_ROWS_OF_SMALL = 2
"""The same for small layers without quantisation, which have nothing to unpack."""
MANY_ROWS = 64
"""The fewest rows that numpy multiplies with all its threads in a model that generates text."""
_LEAST_WEIGHTS = 2**18
"""The least weights per layer, on average, for which waiting for numpy costs little even with one row."""
_MOST_SCORES = 2**20
"""The most scores of attention at once: they stay in the processor's cache."""
_LAYERS = (nn.Linear, nn.Embedding, nn.QuantizedLinear, nn.QuantizedEmbedding)


def is_slow() -> bool:
    """Return whether MLX runs on a slow CPU."""
    return sys.platform != "darwin" and mx.default_device() == mx.cpu


def use_numpy(network: nn.Module, fewest_rows: int = 1, *, generates: bool = False) -> None:
    """On a slow CPU, let numpy compute the products of a network's float32 layers with `fewest_rows` rows or more.

    `generates`: the model generates text, so most of its products have few rows; see `threads_for`.
    """
    if not is_slow():
        return
    for _, module in network.named_modules():
        if (kind := _NUMPY_LAYERS.get(type(module))) and module.weight.dtype == mx.float32:
            module.__class__ = kind
            module.fewest_rows, module.generates = fewest_rows, generates


def widen_to_float32(network: nn.Module, room: int = 0) -> bool:
    """On a slow CPU, let a network compute in float32 if that is faster; return whether its weights are float32 then.

    If the weights take at most `room` bytes in float32, they become float32, and numpy computes the products: all of
    them if the layers are large, those of two or more rows if the layers are small and in half precision. Otherwise
    only networks with quantised layers change. They keep these, but compute in float32: MLX's product of quantised
    weights takes ten times as long with inputs in half precision.
    """
    if not is_slow():
        return False
    layers = [(name, module) for name, module in network.named_modules() if type(module) in _LAYERS]
    weights = sum(_count_weights(module) for _, module in layers)
    are_large = weights >= len(layers) * _LEAST_WEIGHTS
    are_half = all(module.weight.dtype in (mx.bfloat16, mx.float16) for _, module in layers)
    if layers and weights * mx.float32.size <= room and (are_large or are_half):
        network.set_dtype(mx.float32)  # first: else weights are rounded to their scales' type
        network.update_modules(tree_unflatten([(name, _unpack_layer(module)) for name, module in layers]))
        use_numpy(network, 1 if are_large else _FEWEST_ROWS_OF_SMALL, generates=True)
        return True
    if any("scales" in module for module in network.modules()):
        network.set_dtype(mx.float32)
        use_numpy(network, FEWEST_ROWS, generates=True)
    return False


def _count_weights(layer: nn.Module) -> int:
    weight: mx.array = layer.weight
    return weight.nbytes * 8 // layer.bits if "scales" in layer else weight.size


def _unpack_layer(layer: nn.Module) -> nn.Module:
    """Return a layer without quantisation that computes the same."""
    if "scales" not in layer:
        return layer
    kind = nn.Linear if type(layer) is nn.QuantizedLinear else nn.Embedding
    made = kind(1, 1)
    packed = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode, "dtype": mx.float32}
    made.weight = mx.dequantize(layer.weight, layer.scales, layer.get("biases"), **packed)
    if kind is nn.Linear:
        made.pop("bias")
        if "bias" in layer:
            made.bias = layer.bias
    return made


def threads_for(rows: int) -> AbstractContextManager[Any]:
    """Return a context in which numpy multiplies fewer than `MANY_ROWS` rows in one thread.

    Its threads wait for each other in a busy loop. If other programs use the cores, a short product takes 20 times as
    long with several threads.
    """
    if rows >= MANY_ROWS:
        return nullcontext()
    return cast(AbstractContextManager[Any], _thread_controller().limit(limits=1, user_api="blas"))


@cache
def _thread_controller() -> ThreadpoolController:
    return ThreadpoolController()


def numpy_product(inputs: mx.array, weights: mx.array) -> mx.array:
    """Multiply float32 inputs (..., width) by weights (outputs, width) with numpy."""
    rows = np.asarray(inputs).reshape(-1, inputs.shape[-1])
    return mx.array(rows @ np.asarray(weights).T).reshape(*inputs.shape[:-1], -1)


def numpy_attention(queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: Any) -> mx.array:
    """Attend as MLX's `scaled_dot_product_attention` does, in float32, with some queries and a head of keys at once."""
    rows, heads, count, width = queries.shape
    kv_heads, places = keys.shape[1:3]
    form = rows, kv_heads, heads // kv_heads, count
    own = (np.asarray(queries) * np.float32(scale)).reshape(*form, width)
    known, given = np.asarray(keys), np.asarray(values)
    if isinstance(mask, str):  # "causal"
        mask = np.arange(places) <= np.arange(places - count, places)[:, None]
    if mask is not None:
        numbers = mask.astype(mx.float32) if isinstance(mask, mx.array) and mask.dtype != mx.bool_ else mask
        mask = np.broadcast_to(np.asarray(numbers), (rows, heads, count, places)).reshape(*form, places)
    found = np.empty((*form, given.shape[-1]), np.float32)
    step = max(_MOST_SCORES // (form[2] * places), 1)
    with threads_for(1):
        for row, head, first in product(range(rows), range(kv_heads), range(0, count, step)):
            block = row, head, slice(None), slice(first, first + step)
            scores = own[block] @ known[row, head].T
            if mask is not None:
                _apply_mask(scores, mask[block])
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            found[block] = scores @ given[row, head] / scores.sum(axis=-1, keepdims=True)
    return mx.array(found.reshape(rows, heads, count, -1))


def _apply_mask(scores: NDArray[np.float32], mask: NDArray[Any]) -> None:
    """Exclude scores where a mask is False, or add it if it consists of numbers."""
    if mask.dtype == bool:
        np.copyto(scores, np.finfo(np.float32).min, where=~mask)
    else:
        scores += mask


class _NumpyLinear(nn.Linear):  # type: ignore[misc]
    fewest_rows: int
    generates: bool

    def __call__(self, inputs: mx.array) -> mx.array:
        if not _can_use_numpy(self, inputs):
            return super().__call__(inputs)  # type: ignore[no-any-return]
        found = _layer_product(self, inputs)
        return found + self.bias if "bias" in self else found


class _NumpyEmbedding(nn.Embedding):  # type: ignore[misc]
    fewest_rows: int
    generates: bool

    def as_linear(self, inputs: mx.array) -> mx.array:
        return _layer_product(self, inputs) if _can_use_numpy(self, inputs) else super().as_linear(inputs)


_NUMPY_LAYERS: dict[type, Any] = {nn.Linear: _NumpyLinear, nn.Embedding: _NumpyEmbedding}


def _can_use_numpy(layer: Any, inputs: mx.array) -> bool:
    return inputs.dtype == mx.float32 and inputs.size >= layer.fewest_rows * inputs.shape[-1]


def _layer_product(layer: Any, inputs: mx.array) -> mx.array:
    with threads_for(inputs.size // inputs.shape[-1]) if layer.generates else nullcontext():
        return numpy_product(inputs, layer.weight)
