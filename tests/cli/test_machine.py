"""What a machine has room for."""

import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.cli import machine
from orchard.core.tasks.images import ImageOptions
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.entry import ModelEntry

GB, GIB = 10**9, 2**30
Usage = namedtuple("Usage", "total used free")


def entry(name: str, size: int, **fields: Any) -> ModelEntry:
    return ModelEntry(name, f"/models/{name}", 4096, size_bytes=size, **fields)


@pytest.mark.parametrize(("free", "status"), [(10 * GB, "ok"), (10 * GB - 1, "warning")])
def test_the_disk(free: int, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def usage(folder: str) -> Usage:
        asked.append(folder)
        return Usage(100 * GB, 0, free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    finding = machine.check_disk(str(tmp_path / "not" / "yet"))
    assert (finding.status, asked) == (status, [str(tmp_path)])
    assert finding.seen.endswith(f" of 100.0 GB are free in {tmp_path}")
    assert ("orchard rm" in finding.advice) is (status == "warning")


def test_a_relative_folder_that_is_not_there() -> None:
    assert machine.check_disk("none/such").seen.endswith(" in .")


def test_the_memory() -> None:
    probed = {"usable_bytes": 20 * GB, "memory_bytes": 32 * GB, "available_bytes": 5 * GB, "usable_by": "device"}
    assert machine.models_budget(probed, None) == 20 * GB
    assert machine.models_budget(probed, 3 * GB) == 3 * GB
    seen = "all models may take 20.0 GB of 32.0 GB (device); 5.0 GB are free now, and programs use 27.0 GB"
    assert machine.check_memory(probed, None) == machine.Finding("ok", "memory", seen)
    seen = "memory_limit lets all models take 20.0 GB of 32.0 GB; 5.0 GB are free now, and programs use 27.0 GB"
    assert machine.check_memory(probed, 20 * GB) == machine.Finding("ok", "memory", seen)
    finding = machine.check_memory(probed, 21 * GB)
    assert (finding.status, "at most 20.0 GB" in finding.advice) == ("warning", True)


@pytest.mark.parametrize(
    ("total", "wired", "most"),
    [(16 * GIB, 10 * GIB, 12 * 1024), (32 * GIB, 21 * GIB, 28 * 1024), (128 * GIB, 96 * GIB, 112 * 1024)],
)
def test_the_command_that_raises_the_wired_limit(total: int, wired: int, most: int) -> None:
    finding = machine.check_wired_limit({"wired_bytes": wired, "memory_bytes": total})
    assert f"sudo sysctl iogpu.wired_limit_mb={most} " in finding.advice
    assert finding.status == "ok"


@given(st.integers(8, 1024), st.floats(0.5, 1))
def test_the_system_keeps_its_share(gibibytes: int, share: float) -> None:
    total = gibibytes * GIB
    wired = int(total * share)
    command = machine.check_wired_limit({"wired_bytes": wired, "memory_bytes": total}).advice
    if command:
        raised = int(command.partition("wired_limit_mb=")[2].split()[0]) * 2**20
        assert wired - 2**20 < raised <= total - max(4 * GIB, total // 8)
    else:
        assert wired >= total - max(4 * GIB, total // 8)


def test_models_that_fit_and_models_that_do_not() -> None:
    models = [entry("small", 1 * GB), entry("tight", 9 * GB), entry("big", 11 * GB), entry("middle", 8 * GB)]
    tight, big, fitting = machine.check_room(models, 10 * GB)
    assert tight.seen == "the weights of tight take 9.0 GB and leave 1.0 GB for the KV caches of all requests"
    assert "kv_bits" in tight.advice
    assert big.seen == "the weights of big take 11.0 GB; all models may take 10.0 GB"
    assert "4bit" in big.advice
    seen = "memory has room for 2 of 4, one at a time; the largest of them is middle, 8.0 GB"
    assert fitting == machine.Finding("ok", "models", seen)
    assert {tight.status, big.status} == {"warning"}


def test_a_model_that_is_quantised_when_it_is_loaded() -> None:
    pictures = entry("pictures", 16 * GB, kind="image", options=ImageOptions(quantize=4))
    (finding,) = machine.check_room([pictures], 10 * GB)
    assert finding.status == "ok"


def test_a_rank_on_a_device_with_memory_of_its_own_needs_room_for_its_part() -> None:
    split = [entry("split", 16 * GB, options=TextOptions(ranks=2, rank_share=0.5))]
    assert [next(machine.check_room(split, 10 * GB, on_device=own)).status for own in (True, False)] == [
        "ok",
        "warning",
    ]


def test_no_models() -> None:
    assert list(machine.check_room([], GB)) == []
