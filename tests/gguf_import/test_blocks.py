"""All kinds of blocks that llama.cpp has: they are read exactly, kept or quantised again, or refused."""

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from orchard.gguf_import.blocks import GROUP, PLAIN, dequantize_rows, is_kept, nearest_bits, quantize_rows

UNREAD = {Kind.Q8_1, Kind.Q8_K, Kind.I8, Kind.I16, Kind.I32, Kind.I64, Kind.Q1_0}
QUANTISED = [kind for kind in Kind if kind not in PLAIN | UNREAD]


def some_rows(kind: Kind) -> NDArray[np.uint8]:
    """Return rows of blocks whose bytes are random, but so small that no scale is infinite or no number."""
    _, size = gguf.GGML_QUANT_SIZES[kind]
    return np.random.default_rng(0).integers(0, 60, (4, 8 * size), dtype=np.uint8)


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: kind.name)
def test_blocks_keep_their_values_or_are_quantised_again(kind: Kind) -> None:
    rows, bits = some_rows(kind), nearest_bits(kind)
    integers, scales, biases = map(mx.array, quantize_rows(rows, kind, bits))
    found = np.array(mx.dequantize(integers, scales, biases, GROUP, bits)).reshape(-1, GROUP)
    expected = gguf.dequantize(rows, kind).reshape(-1, GROUP)
    if is_kept(kind, bits):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6 * float(np.abs(expected).max()))
    else:
        # MLX moves the steps so that one of them is zero, and has no smaller ones than 1e-7.
        step = np.maximum(np.ptp(expected, axis=-1), np.abs(expected).max(axis=-1)) / (2**bits - 1)
        assert np.all(np.abs(found - expected) <= np.maximum(step * 1.01, 1e-6)[:, None])


@pytest.mark.parametrize("kind", sorted(UNREAD), ids=lambda kind: kind.name)
def test_what_the_package_cannot_read_is_not_read(kind: Kind) -> None:
    with pytest.raises(NotImplementedError):
        dequantize_rows(some_rows(kind), kind)
