import os
from pathlib import Path

import mlx.core as mx
import pytest

from orchard.device.kernel_folder import keep_kernels

NAME = "MLX_PTX_CACHE_DIR"


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setattr(mx, "device_info", lambda: {"device_name": "NVIDIA H200 / 141GB"})
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(NAME, "")
    monkeypatch.delenv(NAME)


def test_kernels_are_kept_apart_by_version_and_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("orchard.device.kernel_folder.version", lambda name: f"9.9 of {name}")
    keep_kernels()
    assert os.environ[NAME] == str(tmp_path / "kernels" / "mlx-9.9 of mlx-NVIDIA-H200-141GB")


def test_a_folder_that_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "/mine")
    keep_kernels()
    assert os.environ[NAME] == "/mine"


def test_without_cuda_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    keep_kernels()
    assert NAME not in os.environ
