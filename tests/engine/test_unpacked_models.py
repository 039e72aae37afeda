"""Models whose products are numpy's (`backends/kernels/cpu.py`): their rows are served as those of all others."""

from pathlib import Path

import pytest

from orchard.backends.kernels import cpu
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from tests.support.engine_driver import Driver, greedy, prompt, store_calibration
from tests.support.models import make_architecture

JOBS = [greedy(f"{place}", prompt(place, 9 + 7 * place), 12) for place in range(5)]


@pytest.fixture(params=[pytest.param("qwen3", marks=pytest.mark.deep), "lfm2", "qwen3_moe"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_architecture(tmp_path, request.param)
    return tmp_path


def calibrated(folder: Path) -> TextModel:
    model = load_text_model(str(folder))
    store_calibration(model, TextOptions())
    return model


def unpack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    monkeypatch.setattr(cpu, "_LEAST_WEIGHTS", 1)


def test_they_write_the_same_alone_and_together_as_with_mlxs_products(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(monkeypatch)
    unpacked = Driver(lambda: load_text_model(str(folder)))
    kinds = {type(module) for module in unpacked.model.network.modules()}
    assert {cpu._NumpyLinear, cpu._NumpyEmbedding} <= kinds
    together = {name: result.only for name, result in unpacked.run(JOBS).items()}
    assert together == {job.id: unpacked.alone(job).only for job in JOBS}
    unpacked.close()
    monkeypatch.undo()
    usual = Driver(lambda: calibrated(folder))
    assert together == {name: result.only for name, result in usual.run(JOBS).items()}
    usual.close()


def test_what_they_cache_is_not_taken_for_another_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = load_text_model(str(folder)).fingerprint
    unpack(monkeypatch)
    assert load_text_model(str(folder)).fingerprint != usual
