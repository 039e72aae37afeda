"""Recordings of words in voices that the demo Whisper model never heard, made of the clips in tests/demo/clips."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
CLIPS = Path(__file__).parents[1] / "demo" / "clips"

_LEVELS = np.arange(256) / 255 * 2 - 1  # of the clips' bytes, which are on the mu-law curve
_GAP = (0.04, 0.35)  # seconds between two words
_PAUSE = (0.7, 3.0)  # seconds after ten words at most
_NOISE = (15.0, 50.0)  # decibels by which speech is louder


class SpokenWord(NamedTuple):
    """A word, and the second in which it begins."""

    text: str
    start: float


class Recording(NamedTuple):
    """Samples at `RATE`, between -1 and 1, and the words that are said in them."""

    sound: NDArray[np.float32]
    words: list[SpokenWord]


def clips() -> list[list[tuple[str, NDArray[np.float32]]]]:
    """Return for each voice the words that it says, each with its sound."""
    names = (CLIPS / "words.txt").read_text().split()
    with np.load(CLIPS / "clips.npz", allow_pickle=False) as file:
        words, voices, ends, data = (file[f"held_{name}"] for name in ("words", "voices", "ends", "data"))
    sound = (np.sign(_LEVELS) * np.expm1(np.abs(_LEVELS) * np.log1p(255)) / 255).astype(np.float32)[data]
    pieces = np.split(sound, ends[:-1])
    return [[(names[words[at]], pieces[at]) for at in np.flatnonzero(voices == voice)] for voice in np.unique(voices)]


def recording(seed: int, seconds: float, noise: tuple[float, float] | None = _NOISE) -> Recording:
    """Return a recording of one voice with white noise, the same one for a seed; with `noise` None, without noise."""
    rng = np.random.default_rng((seed, int(seconds * 1000)))
    voices = clips()
    voice = voices[rng.integers(len(voices))]
    loudness = np.exp(rng.uniform(np.log(0.08), np.log(0.9)))
    sound = np.zeros(int(seconds * RATE), np.float32)
    words: list[SpokenWord] = []
    at, pause = rng.uniform(0, 0.8), 0
    while True:
        text, clip = voice[rng.integers(len(voice))]
        begin = int(at * RATE)
        if begin + len(clip) > len(sound):
            break
        sound[begin : begin + len(clip)] = clip * loudness * rng.uniform(0.6, 1.0)
        words.append(SpokenWord(text, begin / RATE))
        pause = pause or int(rng.integers(1, 11))
        pause -= 1
        at = (begin + len(clip)) / RATE + rng.uniform(*(_GAP if pause else _PAUSE))
    if noise:
        speech = np.sqrt(np.mean(sound[sound != 0] ** 2)) if words else 0.1
        level = speech * 10 ** (-rng.uniform(*noise) / 20)
        sound = sound + rng.standard_normal(len(sound), np.float32) * np.float32(level)
    return Recording(sound, words)
