"""The service of models of turn detection: most tests give it a model that waits for the test."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from orchard.backends.audio.turn_detection import service
from orchard.backends.audio.turn_detection.service import MAX_REQUESTS, TurnDetectionService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Started, Usage
from orchard.core.request import Priority, Request, Sender
from orchard.core.tasks.judge_turn import JudgeTurn, TurnDetectionOptions, TurnJudgement
from tests.support.turn_models import make_smart_turn

OVER = TurnJudgement(0.9, True)


class StubModel:
    """A model whose every judgement waits for a permit."""

    weights_bytes = 7

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.judged: list[bytes] = []

    def judge(self, task: JudgeTurn) -> TurnJudgement:
        self.judged.append(task.sound)
        assert self.permits.acquire(timeout=60)
        if task.sound == b"broken":
            raise RuntimeError("no")
        if task.sound == b"short":
            raise OrchardError("insufficient_memory", "no memory")
        return OVER


class Running:
    """A service, and what it has told."""

    def __init__(self, path: str = "stub") -> None:
        self.service = TurnDetectionService(path, TurnDetectionOptions())
        self.events: defaultdict[str, list[Event]] = defaultdict(list)
        self.load = (0, 0)
        self._told = asyncio.Event()

    def emit(self, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        for id_, found in events:
            self.events[id_] += found
        self.load = (running, waiting)
        self._told.set()

    def submit(self, id_: str, sound: bytes = b"", priority: Priority = "normal") -> None:
        self.service.submit(Request(id_, "model", JudgeTurn(sound, 16_000), priority, sender=Sender("ann")))

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            self._told.clear()
            await asyncio.wait_for(self._told.wait(), 60)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> StubModel:
    made = StubModel()
    monkeypatch.setattr(service, "load_smart_turn", lambda folder, progress: made)
    return made


@pytest.fixture
async def running(model: StubModel) -> AsyncIterator[Running]:
    made = Running()
    assert (await made.service.start(made.emit, lambda fraction: None)).weights_bytes == 7
    yield made
    model.permits.release(1000)
    await made.service.close(0)


async def test_pauses_are_judged_in_their_fair_order(model: StubModel, running: Running) -> None:
    running.submit("a", b"a")
    running.submit("b", b"b", "background")
    running.submit("c", b"c", "interactive")
    model.permits.release(3)
    await running.until(lambda: running.events["b"])
    assert model.judged == [b"c", b"a", b"b"]
    assert running.events["a"] == [Started(0), Output.from_struct(OVER), Finished((), Usage(0, 0, units=1))]
    assert running.load == (0, 0)


async def test_a_failure_fails_its_request_alone(model: StubModel, running: Running) -> None:
    model.permits.release(3)
    for sound in (b"broken", b"short", b"good"):
        running.submit(sound.decode(), sound)
    await running.until(lambda: running.events["good"])
    assert running.events["broken"] == [Failed("internal", "judging a turn failed: RuntimeError")]
    assert running.events["short"] == [Failed("insufficient_memory", "no memory")]
    assert isinstance(running.events["good"][-1], Finished)


async def test_nothing_is_told_of_a_cancelled_request(model: StubModel, running: Running) -> None:
    running.submit("a", b"a")
    running.submit("b", b"b")
    running.service.cancel("a")
    running.service.cancel("unknown")
    model.permits.release(2)
    await running.until(lambda: running.events["b"])
    assert running.events["a"] == []
    assert running.load == (0, 0)


async def test_a_full_queue_refuses_more(model: StubModel, running: Running) -> None:
    for number in range(MAX_REQUESTS + 1):
        running.submit(str(number))
    (failed,) = running.events[str(MAX_REQUESTS)]
    assert isinstance(failed, Failed)
    assert failed.kind == "overloaded"
    assert not running.events["0"]


async def test_a_real_model_is_loaded_and_judges(tmp_path: Path) -> None:
    running = Running(str(make_smart_turn(tmp_path, bias=50)))
    loaded = await running.service.start(running.emit, lambda fraction: None)
    assert loaded.weights_bytes > 10_000
    running.submit("a", bytes(16_000))
    await running.until(lambda: running.events["a"])
    judgement = running.events["a"][1]
    assert isinstance(judgement, Output)
    assert judgement.read(TurnJudgement).is_over
    assert running.service.heartbeat().silent_seconds == 0
    await running.service.close(0)
