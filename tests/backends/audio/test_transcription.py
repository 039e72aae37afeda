import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.audio import whisper
from orchard.backends.audio.recognizer import Advance, Beat
from orchard.backends.audio.transcription import TranscriptionService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Progressed, Started, Usage
from orchard.core.request import Priority, Request, Sender
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, TranscribeOptions, decode_transcription
from tests.support.sounds import noise, wav
from tests.support.whisper_models import make_whisper


class Scripted:
    """Windows that end when the test lets them; the path of the recording says how many there are."""

    weights_bytes = 7

    def __init__(self) -> None:
        self.order: list[str] = []
        self.let_go = threading.Semaphore(0)
        self.closed: list[str] = []
        self.beaten = threading.Event()

    def transcribe(self, task: Transcribe, beat: Beat) -> Generator[Advance, None, None]:
        name, _, count = task.path.partition(":")
        try:
            if name == "bad":
                raise OrchardError("invalid_request", "it is broken", param="file")
            if name == "bug":
                raise ValueError("a bug")
            yield Advance([Recording(float(count))])
            for number in range(int(count)):
                while not self.let_go.acquire(timeout=0.005):
                    beat()
                    self.beaten.set()
                self.order.append(name)
                yield Advance([Segment(number, number + 1, name, tokens=(1, 2))], number + 1)
        finally:
            self.closed.append(name)


