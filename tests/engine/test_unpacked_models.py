"""Models whose products are numpy's (`backends/kernels/cpu.py`): their rows are served as those of all others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard.backends.kernels import cpu
from orchard.backends.text.model import load_text_model
from tests.support.engine_driver import Driver, greedy, prompt
from tests.support.models import make_architecture

JOBS = [greedy(f"{place}", prompt(place, 9 + 7 * place), 12) for place in range(5)]


@pytest.fixture(params=[pytest.param("qwen3", marks=pytest.mark.deep), "lfm2", "qwen3_moe"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_architecture(tmp_path, request.param)
    return tmp_path


@pytest.fixture
def unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    monkeypatch.setattr(cpu, "_LEAST_WEIGHTS", 1)
    driver = Driver(lambda: load_text_model(str(folder)))
    yield driver
    driver.close()


def test_they_write_the_same_alone_and_together_as_with_mlxs_products(
    folder: Path, unpacked: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {type(module) for module in unpacked.model.network.modules()}
    assert {cpu._NumpyLinear, cpu._NumpyEmbedding} <= kinds
    together = {name: result.only for name, result in unpacked.run(JOBS).items()}
    assert together == {job.id: unpacked.alone(job).only for job in JOBS}
    monkeypatch.undo()
    usual = Driver(lambda: load_text_model(str(folder)))
    assert together == {name: result.only for name, result in usual.run(JOBS).items()}
    usual.close()


def test_what_they_cache_is_not_taken_for_another_models(
    folder: Path, unpacked: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert load_text_model(str(folder)).fingerprint != unpacked.model.fingerprint
