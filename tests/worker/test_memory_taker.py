"""Memory is taken up to the warning level and never beyond, and given back where others take some."""

import subprocess
import sys

import pytest

from orchard.system_memory import SystemMemory
from orchard.worker import memory_taker
from orchard.worker.memory_taker import Taker

KIB = 2**10
TOTAL = 1000 * KIB


@pytest.fixture
def taker(monkeypatch: pytest.MonkeyPatch) -> Taker:
    monkeypatch.setattr(memory_taker, "_BLOCK", KIB)
    return Taker()


def memory(taker: Taker, others: int, warned_below: int = 0) -> SystemMemory:
    free = TOTAL - others - taker.size
    return SystemMemory(TOTAL, free, warning=free < warned_below)


def take_all(taker: Taker, warned_below: int = 0) -> int:
    for _ in range(2000):
        taker.step(memory(taker, 300 * KIB, warned_below))
    assert taker.is_full
    return taker.size


def test_a_tenth_stays_free(taker: Taker) -> None:
    assert take_all(taker) == 600 * KIB


def test_macos_warns_earlier(taker: Taker) -> None:
    assert take_all(taker, 250 * KIB) == 450 * KIB


def test_what_others_take_is_given_back_and_not_taken_again(taker: Taker) -> None:
    take_all(taker)
    for _ in range(2000):
        taker.step(memory(taker, 400 * KIB))
    assert taker.size == 500 * KIB
    assert take_all(taker) == 500 * KIB


def test_the_process_says_what_it_holds_and_ends_with_its_input() -> None:
    """Where nothing may be taken, as this machine is not the test's alone; and as on a Mac, where there is no /proc."""
    code = (
        "from orchard.worker import memory_taker as taker; from orchard.system_memory import SystemMemory;"
        "taker.Path = lambda file: open('/none' + file);"
        "taker.read_system_memory = lambda: SystemMemory(1000, 100); taker.main()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"0\n"
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
