import os
from pathlib import Path

import mlx.core as mx
import pytest

from orchard.device import memory


def machine(monkeypatch: pytest.MonkeyPatch, memory_bytes: int, container: str | None) -> None:
    """Pretend to be on a CPU with so much memory, in a container whose limit reads so."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.cpu)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": memory_bytes}.get)

    def read(path: Path) -> str:
        assert str(path) == "/sys/fs/cgroup/memory.max"
        if container is None:
            raise FileNotFoundError(path)
        return container

    monkeypatch.setattr(Path, "read_text", read)


@pytest.mark.parametrize(
    ("container", "expected"),
    [(None, 750), ("max\n", 750), ("400\n", 300), ("4000\n", 750), ("9223372036854771712", 750)],
)
def test_what_a_machine_without_a_recommendation_has(
    monkeypatch: pytest.MonkeyPatch, container: str | None, expected: int
) -> None:
    machine(monkeypatch, 1000, container)
    assert memory.recommended() == expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"max_recommended_working_set_size": 800, "memory_size": 1000}, 800),
        ({"total_memory": 1000}, 750),
        ({"memory_size": 400}, 300),
        ({"max_recommended_working_set_size": 0, "memory_size": 400}, 300),
        ({"device_name": "?"}, 1500),
    ],
)
def test_what_a_device_recommends(monkeypatch: pytest.MonkeyPatch, info: dict[str, object], expected: int) -> None:
    machine(monkeypatch, 2000, None)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx, "device_info", lambda: info)
    assert memory.recommended() == expected


@pytest.mark.parametrize(("memory_bytes", "expected"), [(300, [300]), (2**41, [2**40])])
def test_the_wired_limit_is_the_share_within_what_metal_recommends(
    wired: list[int], memory_bytes: int, expected: list[int]
) -> None:
    memory.limit_wired(memory_bytes)
    assert wired == expected


def test_a_device_without_wired_memory_gets_no_limit(wired: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "device_info", lambda: {"memory_size": 1000})
    memory.limit_wired(300)
    assert wired == []
