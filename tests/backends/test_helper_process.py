"""Work in a process of its own is ended, whatever it does, and the next work gets another process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from orchard.backends.helper_process import (
    Answer,
    HelperLimits,
    HelperProcess,
    TooLargeError,
    TooSlowError,
)
from orchard.core.errors import OrchardError
from orchard.device.lane import Lane

LIMITS = HelperLimits(cpu_seconds=30.0, seconds=60.0, memory_bytes=2**30)


def make_answer(given: bytes) -> Answer:
    """In the process: do what the question says."""

    def answer(question: bytes) -> Iterator[bytes]:
        yield given + question
        yield from _WORK.get(question, lambda: ())()

    return answer


def _refuse() -> Iterator[bytes]:
    raise OrchardError("invalid_request", "no", param="field")


def _complain() -> Iterator[bytes]:
    raise ValueError("not so")


def _fail() -> Iterator[bytes]:
    raise KeyError("k")


def _burn() -> Iterator[bytes]:
    while True:
        with suppress(BaseException):  # nothing in the process can catch its end
            sum(range(10**6))


def _wait() -> Iterator[bytes]:
    threading.Event().wait()
    return iter(())


def _take_all() -> Iterator[bytes]:
    yield bytes(8 * LIMITS.memory_bytes)


def _crash() -> Iterator[bytes]:
    os.abort()


def _count() -> Iterator[bytes]:
    yield from (b"%d" % number for number in range(1000))


def _count_for_ever() -> Iterator[bytes]:
    while True:
        yield b"1"


def _grow() -> Iterator[bytes]:
    kept.append(b"x" * (600 * 2**20))
    yield b""


def _start_another() -> Iterator[bytes]:
    code = f"import time; kept = b'x' * {200 * 2**20}; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        yield b"%d" % child.pid
        _wait()


kept: list[bytes] = []
_WORK: dict[bytes, Callable[[], Iterator[bytes]]] = {
    b"refuse": _refuse,
    b"complain": _complain,
    b"fail": _fail,
    b"burn": _burn,
    b"wait": _wait,
    b"take all": _take_all,
    b"crash": _crash,
    b"count": _count,
    b"count for ever": _count_for_ever,
    b"grow": _grow,
    b"start another": _start_another,
}


@pytest.fixture
def process() -> Iterator[HelperProcess]:
    process = HelperProcess(f"{__name__}:make_answer", LIMITS, b"so ")
    yield process
    process.close()


def asked(process: HelperProcess, question: bytes) -> list[bytes]:
    return [bytes(piece) for piece in process.ask(question)]


def pid(process: HelperProcess) -> int:
    assert process._last
    return process._last.process.pid


def test_it_answers_in_pieces_and_starts_with_the_first_question(process: HelperProcess) -> None:
    assert process._last is None
    assert asked(process, b"it is") == [b"so it is"]
    first = pid(process)
    assert len(asked(process, b"count")) == 1001
    assert pid(process) == first


@pytest.mark.parametrize(
    ("question", "error", "words"),
    [(b"refuse", OrchardError, "no"), (b"complain", ValueError, "not so"), (b"fail", RuntimeError, "KeyError: 'k'")],
)
def test_errors_are_passed_on_and_the_process_stays(
    process: HelperProcess, question: bytes, error: type[Exception], words: str
) -> None:
    asked(process, b"")
    first = pid(process)
    with pytest.raises(error, match=words) as caught:
        asked(process, question)
    assert getattr(caught.value, "param", "field") == "field"
    assert asked(process, b"go on") == [b"so go on"]
    assert pid(process) == first


@pytest.mark.parametrize(
    ("question", "limits", "error"),
    [
        (b"burn", LIMITS._replace(cpu_seconds=0.2), TooSlowError),
        (b"wait", LIMITS._replace(seconds=0.2), TooSlowError),
        (b"take all", LIMITS, TooLargeError),
        (b"crash", LIMITS, TooLargeError),
    ],
)
def test_what_takes_too_much_is_ended_and_the_next_question_is_answered(
    process: HelperProcess, question: bytes, limits: HelperLimits, error: type[Exception]
) -> None:
    process.limits = limits
    with pytest.raises(error):
        asked(process, question)
    process.limits = LIMITS
    assert asked(process, b"go on") == [b"so go on"]


@pytest.mark.parametrize(
    ("limits", "error"),
    [(LIMITS._replace(seconds=0.5), TooSlowError), (LIMITS._replace(memory_bytes=2**20), TooLargeError)],
)
def test_limits_hold_while_pieces_come(process: HelperProcess, limits: HelperLimits, error: type[Exception]) -> None:
    asked(process, b"")
    process.limits = limits
    with pytest.raises(error):
        for _ in process.ask(b"count for ever"):
            pass


def test_memory_is_limited_where_address_space_is_not(process: HelperProcess) -> None:
    """As on macOS. The process has the limit with which it was started."""
    asked(process, b"")
    process.limits = LIMITS._replace(memory_bytes=2**20)
    with pytest.raises(TooLargeError):
        asked(process, b"wait")


@pytest.mark.parametrize(
    ("limits", "error"),
    [(LIMITS._replace(seconds=1.0), TooSlowError), (LIMITS._replace(memory_bytes=150 * 2**20), TooLargeError)],
)
def test_what_it_starts_counts_and_ends_with_it(
    process: HelperProcess, limits: HelperLimits, error: type[Exception]
) -> None:
    asked(process, b"")
    process.limits = limits
    found: list[bytes] = []
    with pytest.raises(error):
        found.extend(map(bytes, process.ask(b"start another")))
    for _ in range(1000):
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(int(found[1])).status() != psutil.STATUS_ZOMBIE:
                threading.Event().wait(0.01)
                continue
        return
    pytest.fail("the process that it started goes on")


async def test_work_that_nobody_waits_for_is_given_up(process: HelperProcess) -> None:
    lane, begun = Lane("test"), threading.Event()

    def work() -> None:
        for _ in process.ask(b"wait"):
            begun.set()

    caller = asyncio.create_task(lane.do(work))
    await asyncio.to_thread(begun.wait)
    waiting = psutil.Process(pid(process))
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.to_thread(lane.close)  # waits for the work
    assert not waiting.is_running()


def test_an_answer_that_is_left_early_does_not_reach_the_next_reader(process: HelperProcess) -> None:
    left = process.ask(b"count")
    next(left)
    assert asked(process, b"go on") == [b"so go on"]
    second = pid(process)
    del left
    assert asked(process, b"go on") == [b"so go on"]
    assert pid(process) == second


def test_a_process_that_died_or_keeps_much_memory_is_replaced(process: HelperProcess) -> None:
    asked(process, b"")
    os.kill(first := pid(process), signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert asked(process, b"go on") == [b"so go on"]
    asked(process, b"grow")
    grown = pid(process)
    assert asked(process, b"go on") == [b"so go on"]
    assert pid(process) not in (first, grown)


def test_a_process_ends_with_its_object() -> None:
    forgotten = HelperProcess(f"{__name__}:make_answer", LIMITS)
    asked(forgotten, b"")
    process = psutil.Process(pid(forgotten))
    del forgotten
    assert not process.is_running()


def test_any_thread_may_end_it(process: HelperProcess) -> None:
    pieces = process.ask(b"wait")
    next(pieces)
    threading.Thread(target=process.close).start()
    with pytest.raises(TooLargeError):
        next(pieces)


def test_the_process_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "orchard.backends.helper_process", f"{__name__}:make_answer"]
    limits = ["--cpu-seconds", "1", "--memory-bytes", str(2**30)]
    ended = subprocess.run([*command, *limits], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")


def test_the_process_needs_no_mlx() -> None:
    code = "import orchard.backends.helper_process, sys; sys.exit('mlx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
