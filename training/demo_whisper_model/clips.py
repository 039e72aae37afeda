"""Synthesise every word in many voices with espeak-ng, and pack the clips into one file for the machine that trains.

    python -m demo_whisper_model.clips --out FOLDER      (needs espeak-ng, and the extra `audio`)

Clips are 8-bit mu-law samples (ITU-T G.711's curve) at 16 kHz, without the silence around the word. The file also has
Whisper's mel filters, because that machine may not have mlx-audio.
"""

import argparse
import io
import os
import subprocess
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demo_whisper_model.words import WORDS

RATE = 16_000
MELS = 80
FILE = "clips.npz"

Split = Literal["train", "held"]

ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd")
# Variants of espeak-ng's voice. Those of `held` are heard in measurements only.
VARIANTS: dict[Split, tuple[str, ...]] = {
    "train": (
        "m1", "m2", "m4", "m5", "m6", "m7", "f1", "f3", "f4", "f5", "Alex", "Alicia", "Andrea", "Annie", "antonio",
        "belinda", "benjamin", "boris", "caleb", "david", "Denis", "Diogo", "ed", "edward", "Gene", "Gene2", "Henrique",
        "Hugo", "iven", "Jacky", "john", "kaukovalta", "Lee", "linda", "marcelo", "Marco", "Mario", "max", "michel",
        "miguel", "Mike", "paul", "pedro", "quincy", "rob", "robert", "shelby", "steph", "steph2", "Tweaky",
    ),
    "held": ("m3", "m8", "f2", "Andy", "adam", "edward2", "Michael", "pablo", "sandro", "victor", "zac", "steph3"),
}  # fmt: skip
_SPEED, _PITCH = (115, 200), (25, 75)  # words a minute; 50 is the voice's own pitch
_QUIET = 0.02  # of the loudest sample
_MARGIN = int(0.01 * RATE)
_MU = 255


@dataclass(frozen=True, slots=True)
class Voice:
    """How espeak-ng speaks a word: an accent with a variant, a speed and a pitch."""

    name: str
    speed: int
    pitch: int


def voice(rng: Random, split: Split, variant: str) -> Voice:
    """Return a voice of a variant."""
    assert variant in VARIANTS[split]
    return Voice(f"{rng.choice(ACCENTS)}+{variant}", rng.randint(*_SPEED), rng.randint(*_PITCH))


def spoken(word: str, voice: Voice) -> NDArray[np.float32]:
    """Return a word's sound, between -1 and 1, at `RATE` and without the silence around it. Raise if it has none."""
    options = ["-v", voice.name, "-s", str(voice.speed), "-p", str(voice.pitch), "--stdout", word]
    made = subprocess.run(["espeak-ng", *options], check=True, capture_output=True)  # noqa: S607
    # The header gives no length, as the file was a pipe.
    with wave.open(io.BytesIO(made.stdout)) as file:
        rate, sound = file.getframerate(), np.frombuffer(file.readframes(2**24), "<i2")
    return trimmed(_resampled((sound / 2**15).astype(np.float32), rate))


def _resampled(sound: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    from scipy.signal import resample_poly

    common = np.gcd(rate, RATE)
    made: NDArray[np.float32] = resample_poly(sound, RATE // common, rate // common).astype(np.float32)
    return made


def trimmed(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a sound without the silence around it, with a peak of 1. Raise ValueError if it is all silence."""
    loud = np.flatnonzero(np.abs(sound) > _QUIET * np.abs(sound).max(initial=0))
    if not len(loud):
        raise ValueError("the clip is silent")
    sound = sound[max(0, loud[0] - _MARGIN) : loud[-1] + _MARGIN]
    louder: NDArray[np.float32] = sound / np.abs(sound).max()
    return louder


def packed(sound: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return samples between -1 and 1 as a byte each."""
    curved = np.sign(sound) * np.log1p(_MU * np.abs(np.clip(sound, -1, 1))) / np.log1p(_MU)
    data: NDArray[np.uint8] = np.round((curved + 1) / 2 * _MU).astype(np.uint8)
    return data


def _levels() -> NDArray[np.float32]:
    curved = np.arange(256) / _MU * 2 - 1
    levels: NDArray[np.float32] = (np.sign(curved) * np.expm1(np.abs(curved) * np.log1p(_MU)) / _MU).astype(np.float32)
    return levels


_LEVELS = _levels()


def unpacked(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return what `packed` made bytes of."""
    return _LEVELS[data]


class Clips:
    """The clips of a file, by their numbers: `words[i]` is the word of clip i, and `voices[i]` the voice's number."""

    def __init__(self, folder: Path, split: Split) -> None:
        with np.load(folder / FILE, allow_pickle=False) as file:
            self.words: NDArray[np.int32] = file[f"{split}_words"]
            self.voices: NDArray[np.int32] = file[f"{split}_voices"]
            self._ends: NDArray[np.int64] = file[f"{split}_ends"]
            self._data: NDArray[np.uint8] = file[f"{split}_data"]
        self._of_voice = {int(one): np.flatnonzero(self.voices == one) for one in np.unique(self.voices)}

    def sound(self, number: int) -> NDArray[np.float32]:
        """Return a clip's samples."""
        begin = self._ends[number - 1] if number else 0
        return unpacked(self._data[begin : self._ends[number]])

    def one_voice(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of all clips of one voice."""
        return self._of_voice[int(rng.choice(list(self._of_voice)))]


def mel_filters() -> NDArray[np.float32]:
    """Return Whisper's mel filters, [mels, frequencies]."""
    import mlx_audio.dsp

    return np.array(mlx_audio.dsp.mel_filters(RATE, 400, MELS, norm="slaney", mel_scale=None), np.float32)


def _takes(split: Split, takes: int, seed: str) -> Iterator[tuple[int, Voice]]:
    for number, variant in enumerate(VARIANTS[split]):
        for take in range(takes):
            yield number * takes + take, voice(Random(f"{seed}:{variant}:{take}"), split, variant)


def made(split: Split, takes: int, words: tuple[str, ...] = WORDS) -> dict[str, NDArray[Any]]:
    """Speak every word in every variant of a split, `takes` times, each in another accent, speed and pitch."""
    todo = [(at, number, one) for number, one in _takes(split, takes, split) for at in range(len(words))]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        sounds = list(threads.map(lambda item: packed(spoken(words[item[0]], item[2])), todo))
    return {
        f"{split}_words": np.array([at for at, _, _ in todo], np.int32),
        f"{split}_voices": np.array([number for _, number, _ in todo], np.int32),
        f"{split}_ends": np.cumsum([len(sound) for sound in sounds]),
        f"{split}_data": np.concatenate(sounds),
    }


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--takes", type=int, default=2, help="takes of each word in each variant")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the file")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Any] = made("train", arguments.takes) | made("held", 1)
    np.savez_compressed(arguments.out / FILE, mel_filters=mel_filters(), **parts)
    print(f"{(arguments.out / FILE).stat().st_size:,} bytes, {len(parts['train_words'])} clips to train with")


if __name__ == "__main__":
    main()
