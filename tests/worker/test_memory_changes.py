"""Which changes of memory are reported."""

from msgspec.structs import replace

from orchard import wire
from orchard.backends.service import MemoryUse
from orchard.core.device_memory import DeviceMemory, RankReport
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


def test_other_ranks_are_reported_while_they_load() -> None:
    """What they hold of this machine's memory is no other program's."""
    changes, device = MemoryChanges(), DeviceMemory(active_bytes=MIB)
    here, there = RankReport(1, "127.0.0.1", 0.5, 40 * MIB, 0, True), RankReport(2, "b", 0.5, 50 * MIB, 99 * MIB, False)
    report = changes.report(device, MemoryUse(ranks=(here, there)))
    assert report
    assert report.device.active_bytes == 41 * MIB
    assert report.ranks == (here, there)
    assert changes.report(device, MemoryUse(ranks=(here, replace(there, mlx_bytes=51 * MIB)))) is None
    assert changes.report(device, MemoryUse(ranks=(here, replace(there, loaded=0.6))))
    assert changes.report(device, MemoryUse(ranks=(here, replace(there, loaded=0.6, free_bytes=0))))
