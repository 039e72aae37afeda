"""The keys and values that the prefix cache keeps, as MLX arrays. Only the engine's thread may touch them."""

from collections.abc import Mapping
from typing import Any, Self

import mlx.core as mx
import numpy as np

from orchard.engine.prefix_cache.values import HostArray, HostArrays

# MLX's type by safetensors' name, and the type of the same width that numpy knows.
_TYPES: dict[str, tuple[Any, Any]] = {
    "BOOL": (mx.bool_, np.bool_),
    "U8": (mx.uint8, np.uint8),
    "U16": (mx.uint16, np.uint16),
    "U32": (mx.uint32, np.uint32),
    "U64": (mx.uint64, np.uint64),
    "I8": (mx.int8, np.int8),
    "I16": (mx.int16, np.int16),
    "I32": (mx.int32, np.int32),
    "I64": (mx.int64, np.int64),
    "F16": (mx.float16, np.float16),
    "BF16": (mx.bfloat16, np.uint16),
    "F32": (mx.float32, np.float32),
}
_NAMES = {mlx_type: name for name, (mlx_type, _) in _TYPES.items()}


class State:
    """Arrays by name that belong together: the state, at one place, of layers that can't be cut."""

    def __init__(self, arrays: Mapping[str, mx.array]) -> None:
        """Take arrays that may be lazy. To be kept, they must own their memory once they are evaluated."""
        self.arrays = dict(arrays)
        self.nbytes = sum(array.nbytes for array in self.arrays.values())

    def to_host(self) -> HostArrays:
        """Wait for the arrays and copy them to host memory."""
        mx.eval(*self.arrays.values())
        return {name: _to_host(array) for name, array in self.arrays.items()}

    @classmethod
    def from_host(cls, arrays: HostArrays) -> Self:
        """Copy arrays from host memory. Raise KeyError or ValueError where `to_host` can't have returned them."""
        return cls({name: _from_host(array) for name, array in arrays.items()})


class Cut(State):
    """The keys and values of a run of tokens: arrays (1, heads, tokens, width), in whose axis 2 the tokens lie."""

    def part(self, begin: int, end: int) -> "Cut":
        """Copy the tokens from `begin` to `end`; the copies are under way when this returns."""
        arrays = {name: mx.contiguous(array[:, :, begin:end]) for name, array in self.arrays.items()}
        # A lazy copy would keep the whole alive behind the budget's back.
        mx.async_eval(*arrays.values())  # type: ignore[no-untyped-call]
        return Cut(arrays)


def _to_host(array: mx.array) -> HostArray:
    name = _NAMES[array.dtype]
    plain: Any = array.view(mx.uint16) if name == "BF16" else array  # a buffer has no bfloat16
    return HostArray(name, tuple(array.shape), memoryview(plain).tobytes())


def _from_host(array: HostArray) -> mx.array:
    mlx_type, numpy_type = _TYPES[array.dtype]
    plain = mx.array(np.frombuffer(array.data, numpy_type).reshape(array.shape))
    return plain.view(mlx_type) if plain.dtype != mlx_type else plain