class Caller:
    """A service with a scripted model, and what it emits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.model = Scripted()
        monkeypatch.setattr(whisper, "is_whisper", lambda folder: True)
        monkeypatch.setattr(whisper, "load_whisper", lambda folder, progress: self.model)
        self.service = TranscriptionService("/m", TranscribeOptions(**options))
        self.events: dict[str, list[Event]] = {}
        self.numbers = (0, 0)
        self._changed = asyncio.Event()

    def emit(self, step: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        for request_id, events in step:
            self.events.setdefault(request_id, []).extend(events)
        self.numbers = running, waiting
        self._changed.set()

    def submit(self, path: str, priority: Priority = "normal", caller: str = "") -> str:
        self.service.submit(Request(path, "m", Transcribe(path), priority, sender=Sender(caller)))
        return path

    async def until(self, request_id: str, count: int) -> list[Event]:
        while len(self.events.get(request_id, ())) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.events[request_id]

    async def ended(self, request_id: str) -> Event:
        while not isinstance(self.events.get(request_id, [None])[-1], Finished | Failed):
            self._changed.clear()
            await self._changed.wait()
        return self.events[request_id][-1]


@pytest.fixture
async def caller(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    made_caller = Caller(monkeypatch, most_requests=3)
    assert (await made_caller.service.start(made_caller.emit, lambda fraction: None)).weights_bytes == 7
    yield made_caller
    await made_caller.service.close(0)


async def test_a_recording_brings_its_segments_and_how_much_is_done(caller: Caller) -> None:
    caller.model.let_go.release(2)
    await caller.ended(caller.submit("a:2"))
    assert caller.events["a:2"] == [
        Started(0),
        Output.from_struct(Recording(2.0)),
        Progressed(0.0, 2.0),
        Output.from_struct(Segment(0, 1, "a", tokens=(1, 2))),
        Progressed(1, 2.0),
        Output.from_struct(Segment(1, 2, "a", tokens=(1, 2))),
        Progressed(2, 2.0),
        Finished((), Usage(0, 4, units=2.0)),
    ]
    assert (caller.model.closed, caller.numbers) == (["a"], (0, 0))


async def test_recordings_take_turns_and_interactive_ones_come_first(caller: Caller) -> None:
    caller.submit("a:3")
    await caller.until("a:3", 3)
    caller.submit("b:3")
    caller.submit("c:3", "interactive")
    await asyncio.sleep(0)  # both have asked for a turn
    caller.model.let_go.release(9)
    for name in ("a:3", "b:3", "c:3"):
        await caller.ended(name)
    order = "".join(caller.model.order)
    assert sorted(order) == list("aaabbbccc")
    assert order.rindex("c") < min(order.rindex("a"), order.rindex("b"))
    assert order.index("b") < order.rindex("a"), "a and b take turns"


async def test_a_cancelled_recording_ends_within_its_window(caller: Caller) -> None:
    caller.submit("a:3")
    await caller.until("a:3", 3)
    caller.service.cancel("a:3")
    caller.service.cancel("unknown")
    assert caller.numbers == (0, 0)
    before = list(caller.events["a:3"])
    await caller.service.close(0)
    assert (caller.model.closed, caller.model.order, caller.events["a:3"]) == (["a"], [], before)


async def test_a_paused_recording_goes_on_where_it_was(caller: Caller) -> None:
    caller.submit("a:2")
    await caller.until("a:2", 3)
    caller.service.pause("a:2")
    caller.model.let_go.release(2)
    await caller.until("a:2", 5)  # the window that was under way
    caller.submit("b:0")
    await caller.ended("b:0")
    assert caller.model.order == ["a"]
    caller.service.resume("a:2")
    await caller.ended("a:2")
    assert caller.model.order == ["a", "a"]


async def test_failures_are_told_and_more_requests_than_allowed_are_refused(caller: Caller) -> None:
    assert await caller.ended(caller.submit("bad:1")) == Failed("invalid_request", "it is broken", "file")
    assert await caller.ended(caller.submit("bug:1")) == Failed("internal", "transcribing failed: ValueError")
    for name in ("a:1", "b:1", "c:1"):
        caller.submit(name)
    refused = await caller.ended(caller.submit("d:1"))
    assert isinstance(refused, Failed)
    assert (refused.kind, caller.numbers) == ("overloaded", (1, 2))
    caller.submit("e:1", caller="ben")
    caller.model.let_go.release(9)
    assert isinstance(await caller.ended("e:1"), Finished)


async def test_callers_take_turns_however_many_recordings_they_have(caller: Caller) -> None:
    caller.submit("a:3", caller="ann")
    await caller.until("a:3", 3)
    caller.submit("b:3", caller="ann")
    caller.submit("c:3", caller="ben")
    await asyncio.sleep(0)  # both have asked for a turn
    caller.model.let_go.release(9)
    for name in ("a:3", "b:3", "c:3"):
        await caller.ended(name)
    order = "".join(caller.model.order)
    assert sorted(order) == list("aaabbbccc")
    assert order.rindex("c") <= 6, "each second turn"


async def test_a_window_that_works_gives_signs_of_life_and_one_that_hangs_does_not(caller: Caller) -> None:
    caller.submit("a:1")
    await caller.until("a:1", 3)
    thread = caller.service._thread
    thread._busy_since = -1000.0  # as if nothing had been heard since then
    assert caller.service.heartbeat().silent_seconds > 1000
    caller.model.beaten.clear()
    await asyncio.to_thread(caller.model.beaten.wait)
    assert caller.service.heartbeat().silent_seconds < 60
    caller.model.let_go.release()
    await caller.ended("a:1")
    assert caller.service.heartbeat().silent_seconds == 0


async def test_a_real_model_is_loaded_and_transcribes(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(noise(1)))
    service = TranscriptionService(str(make_whisper(tmp_path / "m")), TranscribeOptions())
    assert service.prepare() > 0
    done: asyncio.Future[list[Event]] = asyncio.get_running_loop().create_future()
    got: list[Event] = []
    fractions: list[float] = []

    def emit(step: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        got.extend(event for _, events in step for event in events)
        if got and isinstance(got[-1], Finished | Failed):
            done.set_result(got)

    loaded = await service.start(emit, fractions.append)
    assert loaded.weights_bytes > 100_000
    service.submit(Request("r", "m", Transcribe(str(tmp_path / "a.wav"), temperature=0.01)))
    events = await done
    assert isinstance(events[-1], Finished)
    assert isinstance(next(decode_transcription(event) for event in events if isinstance(event, Output)), Recording)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    await service.close(0)


async def test_wired_memory_is_limited_to_the_models_share(wired: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    service = Caller(monkeypatch, memory_limit=2**34).service
    await service.start(lambda events, running, waiting: None, lambda fraction: None)
    service.limit_memory(2**33, 2**33)
    await service.close(0)
    assert wired == [2**34, 2**33]
