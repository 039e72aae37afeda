"""Quantised layers in the forms for which MLX 0.32 is fast on CUDA and on a slow CPU, one without Accelerate.

On CUDA, a product reads the weights once per row for inputs (rows, 1, width), but only once for inputs (rows, width).
With many rows (hundreds on CUDA, a few on a slow CPU), unpacking the weights first is faster than MLX's product with
packed weights, which on a slow CPU unpacks them again for each row. Metal's kernels need neither form. Measurements:
docs/performance.md.

cuDNN's attention is turned off: preparing each new pair of lengths takes 40 ms and more (seconds for some), and
nearly every chunk of a prompt has a new pair.
"""

import os
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from orchard.backends.kernels import cpu, few_rows
from orchard.engine.batching.model import on_cuda

_UNPACK_FROM = 256  # rows, on CUDA
_BLOCK = 2**19  # weights to unpack at a time on a slow CPU


def adapt_quantized_layers(network: nn.Module) -> None:
    """Give a network's layers these forms if they help. Call this before anything is computed."""
    if not _is_faster():
        return
    os.environ.setdefault("MLX_CUDA_USE_CUDNN_SDPA", "0")  # only used on CUDA
    for _, module in network.named_modules():
        if type(module) is nn.QuantizedLinear:
            module.__class__ = _FastLinear
        elif type(module) is nn.QuantizedEmbedding:
            module.__class__ = _FastEmbedding


def _is_faster() -> bool:
    """Return whether MLX runs on a device on which these forms are faster."""
    return on_cuda() or cpu.is_slow()


def quantized_product(inputs: mx.array, layer: Any) -> mx.array:
    """Multiply inputs (..., width) by a quantised layer's weights (outputs, width), without its bias."""
    width = inputs.shape[-1]
    rows = inputs.size // width
    packed = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode}
    weights, scales, biases = layer["weight"], layer["scales"], layer.get("biases")
    slow = cpu.is_slow() and inputs.dtype == mx.float32
    if slow and rows >= cpu.FEWEST_ROWS:
        return _product_in_blocks(inputs, layer, packed)
    if not slow and rows >= _UNPACK_FROM:
        return inputs @ mx.dequantize(weights, scales, biases, dtype=inputs.dtype, **packed).T
    if _can_use_few_rows(rows, inputs, layer):
        return few_rows.product_of_few_rows(inputs, layer)
    outputs = mx.quantized_matmul(inputs.reshape(rows, width), weights, scales, biases, transpose=True, **packed)
    return outputs.reshape(*inputs.shape[:-1], -1)


def _is_product_faster(inputs: mx.array, layer: Any) -> bool:
    """Return whether `quantized_product` is faster than MLX's own form."""
    if inputs.size > inputs.shape[-1]:
        return _is_faster()
    return _can_use_few_rows(1, inputs, layer)


def _can_use_few_rows(rows: int, inputs: mx.array, layer: Any) -> bool:
    return on_cuda() and few_rows.can_multiply(rows, inputs.dtype, layer) and few_rows.is_kernel_correct(inputs.dtype)


def _product_in_blocks(inputs: mx.array, layer: Any, packed: dict[str, Any]) -> mx.array:
    """Multiply float32 inputs (..., width) with numpy; unpack the weights of some outputs at a time.

    So they fit into the processor's cache; writing all of them to memory would take longer than the product.
    """
    rows = np.asarray(inputs).reshape(-1, inputs.shape[-1])
    weights, scales, biases = layer["weight"], layer["scales"], layer.get("biases")
    products = np.empty((len(rows), len(weights)), np.float32)
    step = max(1, _BLOCK // inputs.shape[-1])
    with cpu.threads_for(len(rows)):
        for first in range(0, len(weights), step):
            part = slice(first, first + step)
            bias = None if biases is None else biases[part]
            unpacked = mx.dequantize(weights[part], scales[part], bias, dtype=mx.float32, **packed)
            np.matmul(rows, np.asarray(unpacked).T, out=products[:, part])
    return mx.array(products).reshape(*inputs.shape[:-1], -1)


def quantized_linear(inputs: mx.array, layer: Any) -> mx.array:
    """Return a quantised layer's output for inputs (..., width), computed in the form that is fast on this device."""
    if _is_product_faster(inputs, layer):
        outputs = quantized_product(inputs, layer)
    else:
        outputs = mx.quantized_matmul(
            inputs,
            layer["weight"],
            layer["scales"],
            layer.get("biases"),
            transpose=True,
            group_size=layer.group_size,
            bits=layer.bits,
            mode=layer.mode,
        )
    bias = layer.get("bias")
    return outputs if bias is None else outputs + bias


class _FastLinear(nn.QuantizedLinear):  # type: ignore[misc]
    def __call__(self, inputs: mx.array) -> mx.array:
        return quantized_linear(inputs, self)


class _FastEmbedding(nn.QuantizedEmbedding):  # type: ignore[misc]
    def __call__(self, tokens: mx.array) -> mx.array:
        return few_rows.embed(tokens, self) if on_cuda() and few_rows.can_embed(self) else super().__call__(tokens)

    def as_linear(self, inputs: mx.array) -> mx.array:
        return quantized_product(inputs, self) if _is_product_faster(inputs, self) else super().as_linear(inputs)
