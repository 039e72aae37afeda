"""Decides which changes of its memory a worker reports to the gateway."""

from msgspec.structs import astuple, replace

from orchard import wire
from orchard.backends.service import MemoryUse
from orchard.core.device_memory import DeviceMemory

_NOTICEABLE_BYTES = 32 * 2**20


class MemoryChanges:
    """Compares the current use of memory with the last report."""

    def __init__(self) -> None:
        self._last = wire.MemoryReport()

    def report(self, device: DeviceMemory, use: MemoryUse) -> wire.MemoryReport | None:
        """Return the report to send, None if hardly anything has changed."""
        # What MLX holds for other ranks is not taken by other programs.
        device = replace(device, active_bytes=device.active_bytes + sum(one.shared_bytes for one in use.ranks))
        report = wire.MemoryReport(device, *astuple(use))
        if _exact(report) == _exact(self._last) and not any(map(_differs, _sizes(report), _sizes(self._last))):
            return None
        self._last = report
        return report


def _exact(report: wire.MemoryReport) -> list[float]:
    """Return the numbers of which each change is reported: a request gets no more than it is known to wait for."""
    return [report.wanted_bytes, *(one.loaded for one in report.ranks)]


def _sizes(report: wire.MemoryReport) -> list[int]:
    device, *others, ranks = astuple(report)
    return [*astuple(device), *others, *(size for one in ranks for size in (one.mlx_bytes, one.free_bytes))]


def _differs(now: int, before: int) -> bool:
    return bool(now) != bool(before) or abs(now - before) >= _NOTICEABLE_BYTES
