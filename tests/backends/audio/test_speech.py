"""The service of speech models: most tests give it a speaker that waits for the test."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from orchard.backends.audio import encode, speech
from orchard.backends.audio.encode import open_encoder
from orchard.backends.audio.passages import split_into_passages
from orchard.backends.audio.speakers.loading import load_speaker
from orchard.backends.audio.speakers.speaker import Instructions, SampleVoice, SpeechPiece
from orchard.backends.audio.speech import MAX_REQUESTS, SpeechService
from orchard.backends.ffmpeg import FfmpegError
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Started, Usage
from orchard.core.request import Priority, Request, Sender
from orchard.core.tasks.speak import RATE, Sound, Speak, SpeechOptions, VoiceSample
from orchard.core.voices import DESCRIPTIONS, choose_voice
from tests.support.sounds import noise, wav
from tests.support.speech_families import make_chatterbox, make_dia, make_orpheus, make_sesame, use_hub_cache
from tests.support.speech_models import make_qwen3_tts

PIECES = 3  # of a passage
SAMPLES = 100  # of a piece


class Stub:
    """A speaker whose every piece waits for a permit; it notes what it says, and in which thread."""

    voices: tuple[str, ...] = ("ann", "bob")

    def __init__(self) -> None:
        self.copies = False
        self.instructions: Instructions = "optional"
        self.permits = threading.Semaphore(0)
        self.begun = threading.Event()
        self.said: list[str] = []
        self.told: list[tuple[str | SampleVoice, str | None]] = []
        self.threads: set[int] = set()
        self.short: Callable[[str, int], bool] = lambda passage, piece: False

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        if passage == "Hello.":  # the load's
            return
        self.told.append((voice, instructions))
        self.begun.set()
        for piece in range(PIECES):
            self.permits.acquire()
            self.said.append(f"{passage}{piece}")
            self.threads.add(threading.get_ident())
            if passage == "Boom.":
                raise RuntimeError("no sound")
            if self.short(passage, piece):
                raise RuntimeError("[METAL] Command buffer execution failed: Insufficient Memory")
            yield SpeechPiece(np.full(SAMPLES, 0.5, np.float32), 3)


class Running:
    """A service, and what it has told."""

    def __init__(self, path: str = "stub", **options: Any) -> None:
        self.service = SpeechService(path, SpeechOptions(**options))
        self.events: defaultdict[str, list[Event]] = defaultdict(list)
        self.load = (0, 0)
        self._told = asyncio.Event()

    async def start(self) -> None:
        await self.service.start(self._emit, lambda fraction: None)

    def submit(self, id: str, text: str, priority: Priority = "normal", *, caller: str = "", **fields: object) -> None:
        task = Speak(text, **{"format": "pcm", **fields})  # type: ignore[arg-type]
        self.service.submit(Request(id, "model", task, priority, sender=Sender(caller)))

    async def end_of(self, id: str) -> Event:
        await self.until(lambda: any(isinstance(event, Finished | Failed) for event in self.events[id]))
        return self.events[id][-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._told.clear()
            await asyncio.wait_for(self._told.wait(), 60)

    def sound(self, id: str) -> bytes:
        return b"".join(event.read(Sound).data for event in self.events[id] if isinstance(event, Output))

    def _emit(self, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        for id, found in events:
            self.events[id] += found
        self.load = (running, waiting)
        self._told.set()


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    made = Stub()
    monkeypatch.setattr(speech, "load_speaker", lambda folder, progress: made)
    return made


@pytest.fixture
async def running(stub: Stub) -> AsyncIterator[Running]:
    made = Running()
    await made.start()
    yield made
    stub.permits.release(1000)
    await made.service.close(0)


async def test_each_piece_is_told_before_the_next_one_is_made(stub: Stub, running: Running) -> None:
    running.submit("a", "One. Two.")
    for pieces in range(1, 2 * PIECES + 1):
        stub.permits.release()
        await running.until(lambda pieces=pieces: len(running.sound("a")) == pieces * 2 * SAMPLES)  # type: ignore[misc]
        assert len(stub.said) == pieces
    end = await running.end_of("a")
    assert running.events["a"][0] == Started(2, voice="ann")
    assert end == Finished(("stop",), Usage(2, 3 * 2 * PIECES, units=round(2 * PIECES * SAMPLES / RATE, 3)))
    assert running.sound("a") == np.full(2 * PIECES * SAMPLES, 16384, "<i2").tobytes()
    assert stub.told == [("ann", None)] * 2
    assert threading.get_ident() not in stub.threads
    assert running.load == (0, 0)


async def test_passages_take_turns_and_interactive_requests_go_first(stub: Stub, running: Running) -> None:
    running.submit("a", "A1. A2. " + "x" * 299)
    running.submit("b", "B1. B2.")
    running.submit("c", "C1.", "interactive")
    running.submit("d", "D1.", "background")
    stub.permits.release(1000)
    for id in "abcd":
        await running.end_of(id)
    ends = [said[:2] for said in stub.said if said.endswith(str(PIECES - 1))]
    assert ends == ["C1", "A1", "B1", "A2", "B2", "D1", "xx"]


async def test_a_paused_request_rests_after_its_passage_and_goes_on_where_it_was(stub: Stub, running: Running) -> None:
    running.submit("a", "A1. A2.")
    stub.permits.release()
    await running.until(lambda: len(stub.said) == 1)
    running.service.pause("a")
    running.submit("b", "B1.")
    stub.permits.release(1000)
    await running.end_of("b")
    assert stub.said == ["A1.0", "A1.1", "A1.2", "B1.0", "B1.1", "B1.2"]
    assert running.load == (1, 0)
    running.service.resume("a")
    await running.end_of("a")
    assert stub.said[6:] == ["A2.0", "A2.1", "A2.2"]


async def test_a_cancelled_request_ends_before_its_next_piece_and_frees_its_encoder(
    stub: Stub, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []

    class Watched:
        def __init__(self) -> None:
            self.encoder = open_encoder("pcm")
            self.feed, self.end = self.encoder.feed, self.encoder.end

        def close(self) -> None:
            closed.append(threading.get_ident())

    monkeypatch.setattr(encode, "open_encoder", lambda format, speed: Watched())
    running.submit("a", "A1. A2.")
    running.submit("waits", "W1.")
    stub.permits.release()
    await running.until(lambda: len(stub.said) == 1)
    running.service.cancel("a")
    running.service.cancel("waits")
    running.service.cancel("unknown")
    assert running.load == (0, 0)
    told = len(running.events["a"])
    running.submit("b", "B1.")
    stub.permits.release(1000)
    await running.end_of("b")
    # The piece under way is made; nothing is told of it.
    assert [said for said in stub.said if said[0] == "A"] in (["A1.0"], ["A1.0", "A1.1"])
    assert "W1.0" not in stub.said
    assert (len(running.events["a"]), running.events["waits"]) == (told, [])
    assert set(closed) == stub.threads
    assert len(closed) == 2  # of a and b; the one that waited had none


async def test_a_failure_fails_its_request_alone(stub: Stub, running: Running) -> None:
    running.submit("bad", "Boom.")
    running.submit("good", "Fine.")
    stub.permits.release(1000)
    assert await running.end_of("bad") == Failed("internal", "speaking failed")
    assert isinstance(await running.end_of("good"), Finished)


async def test_a_passage_for_which_memory_is_short_is_halved(stub: Stub, running: Running) -> None:
    stub.permits.release(1000)
    stub.short = lambda passage, piece: len(passage.split()) > 2 or stub.said.count("one0") == 1
    running.submit("r", "one two three.")
    assert isinstance(await running.end_of("r"), Finished)
    assert stub.said[:3] == ["one two three.0", "one0", "one0"]
    assert stub.said[4:] == ["one2", "two three.0", "two three.1", "two three.2"]
    assert len(running.sound("r")) == 2 * 2 * PIECES * SAMPLES


@pytest.mark.parametrize("first", [0, 1])
async def test_a_word_for_which_memory_is_short_fails_its_request_alone(
    stub: Stub, running: Running, first: int
) -> None:
    stub.permits.release(1000)
    stub.short = lambda passage, piece: passage == "Long." and piece >= first
    running.submit("bad", "Long.")
    running.submit("good", "Fine.")
    failed = await running.end_of("bad")
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retry_after) == ("insufficient_memory", 5)
    assert stub.said.count("Long.0") == 2 - first
    assert isinstance(await running.end_of("good"), Finished)


async def test_an_encoder_that_fails_says_why(stub: Stub, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(format: str, speed: float) -> None:
        raise FfmpegError("ffmpeg can't be started")

    monkeypatch.setattr(encode, "open_encoder", broken)
    running.submit("a", "One.")
    assert await running.end_of("a") == Failed("internal", "the sound can't be encoded: ffmpeg can't be started")


async def test_only_so_many_requests_wait(stub: Stub, running: Running) -> None:
    for at in range(MAX_REQUESTS):
        running.submit(f"r{at}", "One.")
    running.submit("more", "One.")
    (failed,) = running.events["more"]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retry_after) == ("overloaded", 5)
    running.submit("other", "One.", caller="ben")
    assert running.events["other"] == []


async def test_callers_take_turns_however_many_requests_they_have(stub: Stub, running: Running) -> None:
    for name in "abc":
        running.submit(name, f"{name}1. {name}2.", caller="ann")
    running.submit("d", "d1. d2.", caller="ben")
    stub.permits.release(1000)
    for name in "abcd":
        await running.end_of(name)
    ends = [said[:2] for said in stub.said if said.endswith(str(PIECES - 1))]
    assert ends == ["a1", "d1", "b1", "d2", "c1", "a2", "b2", "c2"]


@pytest.mark.parametrize(
    ("takes", "fields", "param"),
    [
        ("optional", {"voice": "carl"}, "voice"),
        ("refused", {"instructions": "Whisper."}, "instructions"),
        ("voice", {"voice": "carl", "instructions": "Calm."}, "voice"),
    ],
)
async def test_what_the_model_does_not_take_is_refused(
    stub: Stub, running: Running, takes: Instructions, fields: dict[str, str], param: str
) -> None:
    stub.instructions = takes
    running.submit("a", "One.", "normal", **fields)
    (failed,) = running.events["a"]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.param) == ("invalid_request", param)
    if param == "voice":
        assert ("'ann', 'bob'" if takes == "optional" else "'alloy', 'ash'") in failed.message


@pytest.mark.parametrize(
    ("takes", "fields", "heard", "told"),
    [
        ("optional", {"voice": "echo"}, ("ann", None), "ann"),
        ("refused", {"voice": "Mine"}, ("bob", None), "bob"),
        ("voice", {}, ("alloy", DESCRIPTIONS["alloy"]), "alloy"),
        ("voice", {"voice": "ECHO"}, ("echo", DESCRIPTIONS["echo"]), "echo"),
        ("voice", {"voice": "mine"}, ("mine", "bob"), "mine"),
        ("voice", {"voice": "echo", "instructions": "Calm."}, ("", "Calm."), ""),
    ],
)
async def test_the_voice_that_speaks_is_told(
    stub: Stub, takes: Instructions, fields: dict[str, str], heard: tuple[str, str | None], told: str
) -> None:
    running = Running(voices={"mine": "bob"})
    await running.start()
    stub.instructions = takes
    stub.permits.release(1000)
    running.submit("a", "One.", "normal", **fields)
    await running.end_of("a")
    assert stub.told == [heard]
    assert running.events["a"][0] == Started(1, voice=told)
    await running.service.close(0)


async def test_ffmpeg_is_asked_for_before_anything_is_spoken(
    stub: Stub, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "find_ffmpeg", lambda: None)
    running.submit("a", "One.", format="aac")
    (failed,) = running.events["a"]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.param) == ("invalid_request", "response_format")


async def test_it_gives_signs_of_life_while_it_speaks(stub: Stub, running: Running) -> None:
    assert running.service.heartbeat().silent_seconds == 0
    running.submit("a", "One.")
    await asyncio.to_thread(stub.begun.wait)
    first = running.service.heartbeat().silent_seconds
    assert first > 0
    stub.permits.release(1000)
    await running.end_of("a")
    assert running.service.heartbeat().silent_seconds == 0


async def test_closing_ends_what_is_spoken_and_tells_nothing_of_it(stub: Stub) -> None:
    running = Running()
    await running.start()
    running.submit("a", "One. Two.")
    running.submit("b", "Three.")
    stub.permits.release()
    await running.until(lambda: len(stub.said) == 1)
    told = len(running.events["a"])
    closing = asyncio.create_task(running.service.close(0))
    await asyncio.sleep(0)
    stub.permits.release(1000)
    await closing
    assert len(stub.said) <= 2
    assert (len(running.events["a"]), running.events["b"]) == (told, [])


async def test_a_real_model_speaks_as_its_speaker_does(tmp_path: Path) -> None:
    make_qwen3_tts(tmp_path)
    running = Running(str(tmp_path))
    await running.start()
    thread = running.service._thread
    text = "One sentence. Another one."
    await thread.do(mx.random.seed, 7)
    running.submit("a", text, voice="Ryan", instructions="Whisper.")
    end = await running.end_of("a")
    assert isinstance(end, Finished)
    speaker = load_speaker(tmp_path, lambda fraction: None)

    def directly() -> bytes:
        mx.random.seed(7)
        pieces = [
            piece.sound for passage in split_into_passages(text) for piece in speaker.say(passage, "ryan", "Whisper.")
        ]
        return np.round(np.concatenate(pieces) * 32_767).astype("<i2").tobytes()

    assert running.sound("a") == await thread.do(directly)
    assert running.service.heartbeat().mlx_bytes > 0
    await running.service.close(0)


@pytest.mark.parametrize("kind", ["chatterbox", "dia", "orpheus", "sesame"])
async def test_each_family_speaks_through_the_service_as_its_speaker_does(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, folder = use_hub_cache(monkeypatch, tmp_path / "hub"), tmp_path / "model"
    folder.mkdir()
    makers: dict[str, Callable[[], None]] = {
        "chatterbox": lambda: make_chatterbox(folder, cache, monkeypatch),
        "dia": lambda: make_dia(folder, cache),
        "orpheus": lambda: make_orpheus(folder, cache, monkeypatch),
        "sesame": lambda: make_sesame(folder, cache, monkeypatch, "ann", "bo"),
    }
    makers[kind]()
    running = Running(str(folder))
    await running.start()
    thread = running.service._thread
    await thread.do(mx.random.seed, 7)
    running.submit("a", "Hello there. Hello.", voice="ash")
    end = await running.end_of("a")
    assert isinstance(end, Finished)
    speaker = await thread.do(load_speaker, folder, lambda fraction: None)
    voice = choose_voice("ash", speaker.voices, {}).name
    assert running.events["a"][0] == Started(speaker.count_tokens("Hello there. Hello."), voice=voice)

    def directly() -> bytes:
        mx.random.seed(7)
        pieces = [piece.sound for text in ("Hello there.", "Hello.") for piece in speaker.say(text, voice, None)]
        return np.round(np.concatenate(pieces).clip(-1, 1) * 32_767).astype("<i2").tobytes()

    assert running.sound("a") == await thread.do(directly)
    assert len(running.sound("a")) > 2 * 2 * 2048
    await running.service.close(0)


async def test_a_model_that_can_not_be_loaded_is_told_with_the_reason(tmp_path: Path) -> None:
    running = Running(str(tmp_path))
    with pytest.raises(OrchardError, match=r"it has no config\.json") as refused:
        await running.start()
    assert refused.value.kind == "model_failed"
    await running.service.close(0)


async def test_closing_frees_the_model(tmp_path: Path) -> None:
    make_qwen3_tts(tmp_path)
    before = mx.get_active_memory()
    running = Running(str(tmp_path))
    loaded = await running.service.start(running._emit, lambda fraction: None)
    assert mx.get_active_memory() - before > 2**20
    assert loaded.weights_bytes > 2**20
    await running.service.close(0)
    assert mx.get_active_memory() - before < 2**18


async def test_mlx_keeps_to_the_limit(stub: Stub) -> None:
    service = SpeechService("stub", SpeechOptions(memory_limit=2**30))
    await service.start(lambda events, running, waiting: None, lambda fraction: None)
    assert mx.set_memory_limit(2**35) == 2**30
    service.limit_memory(2**29, 2**34)
    assert mx.set_memory_limit(2**35) == 2**29
    await service.close(0)


def sampled(seconds: float = 1, **changes: Any) -> VoiceSample:
    return VoiceSample(wav(noise(seconds, RATE), **{"rate": RATE, **changes}), "Who is there?")


async def test_the_voice_of_a_recording_is_copied(stub: Stub, running: Running) -> None:
    stub.copies = True
    stub.permits.release(100)
    running.submit("a", "One.", voice="voice_1", sample=sampled())
    assert isinstance(await running.end_of("a"), Finished)
    assert running.events["a"][0] == Started(1, voice="voice_1")
    ((voice, _),) = stub.told
    assert isinstance(voice, SampleVoice)
    assert voice.transcript == "Who is there?"
    np.testing.assert_array_equal(voice.sound, noise(1, RATE).astype(np.float32) / 32768)


UNFIT: list[tuple[bool, tuple[str, ...], VoiceSample | None, str]] = [
    (False, ("ann",), sampled(), "can't copy the voice of a recording; its own voices are ann"),
    (True, (), None, "only copies voices: name the id of one that POST /v1/audio/voices has made"),
    (True, ("ann",), VoiceSample(b"RIFF"), "the sample of `voice` is broken"),
    (True, ("ann",), sampled(rate=8000), "its layout is another"),
]


@pytest.mark.parametrize("case", UNFIT)
async def test_voices_that_cant_be_copied(
    stub: Stub, running: Running, case: tuple[bool, tuple[str, ...], VoiceSample | None, str]
) -> None:
    stub.copies, stub.voices, sample, words = case
    running.submit("a", "One.", sample=sample)
    failed = await running.end_of("a")
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.param, words in failed.message) == ("invalid_request", "voice", True)
