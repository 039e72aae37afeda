"""How the budget follows what other programs leave, with simulated memory and time."""

import logging
import random

import pytest

from orchard import system_memory
from orchard.core.device_memory import DeviceMemory
from orchard.gateway.pool.budget import MemoryBudget
from orchard.system_memory import SystemMemory

GIB = 2**30
TOTAL, LIMIT, RESERVE = 100 * GIB, 75 * GIB, 2 * GIB
SHARED = DeviceMemory()


class Machine:
    """Memory that other programs and models take, and what a budget says of it, second by second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory_limit: int | None = None, cgroup: str = "") -> None:
        self.others = 0
        self.held = 0
        self.now = 0.0
        self.cgroup = cgroup
        self.elastic = False
        self.device = SHARED
        self.budget = MemoryBudget(memory_limit)
        self.limit = memory_limit or LIMIT
        monkeypatch.setattr(system_memory, "read_system_memory", self._read)

    def _read(self) -> SystemMemory:
        return SystemMemory(TOTAL, max(0, TOTAL - self.others - self.held), self.cgroup, self.elastic)

    def look(self, seconds: int = 1, reported: int | None = None) -> list[int]:
        """Look each second; return the budgets in GiB, rounded down."""
        seen = []
        for _ in range(seconds):
            self.now += 1
            held = self.held if reported is None else reported
            before = self.budget.bytes
            assert self.budget.look(self.limit, held, self.device, self.now) is (self.budget.bytes != before)
            assert self.budget.bytes is not None
            seen.append(self.budget.bytes // GIB)
        return seen


def test_what_models_hold_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert machine.look() == [75]
    machine.held = 70 * GIB
    assert machine.look(9) == [75] * 9


def test_it_shrinks_at_once_and_grows_slowly(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(monkeypatch)
    machine.look()
    machine.others = 58 * GIB
    with caplog.at_level(logging.INFO):
        assert machine.look(3) == [75, 40, 40]
    (line,) = caplog.messages
    expected = f"all models may take {40 * GIB:,} bytes of memory now instead of {75 * GIB:,}: other programs use"
    assert line == f"{expected} {58 * GIB:,} of {TOTAL:,} bytes (device)"
    machine.others = 0
    grown = machine.look(60)
    assert (grown[4], grown[9]) == (40, 57)
    assert grown == sorted(grown)
    assert grown[-1] == 75


def test_a_program_that_takes_and_frees_memory_all_the_time_does_not_shake_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.look()
    chance = random.Random(1)
    seen = set()
    for _ in range(100):
        machine.others = 58 * GIB
        seen |= set(machine.look(2)[1:])
        machine.others = chance.randrange(58) * GIB
        seen |= set(machine.look(chance.choice((1, 2))))
    assert seen == {40}


def test_small_changes_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.others = 58 * GIB
    machine.look()
    chance = random.Random(2)
    for _ in range(100):
        machine.others = 58 * GIB + chance.randrange(-(GIB - 1), GIB - 1)
        assert machine.look() == [40]


def test_a_report_that_is_late_is_no_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.others = 10 * GIB
    machine.look()
    for held in range(0, 60 * GIB, 8 * GIB):
        before, machine.held = machine.held, held
        assert machine.look(reported=before) == [75]
        assert machine.look() == [75]


def test_a_device_with_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.others = TOTAL  # of the machine, which does not matter
    machine.held = 10 * GIB
    machine.device = DeviceMemory(20 * GIB, 80 * GIB)
    assert machine.look() == [28]
    status = machine.budget.status
    assert (status.total_bytes, status.available_bytes, status.others_bytes) == (80 * GIB, 20 * GIB, 50 * GIB)
    assert not machine.budget.critical
    machine.device = DeviceMemory(2**29 - 1, 80 * GIB)
    machine.look()
    assert machine.budget.critical


@pytest.mark.parametrize(
    ("memory_limit", "cgroup", "others", "reason"),
    [
        (None, "", 0, "device"),
        (None, "/a", 0, "cgroup /a"),
        (8 * GIB, "/a", 0, "memory_limit"),
        (80 * GIB, "/a", 60 * GIB, f"other programs use {60 * GIB:,} of {TOTAL:,} bytes (cgroup /a)"),
    ],
)
def test_why_it_is_not_more(
    monkeypatch: pytest.MonkeyPatch, memory_limit: int | None, cgroup: str, others: int, reason: str
) -> None:
    machine = Machine(monkeypatch, memory_limit, cgroup)
    assert machine.budget.status.reason is None
    machine.others = others
    machine.look()
    assert machine.budget.status.reason == reason
    assert machine.budget.status.limit_bytes == (memory_limit or LIMIT)


def test_without_models_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.others = 58 * GIB
    machine.look()
    machine.others = 0
    machine.budget.forget()
    assert machine.look() == [75]


def test_without_a_process_the_limit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert not machine.budget.look(None, 0, SHARED, 1.0)
    status = machine.budget.status
    assert (status.total_bytes, status.limit_bytes, status.budget_bytes, status.reason) == (TOTAL, None, None, None)
