"""Imported models compute what their sources do, in all architectures and with all kinds of weights."""

from pathlib import Path

import gguf
import mlx.core as mx
import mlx_lm.utils
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from orchard.gguf_import.process import import_model, run_job
from orchard.gguf_job import ImportJob
from tests.gguf_import.tiny_models import CASES, TinyModel, write_model
from tests.support.examples import some

TOKENS = list(range(3, 43))


def imported_logits(model: TinyModel, folder: Path, **options: object) -> tuple[np.ndarray, list[str]]:
    folder.mkdir()
    notes = import_model(ImportJob(files=[str(model.file)], folder=str(folder), **options), lambda report: None)  # type: ignore[arg-type]
    network, _ = mlx_lm.utils.load_model(folder)
    network.set_dtype(mx.float32)
    return np.array(network(mx.array([TOKENS]))[0]), notes


@pytest.mark.parametrize("name", CASES)
def test_each_architecture_computes_what_its_source_does(name: str, tmp_path: Path) -> None:
    kinds = (Kind.Q4_0, Kind.Q8_0, Kind.F16, Kind.Q4_K, Kind.Q5_0)
    model = write_model(tmp_path / "model.gguf", CASES[name], kinds)
    found, notes = imported_logits(model, tmp_path / "imported", exact=True)
    expected = np.array(model.network(mx.array([TOKENS]))[0])
    assert found == pytest.approx(expected, abs=2e-4 * float(expected.std()))
    assert "the same at 32 of 32 places" in notes[0]


KEPT = (Kind.F32, Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0, Kind.Q4_K, Kind.Q5_K)
# By how much of their spread logits may differ. The scales of 16 weights are random here; in a real model, neighbours
# have similar ones, and can share one.
OTHERS = {Kind.Q2_K: 0.05, Kind.Q3_K: 0.5, Kind.IQ4_NL: 0.15, Kind.IQ4_XS: 0.3, Kind.Q6_K: 0.1, Kind.MXFP4: 0.3}


@pytest.mark.parametrize("kind", some([*KEPT, *OTHERS], 4), ids=lambda kind: kind.name)
def test_each_kind_of_weights_keeps_its_values_or_nearly_so(kind: Kind, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.gguf", CASES["qwen3"], (kind,))
    expected = np.array(model.network(mx.array([TOKENS]))[0])
    exact, of_file = imported_logits(model, tmp_path / "exact", exact=True)
    usual, _ = imported_logits(model, tmp_path / "usual")
    of_exact, of_usual = (np.sqrt(np.mean((found - expected) ** 2)) / expected.std() for found in (exact, usual))
    assert of_exact < OTHERS.get(kind, 2e-4)
    assert of_usual < OTHERS.get(kind, 0) + 0.02
    assert ("differ from the file's by 0 (" in of_file[0]) == (kind in KEPT)


@pytest.mark.parametrize(("bits", "expected"), [(None, {8, None}), (4, {4, None}), (6, {6, None}), (16, {None})])
def test_bits_are_chosen(bits: int | None, expected: set[int | None], tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.gguf", CASES["qwen3moe"], (Kind.F16, Kind.Q8_0))
    imported_logits(model, tmp_path / "imported", bits=bits)
    network, config = mlx_lm.utils.load_model(tmp_path / "imported")
    matrices = [
        module for _, module in network.named_modules() if hasattr(module, "to_quantized") or "scales" in module
    ]
    assert {getattr(module, "bits", None) for module in matrices} == expected
    assert "scales" not in network.model.layers[0].mlp.gate
    assert network.model.norm.weight.dtype == mx.bfloat16
    assert ("quantization" in config) == (bits != 16)


def test_all_parts_of_a_split_model_are_read(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "whole.gguf", CASES["qwen2"], (Kind.Q4_K,))
    tensors = gguf.GGUFReader(whole.file).tensors
    writer = gguf.GGUFWriter(tmp_path / "part.gguf", "qwen2", split_max_tensors=len(tensors) // 3 + 1)
    for field in gguf.GGUFReader(whole.file).fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind, *inner = field.types
            writer.add_key_value(field.name, field.contents(), kind, inner[0] if inner else None)
    for tensor in tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(tmp_path.glob("part-*-of-00003.gguf"))
    assert len(parts) == 3
    folders = []
    for number, files in enumerate(([whole.file], parts)):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        job = ImportJob(files=[str(file) for file in files], folder=str(folders[-1]))
        assert run_job(job, lambda report: None).is_whole
    one, other = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert one == other
    failed = run_job(ImportJob(files=[str(parts[0])], folder=str(tmp_path)), lambda report: None).failed
    assert failed == "2 of its 3 parts are not here"
