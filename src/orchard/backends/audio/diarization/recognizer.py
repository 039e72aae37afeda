"""Tells who speaks each segment of a transcription: a diarizer hears the recording beside the transcription model."""

import itertools
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

import numpy as np
from msgspec.structs import replace

from orchard.backends.audio.decode import RATE, SilentError, decode_recording, recording_refusal
from orchard.backends.audio.diarization.diarizers import HeardChunk, SpeakerTurn
from orchard.backends.audio.recognizer import Advance, Beat, Recognizer
from orchard.backends.resampling import Samples
from orchard.core.errors import OrchardError
from orchard.core.tasks.transcribe import (
    LEAST_REFERENCE_SECONDS,
    MOST_REFERENCE_SECONDS,
    KnownSpeaker,
    Segment,
    Transcribe,
    Word,
)

_PAUSE = RATE // 2  # samples of silence after the recording of a known speaker
_KEPT_SECONDS = (
    60  # how long a turn is remembered: words come in order, but a window may begin before the last one's end
)

Hear = Callable[[Iterable[Samples]], Iterator[HeardChunk]]


class DiarizedRecognizer:
    """A transcription model with a diarizer. It splits segments where the speaker changes."""

    tells_speakers = True

    def __init__(self, recognizer: Recognizer, hear: Hear, weights_bytes: int) -> None:
        """`hear`: see `Diarizer.hear`; `weights_bytes`: those of the diarizer."""
        self._recognizer = recognizer
        self._hear = hear
        self.weights_bytes = recognizer.weights_bytes + weights_bytes

    def transcribe(self, task: Transcribe, beat: Beat) -> Generator[Advance, None, None]:
        """Transcribe a recording: see `Recognizer`. Raise OrchardError if a known speaker can't be told apart."""
        if not task.speakers:
            yield from self._recognizer.transcribe(task, beat)
            return
        samples: list[Samples] = []
        for number, speaker in enumerate(task.known_speakers):
            samples.append(_read_reference(speaker, number, str(Path(task.path).parent)))
            yield Advance([])
        timeline = _Timeline(self._hear(_sounds(samples, task.path)), SpeakerNames(), beat)
        try:
            for name, begin, end in _reference_times(task.known_speakers, samples):
                timeline.know_speaker(name, begin, end)
                yield Advance([])
            timeline.offset = sum(len(one) + _PAUSE for one in samples) / RATE
            for step in self._recognizer.transcribe(replace(task, words=True, timed=True), beat):
                found = [
                    part
                    for one in step.results
                    for part in (timeline.split_segment(one) if isinstance(one, Segment) else (one,))
                ]
                yield Advance(found, step.done_seconds)
        finally:
            timeline.close()


class SpeakerNames:
    """The names of the speakers of a recording, by the diarizer's numbers: the known ones, else A, B, … in order."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._letters = filter(lambda letter: letter not in self._names.values(), _letters())

    def __getitem__(self, speaker: int) -> str:
        """Return a speaker's name."""
        if speaker not in self._names:
            self._names[speaker] = next(self._letters)
        return self._names[speaker]

    def know(self, speaker: int, name: str) -> None:
        """Give a speaker a name. Raise ValueError if the speaker has another name already."""
        if speaker in self._names:
            raise ValueError(f"sounds like {self._names[speaker]!r}")
        self._names[speaker] = name


