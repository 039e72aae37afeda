"""How much memory the machine has, and how much is free, within the cgroups of this process."""

import ctypes
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_CRITICAL_BYTES = 512 * 2**20  # a worker process takes about as much before it loads a model
# For each cgroup version: the files with limits, the file with the usage, and the line of memory.stat for file pages.
_FILES_1 = ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"
_FILES_2 = ("memory.max", "memory.high"), "memory.current", "inactive_file"
_WARNING_LEVEL, _CRITICAL_LEVEL = 2, 4  # of macOS; 1 is normal


class Cgroup(NamedTuple):
    """A cgroup with a limit. `used_bytes` doesn't include pages of files that the kernel drops first."""

    path: str
    limit_bytes: int
    used_bytes: int


class SystemMemory(NamedTuple):
    """How much memory this process could have, and how much of it is free.

    `cgroup`: the one whose limit is `total_bytes`; empty: that is the machine's memory. `elastic`: if a program needs
    more than is free, the system (macOS) makes room: it compresses or swaps what other programs don't use. `warning`:
    the system (macOS) says that memory is short. `critical`: the system has no room for another program.
    """

    total_bytes: int
    available_bytes: int
    cgroup: str = ""
    elastic: bool = False
    critical: bool = False
    warning: bool = False


def read_system_memory(root: Path = Path("/")) -> SystemMemory:
    """Return what is free now; `root` is where the folders `proc` and `sys` are."""
    machine = psutil.virtual_memory()
    level = _pressure_level() if sys.platform == "darwin" else None
    return limit_to_cgroups(machine.total, machine.available, cgroups(root), level)


def limit_to_cgroups(total: int, available: int, groups: Iterable[Cgroup], pressure_level: int | None) -> SystemMemory:
    """Return how much memory is free within cgroups. `pressure_level`: macOS's; None: another system."""
    cgroup = ""
    for group in groups:
        if group.limit_bytes < total:
            cgroup, total = group.path, group.limit_bytes
        available = min(available, max(0, group.limit_bytes - group.used_bytes))
    if pressure_level is not None:
        critical, warning = pressure_level >= _CRITICAL_LEVEL, pressure_level >= _WARNING_LEVEL
        return SystemMemory(total, available, cgroup, elastic=not critical, critical=critical, warning=warning)
    return SystemMemory(total, available, cgroup, critical=available < min(total // 40, _CRITICAL_BYTES))


def cgroups(root: Path = Path("/")) -> list[Cgroup]:
    """Return the cgroups of this process that have a limit: its own and its parents, of both versions.

    A container may see its own cgroup as the root, whatever path it has outside. So the root counts too, and paths that
    don't exist here are left out.
    """
    lines = _read_cgroup_file(root / "proc/self/cgroup").splitlines() or ["0::/"]
    found: list[Cgroup] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found += _limited_cgroups(root / "sys/fs/cgroup", path, *_FILES_2)
        elif "memory" in controllers.split(","):
            found += _limited_cgroups(root / "sys/fs/cgroup/memory", path, *_FILES_1)
    return found


def _limited_cgroups(mount: Path, path: str, limits: Iterable[str], usage: str, pages: str) -> Iterator[Cgroup]:
    """Yield those of a cgroup and its parents that have a limit."""
    own = Path(path.replace("/..", "") or "/")
    for group in (own, *own.parents):
        folder = mount / group.relative_to("/")
        known = [int(text) for name in limits if (text := _read_cgroup_file(folder / name).strip()).isdecimal()]
        used = _read_cgroup_file(folder / usage)
        if known and used:
            stat = dict(line.split(" ", 1) for line in _read_cgroup_file(folder / "memory.stat").splitlines())
            yield Cgroup(str(group), min(known), int(used) - int(stat.get(pages, 0)))


def _read_cgroup_file(file: Path) -> str:
    with suppress(OSError):
        return file.read_text()
    return ""


def _pressure_level() -> int:
    """Return macOS's level of memory pressure; 1 if it does not say."""
    level, size = ctypes.c_int(1), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    name = b"kern.memorystatus_vm_pressure_level"
    ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(level), ctypes.byref(size), None, ctypes.c_size_t(0))
    return level.value
