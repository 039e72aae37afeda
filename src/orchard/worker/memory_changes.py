"""Decides which changes of its memory a worker reports to the gateway."""

from msgspec.structs import astuple, replace

from orchard import wire
from orchard.backends.service import MemoryUse
from orchard.core.device_memory import DeviceMemory

_WANTED = 3  # the place of `wanted_bytes` among the numbers
_NOTICEABLE_BYTES = 32 * 2**20


class MemoryChanges:
    """Compares the current use of memory with the last report."""

    def __init__(self) -> None:
        self._last = _numbers(wire.MemoryReport())
        self._last_loads: list[float] = []

    def report(self, device: DeviceMemory, use: MemoryUse) -> wire.MemoryReport | None:
        """Return the report to send, None if hardly anything has changed."""
        # What MLX holds in other processes of this machine is not taken by other programs.
        device = replace(device, active_bytes=device.active_bytes + sum(one.local_bytes for one in use.ranks))
        report = wire.MemoryReport(device, *astuple(use))
        numbers, loads = _numbers(report), [one.loaded for one in use.ranks]
        # Always report the bytes that a request waits for: it gets no more than the gateway knows of.
        is_same = report.wanted_bytes == self._last[_WANTED] and loads == self._last_loads
        if is_same and not any(map(_differs, numbers, self._last)):
            return None
        self._last, self._last_loads = numbers, loads
        return report


def _numbers(report: wire.MemoryReport) -> list[int]:
    device, *others, ranks = astuple(report)
    return [*others, *astuple(device), *(size for one in ranks for size in (one.mlx_bytes, one.free_bytes))]


def _differs(now: int, before: int) -> bool:
    return bool(now) != bool(before) or abs(now - before) >= _NOTICEABLE_BYTES
