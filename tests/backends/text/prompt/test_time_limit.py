import asyncio
import random
import sys
import time
from collections.abc import Iterator

import pytest

from orchard.backends.text.prompt import time_limit
from orchard.backends.text.prompt.time_limit import run_with_time_limit
from orchard.device.lane import Lane


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("test")
    yield lane
    lane.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The exception comes again and again at once, and threads change often."""
    monkeypatch.setattr(time_limit, "_RETRY_SECONDS", 0.0002)
    monkeypatch.setattr(sys, "unraisablehook", id)  # Python would warn of an exception that it drops
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def catches(times: int) -> None:
    """Work without end that catches the exception so many times."""
    for _ in range(times):
        try:
            while True:
                pass
        except BaseException:  # noqa: S110
            pass
    while True:
        pass


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("times", [0, 1, 2, 10, 100])
def test_work_without_end_is_ended_however_often_it_catches_the_exception(times: int) -> None:
    with pytest.raises(TimeoutError):
        run_with_time_limit(0.001, lambda: catches(times))


class _Freed:
    def __del__(self) -> None:
        while True:
            pass


@pytest.mark.usefixtures("impatient")
def test_work_is_ended_although_python_drops_the_exception() -> None:
    """As it does in every finaliser."""

    def work() -> None:
        _Freed()
        catches(0)

    with pytest.raises(TimeoutError):
        run_with_time_limit(0.001, work)


@pytest.mark.usefixtures("impatient")
def test_work_that_ends_late_is_late_although_it_caught_the_exception() -> None:
    def work() -> str:
        try:
            while True:
                pass
        except BaseException:
            return "part of a prompt"

    with pytest.raises(TimeoutError):
        run_with_time_limit(0.001, work)


@pytest.mark.usefixtures("impatient")
def test_the_exception_reaches_nothing_but_the_work() -> None:
    """Whether it comes while the work begins, runs, ends or is over."""
    chance = random.Random(1)
    outcomes: set[bool] = set()

    def work(until: float) -> bool:
        while time.perf_counter() < until:
            pass
        return True

    for _ in range(500):
        until = time.perf_counter() + chance.random() * 0.004
        try:
            outcomes.add(run_with_time_limit(chance.random() * 0.0005, lambda until=until: work(until)))  # type: ignore[misc]
        except TimeoutError:
            outcomes.add(False)
        for _ in range(100):  # where a late exception would come
            time.perf_counter()
    assert outcomes == {True, False}


@pytest.mark.usefixtures("impatient")
async def test_a_lane_goes_on_after_work_that_was_ended(lane: Lane) -> None:
    for number in range(50):
        late = lane.do(run_with_time_limit, 0.0001, lambda: catches(3))
        outcomes = await asyncio.gather(late, lane.do(int, number), return_exceptions=True)
        assert (type(outcomes[0]), outcomes[1]) == (TimeoutError, number)


def test_work_in_time_gives_its_result_and_its_error() -> None:
    assert run_with_time_limit(60, lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        run_with_time_limit(60, lambda: 1 // 0)
