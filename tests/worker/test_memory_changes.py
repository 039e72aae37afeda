"""Which changes of memory are reported."""

from orchard import wire
from orchard.backends.service import MemoryUse
from orchard.core.device_memory import DeviceMemory
from orchard.worker.memory_changes import MemoryChanges

MIB = 2**20


def test_what_has_hardly_changed_is_not_reported_again() -> None:
    changes = MemoryChanges()
    device, use = DeviceMemory(100 * MIB, 200 * MIB, 7 * MIB, 1, 2), MemoryUse(5, 0, 3)
    assert changes.report(DeviceMemory(), MemoryUse()) is None
    assert changes.report(device, use) == wire.MemoryReport(device, 5, 0, 3, 0)
    assert changes.report(device, use) is None
    # Small steps add up.
    assert changes.report(DeviceMemory(69 * MIB, 200 * MIB, 7 * MIB, 1, 2), use) is None
    less = DeviceMemory(68 * MIB, 200 * MIB, 7 * MIB, 1, 2)
    assert changes.report(less, use) == wire.MemoryReport(less, 5, 0, 3)
    # What a request waits for is always news.
    assert changes.report(less, MemoryUse(5, 0, 3, 1)) == wire.MemoryReport(less, 5, 0, 3, 1)
    assert changes.report(less, MemoryUse(5, 0, 3, 2)) == wire.MemoryReport(less, 5, 0, 3, 2)
    assert changes.report(less, MemoryUse(5, 0, 4, 2)) is None
    assert changes.report(less, MemoryUse(5, 0, 3, 0)) == wire.MemoryReport(less, 5, 0, 3)
