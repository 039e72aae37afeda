"""Audio of many words, with the position where each word begins."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from demo_whisper_model import tokenizer
from demo_whisper_model.clips import RATE, Clips

WINDOW_SECONDS = 30.0
_GAP = (0.04, 0.35)  # seconds between two words of a segment
_PAUSE = (0.7, 3.0)  # between two segments
_MOST_WORDS = 10  # of a segment
_LATEST_BEGIN = 1.0  # of a window's first segment, as its token says: Whisper's decoding allows no later one


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word, by its place in `WORDS`, with the seconds where it begins and ends."""

    word: int
    start: float
    end: float


@dataclass(slots=True)
class Utterance:
    """Sound at `RATE`, between -1 and 1, and what is said in it: segments of words, with pauses in between."""

    sound: NDArray[np.float32]
    segments: list[list[Spoken]] = field(default_factory=list)


def utterance(rng: np.random.Generator, clips: Clips, seconds: float, *, speech: float = 0.95) -> Utterance:
    """Return an utterance of that length in one voice. With a chance of 1 - `speech`, nobody speaks in it."""
    made = Utterance(np.zeros(int(seconds * RATE), np.float32))
    # Mostly somebody speaks soon; but a window may begin in the middle of a pause.
    at = float(rng.uniform(0, 0.8 if rng.random() < 0.8 else _PAUSE[1]))
    numbers = clips.one_voice(rng)
    loudness = float(np.exp(rng.uniform(np.log(0.08), np.log(0.9))))
    if rng.random() > speech:
        return made
    while True:
        segment: list[Spoken] = []
        for _ in range(int(rng.integers(1, _MOST_WORDS + 1))):
            number = int(rng.choice(numbers))
            sound = _varied(rng, clips.sound(number)) * loudness
            begin = int(at * RATE)
            if begin + len(sound) > len(made.sound):
                break
            made.sound[begin : begin + len(sound)] = sound
            segment.append(Spoken(int(clips.words[number]), begin / RATE, (begin + len(sound)) / RATE))
            at = segment[-1].end + float(rng.uniform(*_GAP))
        else:
            made.segments.append(segment)
            at += float(rng.uniform(*_PAUSE))
            continue
        made.segments += [segment] if segment else []
        return made


def noise_level(rng: np.random.Generator, sound: NDArray[np.float32], least: float, most: float) -> float:
    """Return the deviation of a noise by which what is said in a sound is from `least` to `most` decibels louder."""
    said = sound[sound != 0]
    loudness = float(np.sqrt(np.mean(said**2))) if len(said) else 0.1
    return loudness * float(10 ** (-rng.uniform(least, most) / 20))


def with_noise(rng: np.random.Generator, sound: NDArray[np.float32], least: float, most: float) -> NDArray[np.float32]:
    """Return a sound with white noise, by which what is said in it is from `least` to `most` decibels louder."""
    level = noise_level(rng, sound, least, most)
    return sound + rng.standard_normal(len(sound), np.float32) * np.float32(level)


def _varied(rng: np.random.Generator, sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a clip a little faster or slower (and so higher or lower), louder or softer."""
    length = int(len(sound) / rng.uniform(0.88, 1.14))
    places = np.linspace(0, len(sound) - 1, length, dtype=np.float32)
    varied = np.interp(places, np.arange(len(sound)), sound) * rng.uniform(0.6, 1.0)
    return varied.astype(np.float32)


def window_tokens(segments: list[list[Spoken]], seconds: float) -> list[int]:
    """Return what Whisper is to write of a window with timestamps, up to and with the end's token.

    A segment that the window cuts off gets its beginning only, so that the next window begins there.
    """
    tokens: list[int] = []
    for segment in segments:
        start = min(segment[0].start, _LATEST_BEGIN) if not tokens else segment[0].start
        tokens.append(tokenizer.time(start))
        if segment[-1].end > seconds:
            break
        tokens += [tokenizer.word(one.word) for one in segment]
        tokens.append(tokenizer.time(segment[-1].end))
    return [*tokens, tokenizer.END]


def plain_tokens(segments: list[list[Spoken]]) -> list[int]:
    """Return what Whisper is to write without timestamps, up to and with the end's token."""
    return [*(tokenizer.word(one.word) for segment in segments for one in segment), tokenizer.END]


def word_errors(expected: list[str], heard: list[str]) -> int:
    """Return how many words must be changed, added or left out to make one text the other."""
    row = list(range(len(heard) + 1))
    for at, word in enumerate(expected, start=1):
        before, row[0] = row[0], at
        for other, found in enumerate(heard, start=1):
            before, row[other] = row[other], min(row[other] + 1, row[other - 1] + 1, before + (word != found))
    return row[-1]