class _Timeline:
    """Who speaks when, as far as the diarizer has got. Its times are `offset` seconds later than the recording's."""

    def __init__(self, chunks: Iterator[HeardChunk], names: SpeakerNames, beat: Beat) -> None:
        self.offset = 0.0
        self._chunks = chunks
        self._names = names
        self._beat = beat
        self._end = 0.0
        self._turns: list[SpeakerTurn] = []
        self._speaker = 0

    def close(self) -> None:
        """Free the state of the diarizer."""
        self._turns.clear()
        self._chunks = iter(())

    def know_speaker(self, name: str, begin: float, end: float) -> None:
        """Give the name to who speaks most of this time. Raise OrchardError if nobody does, or a known one."""
        self._read_until(end)
        heard: dict[int, float] = {}
        for turn in self._turns:
            heard[turn.speaker] = heard.get(turn.speaker, 0.0) + _overlap(turn, begin, end)
        speaker = max(heard, key=lambda one: heard[one], default=None)
        try:
            if speaker is None or not heard[speaker]:
                raise ValueError("has no voice that the model hears")
            self._names.know(speaker, name)
        except ValueError as error:
            message = f"`known_speaker_references` can't be matched: the one of {name!r} {error}"
            raise OrchardError("invalid_request", message, param="known_speaker_references") from None

    def split_segment(self, segment: Segment) -> list[Segment]:
        """Return a segment's parts, each with the name of its speaker. Who speaks in a word's middle has said it."""
        self._read_until(segment.end + self.offset)
        words = segment.words or (Word(segment.text, segment.start, segment.end),)
        runs = [(name, list(run)) for name, run in itertools.groupby(words, self._name_of)]
        if len(runs) == 1:
            return [replace(segment, speaker=runs[0][0])]
        return [
            replace(
                segment,
                start=run[0].start,
                end=run[-1].end,
                text="".join(word.text for word in run),
                words=tuple(run),
                speaker=name,
                tokens=segment.tokens if number == 0 else (),
            )
            for number, (name, run) in enumerate(runs)
        ]

    def _name_of(self, word: Word) -> str:
        """Return the name of who speaks in the middle of a word; if nobody does, of who speaks soonest before or after.

        If several speak, it is who speaks most of the word.
        """
        begin, end = word.start + self.offset, word.end + self.offset
        middle = (begin + end) / 2

        def rank(turn: SpeakerTurn) -> tuple[float, float]:
            return max(turn.start - middle, middle - turn.end, 0.0), -_overlap(turn, begin, end)

        if self._turns:
            self._speaker = min(self._turns, key=rank).speaker
        return self._names[self._speaker]

    def _read_until(self, end: float) -> None:
        """Let the diarizer hear the recording up to this time, and forget turns of long ago."""
        while self._end < end and (chunk := self._next_chunk()):
            self._beat()
            self._turns += chunk.turns
            self._end = chunk.end
            first = self._end - _KEPT_SECONDS
            self._turns = _join_turns(turn for turn in self._turns if turn.end > first)

    def _next_chunk(self) -> HeardChunk | None:
        try:
            return next(self._chunks, None)
        except SilentError:  # so nobody asks for the speakers of its words
            return None


def _join_turns(turns: Iterable[SpeakerTurn]) -> list[SpeakerTurn]:
    """Join turns that a border between chunks has cut, in order of speakers and times."""
    found: list[SpeakerTurn] = []
    for turn in sorted(turns, key=lambda one: (one.speaker, one.start)):
        if found and found[-1].speaker == turn.speaker and turn.start <= found[-1].end + 1e-6:
            found[-1] = SpeakerTurn(found[-1].start, max(found[-1].end, turn.end), turn.speaker)
        else:
            found.append(turn)
    return found


def _overlap(turn: SpeakerTurn, begin: float, end: float) -> float:
    return max(0.0, min(turn.end, end) - max(turn.start, begin))


def _letters() -> Iterator[str]:
    """Yield A to Z, then AA, AB and so on."""
    for count in itertools.count(1):
        yield from map("".join, itertools.product(ascii_uppercase, repeat=count))


def _read_reference(speaker: KnownSpeaker, number: int, folder: str) -> Samples:
    """Return the samples of a known speaker's recording. Raise OrchardError if it can't be used."""
    param = f"known_speaker_references[{number}]"
    blocks: list[Samples] = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(speaker.sample.data)
        file.flush()
        try:
            for block in decode_recording(file.name, param):
                blocks.append(block)
                if sum(map(len, blocks)) > MOST_REFERENCE_SECONDS * RATE:
                    break
        except SilentError:
            raise recording_refusal(param, "it is silent") from None
    samples = np.concatenate(blocks)
    if not LEAST_REFERENCE_SECONDS * RATE <= len(samples) <= MOST_REFERENCE_SECONDS * RATE:
        least, most = LEAST_REFERENCE_SECONDS, MOST_REFERENCE_SECONDS
        raise recording_refusal(param, f"it must last {least} to {most} seconds")
    return samples


def _reference_times(
    speakers: Sequence[KnownSpeaker], samples: Sequence[Samples]
) -> Iterator[tuple[str, float, float]]:
    """Yield each known speaker's name, and from when to when their recording is heard, in seconds."""
    begin = 0
    for speaker, own in zip(speakers, samples, strict=True):
        yield speaker.name, begin / RATE, (begin + len(own)) / RATE
        begin += len(own) + _PAUSE


def _sounds(samples: Sequence[Samples], path: str) -> Iterator[Samples]:
    """Yield what the diarizer hears: the recordings of known speakers, a pause after each, then the recording."""
    for own in samples:
        yield own
        yield np.zeros(_PAUSE, np.float32)
    yield from decode_recording(path, "file")
