"""Answers that are spoken, with scripted requests in place of a pool."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.events import (
    Event,
    Failed,
    Finished,
    Output,
    Reasoning,
    Started,
    Text,
    ToolArgs,
    ToolStart,
    Usage,
)
from orchard.core.tasks.speak import MAX_INPUT_CHARS, Sound
from orchard.gateway.metrics.counters import SoundPart
from orchard.gateway.replies.event_stream import EventStream, collect_events
from orchard.gateway.voice import spoken_answer
from orchard.gateway.voice.first_sound import FirstSound
from orchard.gateway.voice.spoken_answer import SpokenAnswer

END = Finished(("stop",), Usage(3, 2))


class Speaker:
    """Stands in for `VoiceRequests`: the sound of a text is its bytes."""

    def __init__(self) -> None:
        self.spoken: list[tuple[str, str | None, str]] = []
        self.may_speak = asyncio.Event()
        self.may_speak.set()
        self.fails: OrchardError | None = None
        self.open = 0
        self.first_sounds: list[Mapping[SoundPart, float]] = []

    def first_sound(self) -> FirstSound:
        return FirstSound(self.first_sounds.append)

    async def speak(
        self, text: str, voice: str | None, speed: float, count: Callable[[Usage], None], form: str
    ) -> AsyncGenerator[bytes, None]:
        self.spoken.append((text, voice, form))
        self.open += 1
        try:
            yield text[:1].encode()
            await self.may_speak.wait()
            if self.fails:
                raise self.fails
            yield text[1:].encode()
            count(Usage(1, len(text)))
        finally:
            self.open -= 1


class Stage:
    """An answer that a test writes, and what is told of it."""

    def __init__(self, *, whole: bool = False) -> None:
        self.speaker = Speaker()
        self.answer = EventStream()
        self.kept: list[str] = []
        requests: Any = self.speaker
        self.spoken = SpokenAnswer(
            requests, self.answer, "ryan", "wav" if whole else "pcm", whole=whole, keep=self.kept.append
        )
        self.stream = self.spoken.stream

    async def until(self, done: Callable[[list[Event]], bool]) -> list[Event]:
        events: list[Event] = []
        while not done(events):
            events += await asyncio.wait_for(self.stream.next(10), 10)
        return events

    async def rest(self) -> list[Event]:
        return await self.until(lambda events: bool(events) and isinstance(events[-1], Finished | Failed))


def sound_of(events: Sequence[Event]) -> bytes:
    return b"".join(event.read(Sound).data for event in events if isinstance(event, Output))


async def test_the_first_sentence_is_heard_while_the_rest_is_generated() -> None:
    stage = Stage()
    stage.answer.push([Started(3), Text("Six. And")])
    heard = await stage.until(lambda events: sound_of(events) == b"Six.")
    assert heard[:2] == [Started(3), Text("Six. And")]
    stage.answer.push([Text(" so on"), END])
    events = await stage.rest()
    assert sound_of(events) == b"And so on"
    assert events[-1] == Finished(("stop",), Usage(3, 2, audio_tokens=len("Six.And so on")))
    assert stage.speaker.spoken == [("Six.", "ryan", "pcm"), ("And so on", "ryan", "pcm")]
    assert stage.kept == ["Six. And so on"]
    (parts,) = stage.speaker.first_sounds
    assert list(parts) == ["text", "clause", "sound"]


async def test_neither_calls_nor_reasoning_nor_code_are_spoken() -> None:
    stage = Stage()
    given: list[Event] = [Reasoning("Let me see."), Text("# **One** moment\n```\nx = 1\n```\n"), Text("Then")]
    call: list[Event] = [ToolStart(0, "c", "look"), ToolArgs(0, "{}")]
    stage.answer.push([Started(3), *given, *call])
    await stage.until(lambda events: sound_of(events) == b"One momentThen")
    stage.answer.push([Finished(("tool_calls",), Usage(3, 2))])
    events = await stage.rest()
    assert events[-1] == Finished(("tool_calls",), Usage(3, 2, audio_tokens=14))


async def test_a_file_is_made_of_the_whole_text() -> None:
    stage = Stage(whole=True)
    stage.answer.push([Started(3), Text("Six. And"), Text(" so on")])
    stage.answer.push([END])
    told = await collect_events(stage.stream)
    assert stage.speaker.spoken == [("Six. And so on", "ryan", "wav")]
    assert sound_of(told.outputs) == b"Six. And so on"
    assert told.choices[0].text == "Six. And so on"


@pytest.mark.parametrize("whole", [True, False])
async def test_an_answer_without_words_has_no_sound(whole: bool) -> None:
    stage = Stage(whole=whole)
    stage.answer.push([Started(3), Text("```\nx\n```"), END])
    events = await stage.rest()
    assert (stage.speaker.spoken, sound_of(events)) == ([], b"")
    assert events[-1] == END


async def test_the_file_of_a_long_answer_ends_with_a_sentence() -> None:
    stage = Stage(whole=True)
    sentence = "This sentence has about forty characters. "
    stage.answer.push([Started(3), Text(sentence * 200), END])
    events = await stage.rest()
    ((text, _, _),) = stage.speaker.spoken
    assert MAX_INPUT_CHARS - len(sentence) < len(text) <= MAX_INPUT_CHARS
    assert text.endswith("characters.")
    assert isinstance(events[-1], Finished)
    assert events[-1].reasons == ("length",)
    assert stage.kept == [sentence * 200]


async def test_a_speech_model_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoken_answer, "_MOST_BYTES", 5)
    stage = Stage(whole=True)
    stage.answer.push([Started(3), Text("Sixteen"), END])
    failed = (await stage.rest())[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert stage.speaker.open == 0


@pytest.mark.parametrize(
    ("param", "shown"), [("voice", "audio.voice"), ("response_format", "audio.format"), ("x", None)]
)
async def test_a_speech_model_that_fails_in_the_middle_fails_the_answer(param: str, shown: str | None) -> None:
    stage = Stage()
    stage.speaker.fails = OrchardError("overloaded", "too much", param=param, retry_after=5)
    stage.answer.push([Started(3), Text("Six. And")])
    events = await stage.rest()
    assert events[-1] == Failed("overloaded", "too much", shown, 5)
    assert stage.answer.ended
    assert stage.kept == []


async def test_an_answer_that_fails_before_it_begins_fails_first() -> None:
    stage = Stage()
    stage.answer.push([Failed("overloaded", "too many", None, 1)])
    assert await stage.rest() == [Failed("overloaded", "too many", None, 1)]


async def test_an_answer_that_fails_in_the_middle_is_not_spoken_on() -> None:
    stage = Stage()
    stage.speaker.may_speak.clear()
    stage.answer.push([Started(3), Text("Six. And")])
    await stage.until(lambda events: sound_of(events) == b"S")
    stage.answer.push([Text("more"), Failed("worker_crashed", "gone")])
    assert await stage.rest() == [Text("more"), Failed("worker_crashed", "gone")]
    assert stage.speaker.open == 0


async def test_a_bug_is_told_as_one(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    monkeypatch.setattr(stage.speaker, "speak", lambda *_: 1 / 0)
    stage.answer.push([Started(3), Text("Six. ")])
    failed = (await stage.rest())[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert "a spoken answer broke" in caplog.text


async def test_a_client_that_leaves_ends_both() -> None:
    stage = Stage()
    dropped: list[bool] = []
    stage.answer.on_drop = lambda: dropped.append(True)
    stage.speaker.may_speak.clear()
    stage.answer.push([Started(3), Text("Six. And")])
    await stage.until(lambda events: sound_of(events) == b"S")
    assert stage.speaker.open == 1
    stage.stream.close(Failed("cancelled", "gone"))
    await asyncio.wait([stage.spoken._task])
    assert (dropped, stage.speaker.open, stage.kept) == ([True], 0, [])


async def test_a_client_that_reads_slowly_is_waited_for() -> None:
    stage = Stage()
    lags: list[bool] = []
    stage.answer.on_lag = lags.append
    piece = "x" * 200 + ". "
    stage.answer.push([Started(3)])
    while not lags:  # what the client doesn't read isn't read from the model either
        stage.answer.push([Text(piece * 20)])
        for _ in range(200):
            await asyncio.sleep(0)
    assert lags == [True]
    stage.answer.push([END])
    events = await stage.rest()
    assert isinstance(events[-1], Finished)
    text = "".join(event.text for event in events if isinstance(event, Text))
    assert sound_of(events).decode() == "".join(text.split())
