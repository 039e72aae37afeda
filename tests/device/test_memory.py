import threading
from collections import namedtuple

import mlx.core as mx
import psutil
import pytest

from orchard import system_memory
from orchard.core.device_memory import DeviceMemory
from orchard.device import memory
from orchard.system_memory import Cgroup

Machine = namedtuple("Machine", "total available")


def machine(monkeypatch: pytest.MonkeyPatch, memory_bytes: int, *limits: int) -> None:
    """Pretend to be on a CPU with so much memory, in cgroups with these limits."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.cpu)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Machine(memory_bytes, memory_bytes))
    monkeypatch.setattr(system_memory, "cgroups", lambda root: [Cgroup("/", limit, 0) for limit in limits])


@pytest.mark.parametrize(
    ("limits", "expected"), [((), 750), ((400,), 300), ((4000,), 750), ((2**62, 800, 400), 300), ((2**62,), 750)]
)
def test_what_a_machine_without_a_recommendation_has(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, ...], expected: int
) -> None:
    machine(monkeypatch, 1000, *limits)
    assert memory.recommended_bytes() == expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"max_recommended_working_set_size": 800, "memory_size": 1000}, 800),
        ({"total_memory": 1000}, 750),
        ({"memory_size": 400}, 300),
        ({"max_recommended_working_set_size": 0, "memory_size": 400}, 300),
        ({"device_name": "?"}, 1500),
        # Of an M2 Ultra with 192 GB: https://github.com/ml-explore/mlx/pull/1060
        (
            {
                "max_recommended_working_set_size": 188743680000,
                "max_buffer_length": 115964116992,
                "architecture": "applegpu_g14d",
            },
            188743680000,
        ),
    ],
)
def test_what_a_device_recommends(monkeypatch: pytest.MonkeyPatch, info: dict[str, object], expected: int) -> None:
    machine(monkeypatch, 2000)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx, "device_info", lambda: info)
    assert memory.recommended_bytes() == expected


@pytest.mark.parametrize(("memory_bytes", "expected"), [(300, [300]), (2**41, [2**40])])
def test_the_wired_limit_is_the_share_within_what_metal_recommends(
    wired: list[int], memory_bytes: int, expected: list[int]
) -> None:
    memory.limit_device(memory_bytes)
    assert wired == expected


def test_a_device_without_wired_memory_gets_no_limit(wired: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "device_info", lambda: {"memory_size": 1000})
    memory.limit_device(300)
    assert wired == []


@pytest.mark.parametrize("name", ["gpu", "cpu"])
def test_what_models_compute_with(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(mx, "default_device", lambda: getattr(mx, name))
    assert memory.processor() == name


def test_a_device_with_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "device_info", lambda: {"free_memory": 600, "total_memory": 1000})
    for name in ("active", "cache", "peak"):
        monkeypatch.setattr(mx, f"get_{name}_memory", lambda name=name: len(name))
    assert memory.read_device_memory(has_model=False) == DeviceMemory(600, 1000)
    assert memory.read_device_memory(has_model=True) == DeviceMemory(600, 1000, 6, 5, 4)


def test_memory_is_read_while_another_thread_computes() -> None:
    begun, done = threading.Event(), threading.Event()

    def compute() -> None:
        values = mx.ones((256, 256))
        while not done.is_set():
            mx.eval(values @ values)
            begun.set()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        assert begun.wait(60)
        seen = [memory.read_device_memory(has_model=True) for _ in range(300)]
    finally:
        done.set()
        thread.join()
    assert all(one.peak_bytes >= one.active_bytes > 0 for one in seen)
