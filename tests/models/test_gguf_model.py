"""Weights that are taken over from a GGUF file keep their values."""

from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from tests.models.gguf_model import _PACKED, _packed


@pytest.mark.parametrize("kind", _PACKED, ids=lambda kind: kind.name)
def test_packed_weights_are_the_files(kind: Kind, tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).standard_normal((6, 96)).astype(np.float32)
    blocks = gguf.quants.quantize(drawn, kind)
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("one", blocks, raw_dtype=kind)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    found = _packed(gguf.GGUFReader(tmp_path / "one.gguf").tensors[0])
    scales, biases = (found[name].astype(mx.float32) for name in ("scales", "biases"))
    unpacked = mx.dequantize(found["weight"], scales, biases, group_size=32, bits=_PACKED[kind][0])
    assert np.array(unpacked) == pytest.approx(gguf.dequantize(blocks, kind), abs=1e-6)
