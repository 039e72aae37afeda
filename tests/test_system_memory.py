"""What is free of a machine's memory, read from records of real machines."""

import ctypes
import sys
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from orchard import system_memory
from orchard.system_memory import Cgroup, SystemMemory, cgroups, limit_to_cgroups, read_system_memory

GIB = 2**30
Machine = namedtuple("Machine", "total available")
# Version 1 beside an empty version 2: the lines of a virtual machine, in which a limit was set.
HYBRID = "9:name=systemd:/\n5:devices:/\n4:memory:/jobs/9ee42c02\n3:cpuset:/\n0::/\n"
STAT_1 = """cache 9576448
rss 13422592
inactive_file 491520
hierarchical_memory_limit 9223372036854771712
total_cache 5574340608
total_inactive_file 69033984
total_active_file 1911500800
"""
STAT_2 = """anon 2932736
file 1157361664
inactive_anon 655360
active_anon 40960
inactive_file 1091870720
active_file 57929728
"""


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_version_1(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/memory"
    files = {"proc/self/cgroup": HYBRID, "sys/fs/cgroup/unified/cgroup.procs": ""}
    for path, limit, used in (
        ("", 2**63 - 4096, 8617508864),
        ("/jobs", 2 * GIB, GIB),
        ("/jobs/9ee42c02", GIB, 97157120),
    ):
        files |= {f"{base}{path}/memory.limit_in_bytes": f"{limit}\n", f"{base}{path}/memory.stat": STAT_1}
        files |= {f"{base}{path}/memory.usage_in_bytes": f"{used}\n"}
    own, parent, top = cgroups(tree(tmp_path, files))
    assert own == Cgroup("/jobs/9ee42c02", GIB, 97157120 - 69033984)
    assert parent == Cgroup("/jobs", 2 * GIB, GIB - 69033984)
    assert top.limit_bytes > 2**60


def test_version_2_with_a_limit_of_a_parent(tmp_path: Path) -> None:
    """As in a slice of systemd: the process's own cgroup has no limit, and the root has no such files."""
    base = "sys/fs/cgroup/user.slice"
    files = {
        "proc/self/cgroup": "0::/user.slice/orchard.service\n",
        "sys/fs/cgroup/memory.stat": STAT_2,
        f"{base}/memory.max": f"{8 * GIB}\n",
        f"{base}/memory.high": f"{4 * GIB}\n",
        f"{base}/memory.current": f"{3 * GIB}\n",
        f"{base}/memory.stat": STAT_2,
        f"{base}/orchard.service/memory.max": "max\n",
        f"{base}/orchard.service/memory.high": "max\n",
        f"{base}/orchard.service/memory.current": f"{2 * GIB}\n",
    }
    assert cgroups(tree(tmp_path, files)) == [Cgroup("/user.slice", 4 * GIB, 3 * GIB - 1091870720)]


@pytest.mark.parametrize("line", ["0::/docker/9a1f\n", "0::/\n", "0::/../other\n", ""])
def test_a_container_that_sees_its_cgroup_as_the_root(tmp_path: Path, line: str) -> None:
    files = {"sys/fs/cgroup/memory.max": f"{GIB}\n", "sys/fs/cgroup/memory.current": "4096\n"}
    assert cgroups(tree(tmp_path, files | {"proc/self/cgroup": line})) == [Cgroup("/", GIB, 4096)]


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    assert cgroups(tmp_path) == []


def test_what_is_free_within_cgroups() -> None:
    groups = [Cgroup("/a/b", 8 * GIB, 7 * GIB), Cgroup("/a", 4 * GIB, GIB), Cgroup("/", 2**62, 20 * GIB)]
    assert limit_to_cgroups(16 * GIB, 12 * GIB, groups, None) == SystemMemory(4 * GIB, GIB, "/a")
    assert limit_to_cgroups(16 * GIB, 12 * GIB, groups[2:], None) == SystemMemory(16 * GIB, 12 * GIB)
    # A cgroup above its limit, which was lowered
    assert limit_to_cgroups(16 * GIB, 12 * GIB, [Cgroup("/", GIB, 2 * GIB)], None).available_bytes == 0


@pytest.mark.parametrize(
    ("total", "available", "critical"),
    [(64 * GIB, 512 * 2**20, False), (64 * GIB, 512 * 2**20 - 1, True), (4 * GIB, 4 * GIB // 40 - 1, True)],
)
def test_when_there_is_no_room_for_another_program(total: int, available: int, critical: bool) -> None:
    assert limit_to_cgroups(total, available, [], None).critical is critical


# The levels of macOS: https://github.com/giampaolo/psutil/issues/2725
@pytest.mark.parametrize(("level", "critical"), [(1, False), (2, False), (4, True)])
def test_macos_says_itself_whether_memory_is_short(level: int, critical: bool) -> None:
    assert limit_to_cgroups(16 * GIB, 1, [], level) == SystemMemory(
        16 * GIB, 1, elastic=not critical, critical=critical, warning=level > 1
    )


def test_the_pressure_level_of_macos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the memory of a Mac, https://github.com/giampaolo/psutil/issues/1503; the level is made up."""

    class Library:
        def sysctlbyname(self, name: bytes, value: object, size: object, *_: object) -> None:
            assert name == b"kern.memorystatus_vm_pressure_level"
            assert size._obj.value == 4  # type: ignore[attr-defined]
            value._obj.value = 4  # type: ignore[attr-defined]

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Machine(8589934592, 2204819456))
    assert read_system_memory(tmp_path) == SystemMemory(8589934592, 2204819456, critical=True, warning=True)


def test_this_machine() -> None:
    found = system_memory.read_system_memory()
    assert 0 <= found.available_bytes <= found.total_bytes <= psutil.virtual_memory().total
