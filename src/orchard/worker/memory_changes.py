"""Decides which changes of its memory a worker reports to the gateway."""

from msgspec.structs import astuple

from orchard import wire
from orchard.backends.service import MemoryUse
from orchard.core.device_memory import DeviceMemory

_NOTICEABLE_BYTES = 32 * 2**20


class MemoryChanges:
    """Compares the current use of memory with the last report."""

    def __init__(self) -> None:
        self._last = _numbers(wire.MemoryReport())

    def report(self, device: DeviceMemory, use: MemoryUse) -> wire.MemoryReport | None:
        """Return the report to send, None if hardly anything has changed."""
        report = wire.MemoryReport(device, *astuple(use))
        numbers = _numbers(report)
        # Always report the bytes that a request waits for: it gets no more than the gateway knows of.
        if numbers[-1] == self._last[-1] and not any(map(_differs, numbers, self._last)):
            return None
        self._last = numbers
        return report


def _numbers(report: wire.MemoryReport) -> list[int]:
    device, *others = astuple(report)
    return [*astuple(device), *others]


def _differs(now: int, before: int) -> bool:
    return bool(now) != bool(before) or abs(now - before) >= _NOTICEABLE_BYTES
