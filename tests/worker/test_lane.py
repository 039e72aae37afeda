import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from orchard.worker.lane import Lane, within


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("test")
    yield lane
    lane.close()


async def test_work_takes_turns_smaller_pieces_first(lane: Lane) -> None:
    go = threading.Event()
    done: list[int] = []
    first = asyncio.create_task(lane.do(go.wait))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(lane.do(done.append, size, yields=size)) for size in (3, 1, 2)]
    await asyncio.sleep(0)
    go.set()
    assert await first
    await asyncio.gather(*rest)
    assert done == [1, 2, 3]


async def test_large_work_does_not_wait_for_all_that_comes_later(lane: Lane) -> None:
    go = threading.Event()
    done: list[str] = []
    first = asyncio.create_task(lane.do(go.wait))
    await asyncio.sleep(0)
    large = asyncio.create_task(lane.do(done.append, "large", yields=0.01))
    await asyncio.sleep(0.02)
    small = asyncio.create_task(lane.do(done.append, "small"))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(first, large, small)
    assert done == ["large", "small"]


async def test_its_silence_is_told(lane: Lane) -> None:
    begun, go = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait()

    assert lane.silent_seconds == 0
    work = asyncio.create_task(lane.do(wait))
    await asyncio.to_thread(begun.wait)
    assert lane.silent_seconds > 0
    go.set()
    await work
    assert lane.silent_seconds == 0


async def test_an_error_is_told_and_the_thread_goes_on(lane: Lane) -> None:
    with pytest.raises(ZeroDivisionError):
        await lane.do(lambda: 1 // 0)
    assert await lane.do(lambda: 1) == 1


async def test_work_that_was_given_up_is_not_begun(lane: Lane) -> None:
    go = threading.Event()
    done: list[int] = []
    first = asyncio.create_task(lane.do(go.wait))
    await asyncio.sleep(0)
    second = asyncio.create_task(lane.do(done.append, 1))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go.set()
    await first
    await lane.do(done.append, 2)
    assert done == [2]


def test_work_without_end_is_ended() -> None:
    def work() -> None:
        for _ in itertools.count():
            with suppress(Exception):  # as a template may
                time.sleep(0)

    with pytest.raises(TimeoutError):
        within(0.01, work)


def test_work_in_time_gives_its_result_and_its_error() -> None:
    assert within(60, lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)
