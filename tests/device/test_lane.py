import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from orchard.device.lane import CallerCancelled, Lane, give_way, run_beside


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
    rest = [asyncio.create_task(lane.do(done.append, size, yield_seconds=size)) for size in (3, 1, 2)]
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
    large = asyncio.create_task(lane.do(done.append, "large", yield_seconds=0.01))
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


class Large:
    """Work that gives way as often as the test says, and notes what happens in `done`."""

    def __init__(self, done: list[str], name: str = "large") -> None:
        self.begun, self._done, self._name = threading.Event(), done, name
        self._steps = threading.Semaphore(0)

    def __call__(self) -> None:
        self._done.append(self._name)
        self.begun.set()
        try:
            while True:
                assert self._steps.acquire(timeout=60)
                give_way()
        except CallerCancelled:
            self._done.append("given up")
            raise

    async def begin(self, lane: Lane) -> "asyncio.Task[None]":
        task = asyncio.create_task(lane.do(self, yield_seconds=8))
        await asyncio.to_thread(self.begun.wait)
        return task

    def step(self) -> None:
        self._steps.release()


async def end(large: Large, task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
    large.step()


async def test_smaller_work_overtakes_larger_work_that_has_begun(lane: Lane) -> None:
    done: list[str] = []
    large = Large(done)
    task = await large.begin(lane)
    small = [
        asyncio.create_task(lane.do(done.append, name, yield_seconds=yields)) for name, yields in (("b", 1), ("a", 0))
    ]
    await asyncio.sleep(0)
    assert lane.silent_seconds > 0
    large.step()
    await asyncio.gather(*small)
    assert done == ["large", "a", "b"]
    await end(large, task)


async def test_work_of_the_same_size_does_not_overtake(lane: Lane) -> None:
    done: list[str] = []
    large = Large(done)
    task = await large.begin(lane)
    same = asyncio.create_task(lane.do(done.append, "same", yield_seconds=7))
    small = asyncio.create_task(lane.do(done.append, "small"))
    await asyncio.sleep(0)
    large.step()
    await small
    assert done == ["large", "small"]
    await end(large, task)
    await same
    assert done == ["large", "small", "given up", "same"]


async def test_what_overtakes_may_be_overtaken(lane: Lane) -> None:
    done: list[str] = []
    large, middle = Large(done), Large(done, "middle")
    first = await large.begin(lane)
    second = asyncio.create_task(lane.do(middle, yield_seconds=2))
    await asyncio.sleep(0)
    large.step()
    await asyncio.to_thread(middle.begun.wait)
    small = asyncio.create_task(lane.do(done.append, "small"))
    await asyncio.sleep(0)
    middle.step()
    await small
    assert done == ["large", "middle", "small"]
    await end(middle, second)
    await end(large, first)


async def test_work_that_is_overtaken_does_not_get_the_error(lane: Lane) -> None:
    large = Large([])
    task = await large.begin(lane)
    small = asyncio.create_task(lane.do(lambda: 1 // 0))
    await asyncio.sleep(0)
    large.step()
    with pytest.raises(ZeroDivisionError):
        await small
    assert not task.done()
    await end(large, task)


def test_without_a_lane_there_is_nobody_to_give_way_to() -> None:
    give_way()


async def test_smaller_work_goes_on_beside_native_work(lane: Lane) -> None:
    done: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def native() -> str:
        begun.set()
        assert go.wait(60)
        return "large"

    large = asyncio.create_task(lane.do(run_beside, native, yield_seconds=8))
    assert await asyncio.to_thread(begun.wait, 60)
    for yields in (0, 1):
        await lane.do(done.append, "small", yield_seconds=yields)
    assert lane.silent_seconds > 0
    same = asyncio.create_task(lane.do(done.append, "same", yield_seconds=8))
    go.set()
    assert await large == "large"
    await same
    assert done == ["small", "small", "same"]


async def test_the_next_large_work_waits_until_native_work_that_was_given_up_has_ended(lane: Lane) -> None:
    done: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def native() -> None:
        begun.set()
        assert go.wait(60)
        done.append("native")

    first = asyncio.create_task(lane.do(run_beside, native, yield_seconds=8))
    assert await asyncio.to_thread(begun.wait, 60)
    second = asyncio.create_task(lane.do(done.append, "second", yield_seconds=8))
    first.cancel()
    await asyncio.wait([first])
    await lane.do(done.append, "small")
    go.set()
    await second
    assert done == ["small", "native", "second"]


async def test_an_error_of_native_work_is_its_callers(lane: Lane) -> None:
    with pytest.raises(ZeroDivisionError):
        await lane.do(run_beside, lambda: 1 // 0, yield_seconds=8)
    assert lane.silent_seconds == 0
    assert run_beside(lambda: 1) == 1


async def test_native_work_that_gets_no_thread_leaves_no_silence(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            await lane.do(run_beside, str, yield_seconds=8)
    before = time.monotonic()
    silent = await lane.do(lambda: lane.silent_seconds)
    assert silent <= time.monotonic() - before
