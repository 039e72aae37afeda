"""Words to speakers, with a scripted transcription model and a scripted diarizer."""

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.audio.decode import RATE
from orchard.backends.audio.diarization.diarizers import HeardChunk
from orchard.backends.audio.diarization.diarizers import SpeakerTurn as Turn
from orchard.backends.audio.diarization.recognizer import DiarizedRecognizer, SpeakerNames
from orchard.backends.audio.recognizer import Advance, Beat
from orchard.backends.resampling import Samples
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.transcribe import KnownSpeaker, Recording, Segment, Transcribe, Word
from tests.support.sounds import noise, wav

CHUNK = 5.0


class Ears:
    """Tells the same segments of each recording."""

    weights_bytes = 2
    tells_speakers = False

    def __init__(self, *segments: Segment) -> None:
        self.segments = segments
        self.asked: list[Transcribe] = []

    def transcribe(self, task: Transcribe, beat: Beat) -> Generator[Advance, None, None]:
        self.asked.append(task)
        yield Advance([Recording(60.0)])
        for one in self.segments:
            yield Advance([one], one.end)


class Hearing:
    """Hears turns in chunks of five seconds, cut at their borders, as diarizers do; notes how much it was given."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.seconds = 0.0
        self.chunks = 0

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[HeardChunk]:
        arriving = iter(blocks)
        while True:
            begin, end = self.chunks * CHUNK, (self.chunks + 1) * CHUNK
            while self.seconds < end:
                if (block := next(arriving, None)) is None:
                    return
                self.seconds += len(block) / RATE
            self.chunks += 1
            cut = (Turn(max(one.start, begin), min(one.end, end), one.speaker) for one in self.turns)
            yield HeardChunk([one for one in cut if one.start < one.end], end)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("diarization") / "recording.wav"
    file.write_bytes(wav(noise(60)))
    return str(file)


def segment(*words: tuple[str, float, float]) -> Segment:
    found = tuple(Word(f" {text}", start, end) for text, start, end in words)
    return Segment(words[0][1], words[-1][2], "".join(word.text for word in found), tokens=(1, 2), words=found)


def transcribed(ears: Ears, hearing: Hearing, path: str, **fields: Any) -> list[Segment]:
    model = DiarizedRecognizer(ears, hearing, 3)
    task = Transcribe(path, **{"speakers": True, **fields})
    return [one for step in model.transcribe(task, lambda: None) for one in step.results if isinstance(one, Segment)]


def told(segments: list[Segment]) -> list[tuple[str, str]]:
    return [(one.speaker, one.text) for one in segments]


def test_a_word_is_of_who_speaks_in_its_middle(path: str) -> None:
    ears = Ears(segment(("one", 0, 1), ("two", 1, 2.2), ("three", 2.2, 3)), segment(("four", 4, 5), ("five", 5, 5.5)))
    found = transcribed(ears, Hearing(Turn(0, 2, 3), Turn(2, 60, 1)), path)
    assert told(found) == [("A", " one two"), ("B", " three"), ("B", " four five")]
    assert [(one.start, one.end, one.tokens) for one in found] == [(0, 2.2, (1, 2)), (2.2, 3, ()), (4, 5.5, (1, 2))]
    (task,) = ears.asked
    assert (task.words, task.timed) == (True, True)


def test_who_speaks_most_of_a_word_has_it_and_in_a_pause_the_nearest(path: str) -> None:
    hearing = Hearing(Turn(0, 0.8, 0), Turn(0.2, 2, 1), Turn(4, 5, 0))
    ears = Ears(segment(("both", 0, 1.1)), segment(("pause", 2.2, 2.8)), segment(("later", 3.2, 3.8)))
    assert [one.speaker for one in transcribed(ears, hearing, path)] == ["A", "A", "B"]


def test_letters_are_kept_from_chunk_to_chunk_and_the_diarizer_hears_no_more_than_it_must(path: str) -> None:
    hearing = Hearing(Turn(0, 12, 2), Turn(12, 24, 0), Turn(24, 60, 2))
    segments = [segment((str(at), at, at + 1)) for at in range(0, 36, 6)]
    model = DiarizedRecognizer(Ears(*segments), hearing, 3)
    chunks = []
    names = ""
    for step in model.transcribe(Transcribe(path, speakers=True), lambda: None):
        names += "".join(one.speaker for one in step.results if isinstance(one, Segment))
        chunks.append(hearing.chunks)
    assert names == "AABBAA"
    assert chunks == [0, 1, 2, 3, 4, 5, 7]


def test_text_without_words_is_of_who_speaks_in_the_middle_of_it(path: str) -> None:
    whole = Segment(0, 10, " All of it")
    assert told(transcribed(Ears(whole), Hearing(Turn(0, 4, 0), Turn(4, 60, 1)), path)) == [("A", " All of it")]


def test_a_diarizer_that_hears_nobody_gives_all_to_one_speaker(path: str) -> None:
    ears = Ears(segment(("one", 0, 1)), segment(("two", 50, 51)))
    assert [one.speaker for one in transcribed(ears, Hearing(), path)] == ["A", "A"]


def test_a_silent_recording_has_no_speakers(tmp_path: Path) -> None:
    (tmp_path / "silent.wav").write_bytes(wav(noise(8) * 0))
    assert told(transcribed(Ears(segment(("ghost", 0, 1))), Hearing(), str(tmp_path / "silent.wav"))) == [
        ("A", " ghost")
    ]


def test_other_requests_are_transcribed_as_without_a_diarizer(path: str) -> None:
    ears, hearing = Ears(segment(("one", 0, 1))), Hearing()
    assert transcribed(ears, hearing, path, speakers=False) == list(ears.segments)
    assert (hearing.seconds, ears.asked) == (0, [Transcribe(path)])
    assert DiarizedRecognizer(ears, hearing, 3).weights_bytes == 5


def known(name: str, seconds: float = 4.0, sound: bytes | None = None) -> KnownSpeaker:
    return KnownSpeaker(name, MediaPart("audio", "", "x", wav(noise(seconds)) if sound is None else sound))


def test_known_speakers_are_heard_first_and_have_their_names(path: str) -> None:
    """Each is heard for four seconds, and then there is half a second of silence."""
    hearing = Hearing(
        Turn(0.1, 4.1, 2),
        Turn(1, 2, 1),
        Turn(4.5, 8.4, 0),
        Turn(9, 11, 0),
        Turn(11, 20, 1),
        Turn(20, 60, 2),
    )
    ears = Ears(segment(("one", 0, 1)), segment(("two", 3, 4)), segment(("three", 12, 13)))
    found = transcribed(ears, hearing, path, known_speakers=(known("Ann"), known("A")))
    assert told(found) == [("A", " one"), ("B", " two"), ("Ann", " three")]


BAD: list[tuple[tuple[KnownSpeaker, ...], str, str]] = [
    ((known("Ann"), known("Bo")), "known_speaker_references", "the one of 'Bo' sounds like 'Ann'"),
    ((known("Ann"), known("Bo"), known("Cy")), "known_speaker_references", "the one of 'Bo' sounds like 'Ann'"),
    ((known("Ann", 1.9),), "known_speaker_references[0]", "2 to 10 seconds"),
    ((known("Ann"), known("Bo", 10.1)), "known_speaker_references[1]", "2 to 10 seconds"),
    ((known("Ann", sound=b"x" * 999),), "known_speaker_references[0]", "can't be read"),
    ((known("Ann", sound=wav(noise(4) * 0)),), "known_speaker_references[0]", "it is silent"),
]


@pytest.mark.parametrize(("speakers", "param", "words"), BAD)
def test_known_speakers_that_cant_be_matched(
    path: str, speakers: tuple[KnownSpeaker, ...], param: str, words: str
) -> None:
    with pytest.raises(OrchardError) as raised:
        transcribed(Ears(), Hearing(Turn(0, 60, 0)), path, known_speakers=speakers)
    assert (raised.value.kind, raised.value.param) == ("invalid_request", param)
    assert words in raised.value.message
    assert [file.name for file in Path(path).parent.iterdir()] == ["recording.wav"]


def test_a_known_speaker_whom_the_diarizer_doesnt_hear(path: str) -> None:
    with pytest.raises(OrchardError, match="the one of 'Ann' has no voice that the model hears"):
        transcribed(Ears(), Hearing(Turn(30, 60, 0)), path, known_speakers=(known("Ann"),))


def test_there_are_letters_for_all_speakers() -> None:
    names = SpeakerNames()
    names.know(40, "C")
    assert [names[number] for number in range(27)] == [*"ABDEFGHIJKLMNOPQRSTUVWXYZ", "AA", "AB"]
    assert (names[40], names[26], names[0]) == ("C", "AB", "A")


@given(
    st.lists(st.tuples(st.integers(0, 59), st.integers(1, 9), st.integers(0, 3)), max_size=20),
    st.lists(st.tuples(st.integers(0, 55), st.integers(0, 40)), max_size=10),
)
def test_no_word_is_lost(path: str, turns: list[tuple[int, int, int]], spoken: list[tuple[int, int]]) -> None:
    hearing = Hearing(*(Turn(start, start + size, speaker) for start, size, speaker in turns))
    segments = [
        segment(*((f"{at}.{number}", at + number, at + number + 1) for number in range(1 + size % 4)))
        for at, size in sorted(spoken)
    ]
    found = transcribed(Ears(*segments), hearing, path)
    assert "".join(one.text for one in found) == "".join(one.text for one in segments)
    assert [word for one in found for word in one.words] == [word for one in segments for word in one.words]
    assert all(one.speaker in "ABCD" and one.speaker for one in found)


def test_samples_are_those_of_the_recording(path: str) -> None:
    """What the diarizer hears of the recording is the recording."""
    heard: list[Samples] = []

    def hear(blocks: Iterable[Samples]) -> Iterator[HeardChunk]:
        heard.extend(blocks)
        yield HeardChunk([Turn(0, 70, 0)], 70)

    transcribed(Ears(segment(("one", 0, 1))), hear, path, known_speakers=(known("Ann"),))  # type: ignore[arg-type]
    samples = np.concatenate(heard)
    sound = noise(60).astype(np.float32) / 32768
    assert np.allclose(samples[: 4 * RATE], sound[: 4 * RATE])
    assert not samples[4 * RATE : 4 * RATE + RATE // 2].any()
    assert np.allclose(samples[4 * RATE + RATE // 2 :], sound)
