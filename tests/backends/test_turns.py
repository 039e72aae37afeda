"""What services share that do one piece of work after the other."""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator

import mlx.core as mx
import pytest

from orchard.backends.service import Emit, Heartbeat, LoadResult, Progress
from orchard.backends.turns import TurnService, load_in_thread
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Started
from orchard.core.request import Request
from orchard.core.tasks.speak import Speak
from orchard.device.memory import recommended_bytes
from orchard.device.mlx_thread import MlxThread


class Weights:
    """Something to be loaded, which can be watched."""


@pytest.fixture
async def thread() -> AsyncIterator[MlxThread]:
    thread = MlxThread()
    yield thread
    await thread.close()


async def test_a_load_tells_its_progress_and_each_part_is_a_sign_of_life(thread: MlxThread) -> None:
    told: list[tuple[float, int]] = []
    busy: list[float | None] = []

    def load(progress: Progress) -> int:
        busy.append(thread._busy_since)
        progress(0.5)
        busy.append(thread._busy_since)
        return threading.get_ident()

    ident = await load_in_thread(thread, load, lambda fraction: told.append((fraction, threading.get_ident())))
    await asyncio.sleep(0)
    assert told == [(0.5, threading.get_ident())]
    assert ident != threading.get_ident()
    assert busy[0] != busy[1]


async def test_a_load_that_fails_says_why_and_keeps_nothing(thread: MlxThread) -> None:
    loaded: list[weakref.ref[Weights]] = []

    def load(progress: Progress) -> None:
        weights = Weights()
        loaded.append(weakref.ref(weights))
        raise ValueError("no such layer")

    with pytest.raises(OrchardError) as failed:
        await load_in_thread(thread, load, lambda fraction: None)
    assert failed.value.kind == "model_failed"
    assert str(failed.value) == "the model can't be run: ValueError: no such layer"
    assert loaded[0]() is None


async def test_what_a_load_refuses_is_told_as_it_is(thread: MlxThread) -> None:
    def load(progress: Progress) -> None:
        raise OrchardError("invalid_request", "not of this kind")

    with pytest.raises(OrchardError, match=r"^not of this kind$"):
        await load_in_thread(thread, load, lambda fraction: None)


def test_a_load_may_outlive_its_loop() -> None:
    """A worker that ends does not wait for it."""
    begun, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def load(progress: Progress) -> None:
        begun.set()
        go_on.wait()
        progress(0.5)
        ended.append("in good order")

    async def leave() -> MlxThread:
        thread = MlxThread()
        loading = asyncio.create_task(load_in_thread(thread, load, lambda fraction: None))
        await asyncio.to_thread(begun.wait)
        loading.cancel()
        return thread

    thread = asyncio.run(leave())
    go_on.set()
    asyncio.run(thread.close())
    assert ended == ["in good order"]


class Turn:
    """A request."""

    def __init__(self, name: str = "a") -> None:
        self.request = Request(name, "model", Speak("Hello."))
        self.begun = self.paused = False


class Counter(TurnService[Turn]):
    """Counts how often it has looked for work."""

    def __init__(self, memory_limit: int | None = None) -> None:
        super().__init__(memory_limit)
        self.told: list[tuple[list[tuple[str, list[Event]]], int, int]] = []
        self._emit = lambda *told: self.told.append(told)
        self.runs = 0

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        return await self._load_model(lambda progress: LoadResult(0), progress)

    async def _run(self) -> None:
        self.runs += 1
        await asyncio.sleep(0)

    def submit(self, request: Request) -> None:
        self._add(Turn(request.id))

    def cancel(self, request_id: str) -> None:
        self._forget(request_id)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat()

    async def close(self, save_seconds: float) -> None:
        await self._free()


async def test_a_resumed_request_is_worked_on_and_only_once_at_a_time() -> None:
    service = Counter()
    turn = Turn()
    service._add(turn)
    service.pause("a")
    service.pause("unknown")
    assert turn.paused
    assert not service._queue
    service.resume("unknown")
    assert service._work is None
    service.resume("a")
    service.resume("a")
    assert not turn.paused
    assert list(service._queue) == [turn]
    assert service._work
    await service._work
    assert service.runs == 1
    service.resume("a")
    await service._work
    assert service.runs == 2
    await service.close(0)


async def test_what_is_told_besides_events() -> None:
    service = Counter()
    service._live = {name: Turn(name) for name in "abc"}
    service._live["a"].begun = True
    service._tell(("a", [Started(1)]), ("b", []))
    assert service.told == [([("a", [Started(1)])], 1, 2)]
    await service.close(0)


@pytest.mark.parametrize("limit", [None, 2**34])
async def test_memory_is_limited_from_the_load_on(limit: int | None) -> None:
    service = Counter(limit)
    await service.start(service._emit, lambda fraction: None)
    assert mx.set_memory_limit(2**35) == (limit or recommended_bytes())
    service.limit_memory(2**33, 2**34)
    service.limit_memory(2**32, 2**34)
    assert mx.set_memory_limit(2**35) == 2**32
    await service.close(0)


@pytest.mark.parametrize(("limit", "first"), [(None, recommended_bytes()), (2**34, 2**34)])
async def test_wired_memory_is_limited_to_the_models_share(wired: list[int], limit: int | None, first: int) -> None:
    service = Counter(limit)
    await service.start(service._emit, lambda fraction: None)
    service.limit_memory(2**33, 2**33)
    await service.close(0)
    assert wired == [first, 2**33]
