"""Measure the demo Whisper model in voices that are not in the training data, through the code that serves it.

python -m demo_whisper_model.evaluate --model FOLDER --clips FOLDER [--seconds 1 5 30 120 600] [--card] [--show 5]
"""

import argparse
import json
import tempfile
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demo_whisper_model.card import CARD, Figures, card, table
from demo_whisper_model.clips import RATE, Clips
from demo_whisper_model.utterances import Spoken, Utterance, utterance, with_noise, word_errors
from demo_whisper_model.words import WORDS

NEAR_SECONDS = 0.15
_FEWEST_WORDS = 100  # of the recordings of one length; a second has less than one word
_SNR = (15.0, 50.0)  # decibels by which speech is louder than noise


class Heard(NamedTuple):
    """A word that a model wrote, and the second where it says that it begins."""

    word: str
    start: float


def recording(seed: int, clips: Clips, seconds: float) -> Utterance:
    """Return a recording of a voice with noise, the same one for a seed."""
    rng = np.random.default_rng((seed, int(seconds * 1000)))
    made = utterance(rng, clips, seconds, speech=1.0)
    made.sound = with_noise(rng, made.sound, *_SNR)
    return made


def recordings(clips: Clips, seconds: float, least: int) -> list[Utterance]:
    """Return at least so many recordings, and as many as it takes until they have enough words for a percentage."""
    made: list[Utterance] = []
    words = 0
    while len(made) < least or words < _FEWEST_WORDS:
        made.append(recording(len(made), clips, seconds))
        words += sum(map(len, made[-1].segments))
    return made


def matched(expected: Sequence[Spoken], heard: Sequence[Heard]) -> list[tuple[Spoken, Heard]]:
    """Return the pairs of equal words of the longest common sequence."""
    lengths = np.zeros((len(expected) + 1, len(heard) + 1), int)
    same = [[WORDS[one.word] == other.word for other in heard] for one in expected]
    for at in range(len(expected) - 1, -1, -1):
        for other in range(len(heard) - 1, -1, -1):
            skip = max(lengths[at + 1, other], lengths[at, other + 1])
            lengths[at, other] = max(skip, lengths[at + 1, other + 1] + 1) if same[at][other] else skip
    pairs, at, other = [], 0, 0
    while at < len(expected) and other < len(heard):
        if same[at][other] and lengths[at, other] == lengths[at + 1, other + 1] + 1:
            pairs.append((expected[at], heard[other]))
            at, other = at + 1, other + 1
        elif lengths[at + 1, other] >= lengths[at, other + 1]:
            at += 1
        else:
            other += 1
    return pairs


def transcribed(model: Any, made: Utterance) -> list[Heard]:
    """Return the words that a `backends.audio.whisper.Whisper` writes."""
    from orchard.core.tasks.transcribe import Segment, Transcribe

    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        with wave.open(file, "wb") as sound:
            sound.setparams((1, 2, RATE, 0, "NONE", ""))
            sound.writeframes((made.sound.clip(-1, 1) * 32_767).astype("<i2").tobytes())
        steps = model.transcribe(Transcribe(file.name, words=True), lambda: None)
        segments = [one for step in steps for one in step.made if isinstance(one, Segment)]
    return [Heard(word.text.strip(), word.start) for one in segments for word in one.words]


def figures(todo: Sequence[tuple[Utterance, list[Heard]]]) -> dict[str, float]:
    """Return the figures of recordings of one length."""
    words = errors = pairs = near = 0
    for made, heard in todo:
        expected = [one for segment in made.segments for one in segment]
        words += len(expected)
        errors += word_errors([WORDS[one.word] for one in expected], [one.word for one in heard])
        found = matched(expected, heard)
        pairs += len(found)
        near += sum(abs(one.start - other.start) <= NEAR_SECONDS for one, other in found)
    return {
        "recordings": len(todo),
        "words": words,
        "errors": errors / max(1, words),
        "near": near / max(1, pairs),
    }


def main() -> None:
    """Measure, and print the figures as a line of JSON and as the table of the model card."""
    from orchard.backends.audio import whisper

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="the folder that export wrote")
    parser.add_argument("--clips", type=Path, required=True, help="the folder that the clips are in")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1, 5, 30, 120, 600], help="lengths of recordings")
    parser.add_argument("--recordings", type=int, default=10, help="the fewest recordings of each length")
    parser.add_argument("--card", action="store_true", help="also write the card with these figures into the folder")
    parser.add_argument("--show", type=int, default=0, help="wrong transcripts to print for each length")
    arguments = parser.parse_args()
    clips = Clips(arguments.clips, "held")
    model = whisper.load_whisper(arguments.model, lambda fraction: None)
    found: dict[str, dict[str, float]] = {}
    for seconds in arguments.seconds:
        todo = [(one, transcribed(model, one)) for one in recordings(clips, seconds, arguments.recordings)]
        found[f"{seconds:g}"] = figures(todo)
        wrong = [(one, heard) for one, heard in todo if figures([(one, heard)])["errors"]]
        for one, heard in wrong[: arguments.show]:
            want = " ".join(WORDS[word.word] for segment in one.segments for word in segment)
            print(f"[{seconds:g} s] want {want!r}\n  got  {' '.join(word.word for word in heard)!r}")
    _tell(found, arguments.model if arguments.card else None)


def _tell(found: Figures, folder: Path | None) -> None:
    print(json.dumps(found))
    print(table(found))
    if folder:
        (folder / CARD).write_text(card(found))


if __name__ == "__main__":
    main()
