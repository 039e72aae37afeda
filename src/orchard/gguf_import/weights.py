"""Writes a model's weights as one file in safetensors format, some rows after the other.

The format is https://huggingface.co/docs/safetensors/index#format. The shapes of all arrays are known before, so that
each array has its place in the file, and no more than some rows are in memory.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from numpy.typing import NDArray

from orchard.gguf_import import blocks
from orchard.gguf_import.architectures import Architecture, Config, is_raised_norm, mlx_names, row_order
from orchard.gguf_import.header import GgufModel, Tensor, UnusableFileError

NUMBERS_AT_ONCE = 2**22
"""So many weights are in memory in float32, which are some megabytes."""
_ROUTER = re.compile(r".*(\.gate|\.shared_expert_gate)\.weight")
_NAMES = {mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint32: "U32"}


class Array(NamedTuple):
    """An array of the new file."""

    name: str
    dtype: mx.Dtype
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.size


class Weight(NamedTuple):
    """A tensor, and what becomes of it.

    `name` and `shape`: those in MLX; `bits`: of its quantised weights (None: they aren't quantised); `order`: see
    `row_order`; `is_raised`: one must be taken away.
    """

    name: str
    tensor: Tensor
    shape: tuple[int, ...]
    bits: int | None
    order: NDArray[np.int64] | None
    is_raised: bool

    @property
    def layer(self) -> str:
        """The name of its layer."""
        return self.name.removesuffix(".weight")

    def arrays(self, dtype: mx.Dtype) -> list[Array]:
        """Return what is written of it, if numbers are of this type."""
        if self.bits is None:
            return [Array(self.name, dtype, self.shape)]
        outer, width = self.shape[:-1], self.shape[-1]
        groups = *outer, width // blocks.GROUP
        return [
            Array(self.name, mx.uint32, (*outer, width * self.bits // 32)),
            Array(f"{self.layer}.scales", dtype, groups),
            Array(f"{self.layer}.biases", dtype, groups),
        ]

    def read(self, first: int = 0, end: int | None = None) -> Iterator[NDArray[np.uint8]]:
        """Yield its rows in MLX's order, some at a time. Raise OSError or UnusableFileError.

        `first`: the number of the first row, which begins a head if they have an order; `end`: that after the last one.
        """
        end = self.tensor.rows if end is None else end
        is_vector = len(self.tensor.shape) == 1
        step = 1 if self.order is None or is_vector else len(self.order)
        at_once = max(1, NUMBERS_AT_ONCE // (self.tensor.shape[-1] * step)) * step
        for start in range(first, end, at_once):
            rows = self.tensor.read_rows(start, min(start + at_once, end))
            if self.order is not None and not is_vector:
                rows = rows.reshape(-1, step, rows.shape[-1])[:, self.order].reshape(rows.shape)
            yield rows

    def quantize(self, rows: NDArray[np.uint8]) -> blocks.Groups:
        """Return the weights in some rows, quantised. Raise UnusableFileError."""
        assert self.bits
        with self._explain_kind():
            return blocks.quantize_rows(rows, self.tensor.kind, self.bits)

    def dequantize(self, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the weights in some rows. Raise UnusableFileError."""
        with self._explain_kind():
            weights = blocks.dequantize_rows(rows, self.tensor.kind)
        if self.order is not None and len(self.tensor.shape) == 1:
            weights = weights.reshape(-1, len(self.order))[:, self.order].reshape(weights.shape)
        return weights - 1 if self.is_raised else weights

    @contextmanager
    def _explain_kind(self) -> Iterator[None]:
        try:
            yield
        except NotImplementedError:
            message = f"its {self.tensor.name} is quantised in a way ({self.tensor.kind.name}) that can't be read"
            raise UnusableFileError(message) from None


def plan_weights(model: GgufModel, architecture: Architecture, config: Config, bits: int | None) -> list[Weight]:
    """Return what becomes of each tensor. Raise UnusableFileError if they don't fit mlx-lm's network.

    `bits`: what all matrices are quantised to (16: none is); None: to what they have, or nearly so.
    """
    network, arguments = _get_classes(config)
    made = network(arguments.from_dict(config))
    modules = dict(made.named_modules())
    shapes = {name: array.shape for name, array in tree_flatten(made.parameters())}
    if config["tie_word_embeddings"]:
        shapes.pop("lm_head.weight", None)
    found = mlx_names(model, architecture)
    if missing := shapes.keys() - found.keys():
        raise UnusableFileError(f"it has {len(missing)} tensors too few, such as {min(missing)}")
    if more := found.keys() - shapes.keys():
        raise UnusableFileError(f"it has {len(more)} tensors too many, such as {found[min(more)].name}")
    weights = []
    for name, tensor in found.items():
        shape = shapes[name]
        if _without_ones(shape) != _without_ones(tensor.shape):
            raise UnusableFileError(f"its {tensor.name} has the shape {tensor.shape}, and its metadata say {shape}")
        is_matrix = name.endswith(".weight") and hasattr(modules[name.removesuffix(".weight")], "to_quantized")
        own = _bits_of(name, tensor, bits) if is_matrix and shape[-1] % blocks.GROUP == 0 else None
        order = row_order(tensor, architecture, config)
        weights.append(Weight(name, tensor, shape, own, order, is_raised_norm(name, architecture)))
    return weights


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _bits_of(name: str, tensor: Tensor, bits: int | None) -> int | None:
    is_plain = tensor.kind in blocks.PLAIN
    if bits == 16 or (is_plain and (bits is None or _ROUTER.fullmatch(name))):
        return None
    return bits or blocks.nearest_bits(tensor.kind)


def describe_quantization(weights: list[Weight]) -> dict[str, Any]:
    """Return what config.json says of the quantised layers; nothing if there are none."""
    bits = {weight.layer: weight.bits for weight in weights if weight.bits}
    if not bits:
        return {}
    usual = Counter(bits.values()).most_common(1)[0][0]
    other = {layer: {"group_size": blocks.GROUP, "bits": number} for layer, number in bits.items() if number != usual}
    return {"quantization": {"group_size": blocks.GROUP, "bits": usual, **other}}


class WeightsFile:
    """The new file of weights, with a place for each array."""

    def __init__(self, file: BinaryIO, weights: list[Weight], dtype: mx.Dtype) -> None:
        """Write the header."""
        self._file, self._dtype = file, dtype
        entries: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
        self._places: dict[str, int] = {}
        end = 0
        for array in (array for weight in weights for array in weight.arrays(dtype)):
            self._places[array.name] = end
            offsets = [end, end + array.size]
            entries[array.name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": offsets}
            end += array.size
        header = json.dumps(entries).encode()
        header += b" " * (-len(header) % 8)
        file.write(len(header).to_bytes(8, "little") + header)
        start = file.tell()
        self._places = {name: start + place for name, place in self._places.items()}

    def write(self, weight: Weight, on_rows: Callable[[int], None]) -> None:
        """Write a weight. `on_rows` is called with the bytes that were read. Raise OSError or UnusableFileError."""
        for rows in weight.read():
            if weight.bits is None:
                self._append(weight.name, weight, mx.array(weight.dequantize(rows)).astype(self._dtype))
            else:
                groups = weight.quantize(rows)
                self._append(weight.name, weight, mx.array(groups.integers))
                self._append(f"{weight.layer}.scales", weight, mx.array(groups.scales).astype(self._dtype))
                self._append(f"{weight.layer}.biases", weight, mx.array(groups.biases).astype(self._dtype))
            on_rows(rows.nbytes)

    def _append(self, name: str, weight: Weight, numbers: mx.array) -> None:
        """Write the next numbers of an array. Raise UnusableFileError if they are none."""
        if numbers.dtype != mx.uint32 and not mx.all(mx.isfinite(numbers)).item():
            raise UnusableFileError(f"its {weight.tensor.name} has weights that are infinite or no numbers")
        content = np.array(numbers.view(mx.uint8)).data
        self._file.seek(self._places[name])
        self._file.write(content)
        self._places[name] += content.nbytes


def size_of(weights: list[Weight], dtype: mx.Dtype) -> int:
    """Return the bytes of the new file's arrays."""
    return sum(array.size for weight in weights for array in weight.arrays(dtype))
