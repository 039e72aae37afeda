"""Imported models compute what their sources do, in all architectures and with all kinds of weights."""

from pathlib import Path

import mlx.core as mx
import mlx_lm.utils
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from orchard.gguf_import.process import import_model
from orchard.gguf_job import ImportJob
from tests.gguf_import.tiny_models import CASES, TinyModel, write_model

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


@pytest.mark.parametrize("kind", [*KEPT, *OTHERS], ids=lambda kind: kind.name)
def test_each_kind_of_weights_keeps_its_values_or_nearly_so(kind: Kind, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.gguf", CASES["qwen3"], (kind,))
    expected = np.array(model.network(mx.array([TOKENS]))[0])
    exact, of_file = imported_logits(model, tmp_path / "exact", exact=True)
    usual, _ = imported_logits(model, tmp_path / "usual")
    of_exact, of_usual = (np.sqrt(np.mean((found - expected) ** 2)) / expected.std() for found in (exact, usual))
    assert of_exact < OTHERS.get(kind, 2e-4)
    assert of_usual < OTHERS.get(kind, 0) + 0.02
    assert ("differ from the file's by 0 (" in of_file[0]) == (kind in KEPT)
