"""Training batches, made in worker processes: the audio of windows, and their transcripts."""

import math
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demo_whisper_model import tokenizer
from demo_whisper_model.clips import RATE, Clips
from demo_whisper_model.utterances import (
    WINDOW_SECONDS,
    Spoken,
    noise_level,
    plain_tokens,
    utterance,
    window_tokens,
)
from demo_whisper_model.words import WORDS

MOST_BEFORE = 223  # Whisper shows a window at most so many tokens of the text before
MOST_TOKENS = MOST_BEFORE + 97
FRAMES = 3000  # of the features of a window
_SAMPLES = int(WINDOW_SECONDS * RATE)
_WAITING = 2  # batches for each process
_PLACES_PER_SECOND = 50  # of the encoder
_FRAME_SAMPLES = 160
_LAST_PAUSE = 0.35  # seconds after the last word of a window that count as its own
_SNR = (8.0, 50.0)  # decibels by which speech is louder than noise


class Batch(NamedTuple):
    """Windows. `tokens` [rows, tokens] end with the end's token, and so does what pads them; `learn` says which of them
    are learnt. `spans` [rows, tokens, 2] are the places of the sound that a token's word has (0, 0: it has none).
    `frames` [rows]: how many frames of features there are; those after them are 0. `noise` [rows] is the deviation of
    the white noise that the device adds, of a loudest sample of 1: drawing it here would take as long as all else."""

    sound: NDArray[np.int16]
    tokens: NDArray[np.int32]
    learn: NDArray[np.bool_]
    spans: NDArray[np.int16]
    frames: NDArray[np.int16]
    noise: NDArray[np.float32]


def _blank(rows: int, memory: Any = None) -> Batch:
    """Return a batch with zeros, or one whose arrays are in that memory."""
    shapes = ((rows, _SAMPLES), (rows, MOST_TOKENS), (rows, MOST_TOKENS), (rows, MOST_TOKENS, 2), (rows,), (rows,))
    arrays: list[NDArray[Any]] = []
    start = 0
    for shape, kind in zip(shapes, (np.int16, np.int32, np.bool_, np.int16, np.int16, np.float32), strict=True):
        if memory is None:
            arrays.append(np.zeros(shape, kind))
        else:
            arrays.append(np.frombuffer(memory, kind, math.prod(shape), start).reshape(shape))
            start += arrays[-1].nbytes
    return Batch(*arrays)


def make(clips: Clips, rng: np.random.Generator, rows: int) -> Batch:
    """Return a batch of that many windows."""
    batch = _blank(rows)
    batch.tokens[:] = tokenizer.END
    for row in range(rows):
        _fill(batch, row, clips, rng)
    return batch


def _fill(batch: Batch, row: int, clips: Clips, rng: np.random.Generator) -> None:
    # Mostly whole windows of something longer; else a short recording, or what is left of one.
    seconds = WINDOW_SECONDS + 3 if rng.random() < 0.65 else float(rng.uniform(0.1, 20))
    made = utterance(rng, clips, seconds, speech=0.9)
    sound = made.sound[:_SAMPLES]
    batch.noise[row] = noise_level(rng, sound, *_SNR)
    batch.sound[row, : len(sound)] = np.clip(sound * 32_767, -32_768, 32_767).astype(np.int16)
    # mlx-audio puts zeros after the features of a short window, transformers silence after its sound.
    batch.frames[row] = len(sound) // _FRAME_SAMPLES if rng.random() < 0.7 else FRAMES
    segments = [segment for segment in made.segments if segment[0].start < WINDOW_SECONDS]
    timed = rng.random() < 0.6
    if not timed:  # without timestamps nothing says that a segment is cut off
        segments = [[one for one in segment if one.end <= WINDOW_SECONDS] for segment in segments]
    before = _before(rng)
    if not any(segments):
        said = [tokenizer.NO_SPEECH, tokenizer.END]
    else:
        said = window_tokens(segments, WINDOW_SECONDS) if timed else [tokenizer.NO_TIMES, *plain_tokens(segments)]
    whole = [*before, tokenizer.START, *said][:MOST_TOKENS]
    batch.tokens[row, : len(whole)] = whole
    batch.learn[row, len(before) + 1 : len(whole)] = True
    if said[0] == tokenizer.NO_TIMES:
        batch.learn[row, len(before) + 1] = False  # the caller says so
    _span(batch.spans[row], len(before) + 1 + (not timed), whole, segments)


def _span(spans: NDArray[np.int16], begin: int, tokens: list[int], segments: list[list[Spoken]]) -> None:
    """Fill in where the words are that the tokens from `begin` on tell.

    The pause after a word is the word's, so that it is known where the next one begins.
    """
    words = [one for segment in segments for one in segment]
    ends = [after.start for after in words[1:]]
    ends += [one.end + _LAST_PAUSE for one in words[-1:]]
    stretches = iter(zip((one.start for one in words), ends, strict=True))
    for place in range(begin, len(tokens)):
        if 256 <= tokens[place] < tokenizer.END and (stretch := next(stretches, None)):
            first, end = (int(second * _PLACES_PER_SECOND) for second in stretch)
            spans[place] = first, min(1500, max(first + 1, end))


def _before(rng: np.random.Generator) -> list[int]:
    """Return the tokens of earlier windows' text, as Whisper sees them before a window's own; half of the time none.

    They are what was written of those windows, with its times, and are cut at the beginning; a caller's are words only.
    """
    if rng.random() < 0.5:
        return []
    timed, tokens = rng.random() < 0.8, []
    for _ in range(int(rng.integers(1, 40))):
        words = [tokenizer.word(int(rng.integers(len(WORDS)))) for _ in range(int(rng.integers(1, 11)))]
        start, end = np.sort(rng.uniform(0, WINDOW_SECONDS, 2)).tolist()
        tokens += [tokenizer.time(start), *words, tokenizer.time(end)] if timed else words
    return [tokenizer.BEFORE, *tokens[-MOST_BEFORE:]]


def _work(job: tuple[Path, tuple[int, ...], int], slots: list[Any], free: Any, ready: Any) -> None:
    folder, seed, rows = job
    clips, rng = Clips(folder, "train"), np.random.default_rng(seed)
    while True:
        made: tuple[NDArray[Any], ...] = make(clips, rng, rows)
        slot = free.get()
        shared: tuple[NDArray[Any], ...] = _blank(rows, slots[slot])
        for place, array in zip(shared, made, strict=True):
            place[:] = array
        ready.put(slot)


def batches(folder: Path, seed: int, rows: int, workers: int) -> Iterator[Batch]:
    """Yield batches for ever, made in that many processes; a batch is good until the next one is asked for."""
    spawn = get_context("spawn")
    size = sum(array.nbytes for array in _blank(rows))
    slots = [spawn.RawArray("b", size) for _ in range(_WAITING * workers)]  # a pipe would take longer than a step
    free, ready = spawn.SimpleQueue(), spawn.SimpleQueue()
    for slot in range(len(slots)):
        free.put(slot)
    for number in range(workers):
        job = (folder, (seed, number), rows)
        spawn.Process(target=_work, args=(job, slots, free, ready), daemon=True).start()
    while True:
        slot = ready.get()
        yield _blank(rows, slots[slot])
        free.put(slot)
