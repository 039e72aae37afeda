"""From the blocks of llama.cpp's quantised weights to MLX's.

In both, a weight is `scale * integer + bias`, with a scale and a bias for a group. Most kinds of blocks have groups of
32 weights, as MLX can have: their integers are taken over as they are. Others have smaller groups, or values that lie
at other distances: they are dequantised exactly, and quantised again. `gguf.quants` says how the blocks are laid out.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf.quants import Q4_K
from numpy.typing import NDArray

GROUP = 32
PLAIN = {Kind.F32, Kind.F16, Kind.BF16, Kind.F64}
"""Kinds of tensors that are not quantised."""
BITS = (4, 5, 6, 8)
"""What quantised weights may have."""
# Of a weight, as the names say; those of kinds that are not in the package's list of sizes can't be read anyway.
_NEAREST = {
    **dict.fromkeys((Kind.Q5_0, Kind.Q5_1, Kind.Q5_K), 5),
    Kind.Q6_K: 6,
    **dict.fromkeys((Kind.Q8_0, Kind.Q8_1, Kind.Q8_K), 8),
}


class Groups(NamedTuple):
    """Quantised weights. `integers`: as MLX packs them, (rows, words); `scales` and `biases`: (rows, groups)."""

    integers: NDArray[np.uint32]
    scales: NDArray[np.float32]
    biases: NDArray[np.float32]


_Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""The integers, 32 for each scale; the scales; the biases."""


def nearest_bits(kind: Kind) -> int:
    """Return the number of `BITS` that is the nearest to what a kind of blocks has."""
    return _NEAREST.get(kind, 4)


def is_kept(kind: Kind, bits: int) -> bool:
    """Return whether the integers of a kind of blocks are taken over with so many bits."""
    return kind in _SPLIT and nearest_bits(kind) == bits


def quantize_rows(rows: NDArray[np.uint8], kind: Kind, bits: int) -> Groups:
    """Return the weights in rows of blocks with so many bits, unchanged if they have so many. Raise as the next one."""
    count = len(rows)
    if is_kept(kind, bits):
        _, size = gguf.GGML_QUANT_SIZES[kind]
        integers, scales, biases = _SPLIT[kind](rows.reshape(-1, size))
        return Groups(_pack(integers, bits).reshape(count, -1), scales.reshape(count, -1), biases.reshape(count, -1))
    return Groups(*map(np.array, mx.quantize(mx.array(dequantize_rows(rows, kind)), GROUP, bits)))


def dequantize_rows(rows: NDArray[np.uint8], kind: Kind) -> NDArray[np.float32]:
    """Return the weights in rows of blocks. Raise NotImplementedError if the package can't do that for the kind."""
    if kind in (Kind.F32, Kind.F16, Kind.F64):
        return rows.view({Kind.F32: "<f4", Kind.F16: "<f2", Kind.F64: "<f8"}[kind]).astype(np.float32)
    return gguf.dequantize(rows, kind).astype(np.float32)


def _pack(integers: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Return integers as MLX packs them: one after the other, from the lowest bits on."""
    eights = integers.reshape(-1, 8).astype(np.uint64)
    together = np.zeros(len(eights), np.uint64)
    for number in range(8):
        together |= eights[:, number] << np.uint64(number * bits)
    content = together.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :bits]
    return np.ascontiguousarray(content).reshape(-1).view("<u4")


def _halves(blocks: NDArray[np.uint8], count: int) -> list[NDArray[np.float32]]:
    """Return the first numbers of each block, which are in float16: each (blocks, 1)."""
    numbers = np.ascontiguousarray(blocks[:, : 2 * count]).view("<f2").astype(np.float32)
    return [numbers[:, [one]] for one in range(count)]


def _nibbles(values: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the lower halves of the bytes of each block, then the upper ones."""
    return np.concatenate([values & 15, values >> 4], axis=-1)


def _fifth_bits(values: NDArray[np.uint8]) -> NDArray[Any]:
    """Return one bit for each weight, as the fifth one of its integer."""
    return np.unpackbits(np.ascontiguousarray(values), axis=-1, bitorder="little") << 4


def _split_q4_0(blocks: NDArray[np.uint8]) -> _Split:
    (scales,) = _halves(blocks, 1)
    return (_nibbles(blocks[:, 2:]), scales, -8 * scales)


def _split_q4_1(blocks: NDArray[np.uint8]) -> _Split:
    scales, biases = _halves(blocks, 2)
    return _nibbles(blocks[:, 4:]), scales, biases


def _split_q5_0(blocks: NDArray[np.uint8]) -> _Split:
    (scales,) = _halves(blocks, 1)
    return (_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]), scales, -16 * scales)


def _split_q5_1(blocks: NDArray[np.uint8]) -> _Split:
    scales, biases = _halves(blocks, 2)
    return _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8]), scales, biases


def _split_q8_0(blocks: NDArray[np.uint8]) -> _Split:
    (scales,) = _halves(blocks, 1)
    return (blocks[:, 2:] ^ 128, scales, -128 * scales)  # int8 as uint8, which is 128 more


def _split_q4_k(blocks: NDArray[np.uint8]) -> _Split:
    return (_nibbles(blocks[:, 16:].reshape(-1, 4, 32)), *_super_block(blocks))


def _split_q5_k(blocks: NDArray[np.uint8]) -> _Split:
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return (low | high << 4, *_super_block(blocks))


def _super_block(blocks: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the scales and biases of the eight groups of each block, which are integers with a common scale."""
    scale, least = _halves(blocks, 2)
    scales, leasts = Q4_K.get_scale_min(np.ascontiguousarray(blocks[:, 4:16]))
    return scale * scales, -least * leasts


_SPLIT: dict[Kind, Callable[[NDArray[np.uint8]], _Split]] = {
    Kind.Q4_0: _split_q4_0,
    Kind.Q4_1: _split_q4_1,
    Kind.Q5_0: _split_q5_0,
    Kind.Q5_1: _split_q5_1,
    Kind.Q8_0: _split_q8_0,
    Kind.Q4_K: _split_q4_k,
    Kind.Q5_K: _split_q5_k,
}
