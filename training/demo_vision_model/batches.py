"""Make training batches in worker processes: images and token rows, in an order that the seed fixes.

All rows of a batch have the same number of images, of the same sizes, so only the ends of the rows are padded. Batches
are returned through memory that the processes share; a pipe would be too slow for images.
"""

import math
import mmap
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, cycle
from multiprocessing.connection import wait
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demo_model.text import Split
from demo_vision_model import questions
from demo_vision_model.data import Conversation, about_pictures, without_pictures
from demo_vision_model.pictures import FACTOR, draw, fitted, look, pixels
from demo_vision_model.scenes import Scene, scene
from demo_vision_model.template import PAD, render

# Token ids are below 2**15, so the top bit can say "learn to predict this one".
LEARN = 0x8000
# Tokens wide and high of what a processor makes of pictures up to twice as wide as high; most become 10 by 10.
_WIDE = (
    (10, 9), (9, 8), (10, 8), (11, 9), (11, 8), (10, 7), (12, 8), (11, 7), (12, 7), (11, 6), (13, 7), (14, 7), (12, 6),
)  # fmt: skip
GRIDS = ((8, 8), (9, 9), *[(10, 10)] * 4, *_WIDE, *((high, wide) for wide, high in _WIDE))
_COUNTS, _WEIGHTS = (1, 2, 3, 4, 5, 6), (24, 24, 20, 15, 10, 7)
_TEXT = 176
_SLOT = 64 << 20
_SLOTS_EACH = 3


@dataclass(slots=True)
class Batch:
    """Token rows (rows, length), the pictures (rows, height, width, 3) of each of 0 to 2 places, and answers' kinds."""

    tokens: NDArray[np.uint16]
    pictures: list[NDArray[np.uint8]]
    kinds: list[list[str]]


@cache
def tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a folder."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def size_for(rng: Random, grid: tuple[int, int]) -> tuple[int, int]:
    """Draw the width and height of a picture that the processor resizes to ``grid`` tokens."""
    wide, high = grid[0] * FACTOR, grid[1] * FACTOR
    for _ in range(20):
        scale = rng.choices((1.0, rng.uniform(0.7, 1.5), rng.uniform(1.4, 3.5)), (0.5, 0.4, 0.1))[0]
        width, height = (max(24, round(side * scale + rng.uniform(-6, 6) * (scale != 1))) for side in (wide, high))
        if fitted(width, height) == (wide, high):
            return width, height
    return wide, high


def _encode(folder: Path, made: Conversation, sizes: list[int]) -> NDArray[np.uint16]:
    segments = render(made.messages)
    learnt = np.repeat([learn for _, learn in segments], [len(part) for part, _ in segments])
    encoded = tokenizer(folder).encode("".join(part for part, _ in segments))
    ids = np.array(encoded.ids, np.uint16)
    flags = np.where(learnt[[start for start, _ in encoded.offsets]], LEARN, 0).astype(np.uint16)
    pads = ids == tokenizer(folder).token_to_id(PAD)
    repeats = np.ones(len(ids), np.int64)
    repeats[pads] = sizes[: int(pads.sum())]
    return np.repeat(ids | flags, repeats)


def _cut(folder: Path, row: NDArray[np.uint16], most: int, kinds: list[str]) -> NDArray[np.uint16]:
    """Return the part of a row that has at most so many tokens and ends with an answer; drop the kinds of the rest."""
    ends = np.flatnonzero(row[:most] == tokenizer(folder).token_to_id("<|im_end|>") | LEARN)
    del kinds[len(ends) :]
    return row[: ends[-1] + 1 if len(ends) else most]


def scenes_for(rng: Random, split: Split, sizes: list[tuple[int, int]]) -> list[Scene]:
    """Draw what one or two pictures of these widths and heights show."""
    aspects = [(width / min(width, height), height / min(width, height)) for width, height in sizes]
    counts = rng.choices(_COUNTS, _WEIGHTS, k=2)
    if len(sizes) == 1:
        return [scene(rng, split, counts[0], aspects[0])]
    return list(questions.two(rng, split, (min(counts[0], 4), min(counts[1], 4)), aspects))


def make(folder: Path, seed: str, number: int, rows: int, split: Split = "train") -> Batch:
    """Make one batch; ``rows`` is the number for one picture a row."""
    rng = Random(f"{seed}:{number}")
    number_of = rng.choices((1, 2, 0), (0.5, 0.44, 0.06))[0]
    rows = rows if number_of < 2 else rows * 5 // 8
    grids = [rng.choice(GRIDS) for _ in range(number_of)]
    if number_of == 2 and rng.random() < 0.75:
        grids[1] = grids[0]
    tokens = [wide * high for wide, high in grids]
    shown: list[list[NDArray[np.uint8]]] = [[] for _ in grids]
    made: list[Conversation] = []
    encoded: list[NDArray[np.uint16]] = []
    for _ in range(rows):
        sizes = [size_for(rng, grid) for grid in grids]
        if number_of == 2 and grids[0] == grids[1] and rng.random() < 0.8:
            sizes[1] = sizes[0]
        scenes = scenes_for(rng, split, sizes) if grids else []
        made.append(about_pictures(rng, split, scenes, 7) if grids else without_pictures(rng, split, 8))
        encoded.append(_cut(folder, _encode(folder, made[-1], tokens), sum(tokens) + _TEXT, made[-1].kinds))
        for i, (one, size) in enumerate(zip(scenes, sizes, strict=True)):
            style = look(rng, size)
            shown[i].append(pixels(draw(one, *size, style), style))
    length = min(max(len(row) for row in encoded), sum(tokens) + _TEXT)
    table = np.zeros((rows, -(-length // 8) * 8), np.uint16)
    for row, ids in zip(table, encoded, strict=True):
        row[: len(ids)] = ids
    return Batch(table, [np.stack(pictures) for pictures in shown], [one.kinds for one in made])


def _work(slots: list[mmap.mmap], free: Any, ready: Any, job: tuple[Path, str, int], numbers: Iterator[int]) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    folder, seed, rows = job
    for number in numbers:
        batch = make(folder, seed, number, rows)
        slot = free.get()
        start, shapes = 0, []
        arrays: list[NDArray[Any]] = [batch.tokens, *batch.pictures]
        for array in arrays:
            np.frombuffer(slots[slot], array.dtype, array.size, start)[:] = array.reshape(-1)
            shapes.append((start, array.shape))
            start += -(-array.nbytes // 64) * 64
        ready.send((slot, shapes))


def _drawn(lines: list[tuple[list[mmap.mmap], Any, Any, Any]]) -> Iterator[Batch]:
    for slots, free, ready, process in cycle(lines):
        wait([ready, process.sentinel])
        if not ready.poll():
            raise RuntimeError("a process that makes batches ended")
        slot, shapes = ready.recv()
        tokens, *pictures = (
            np.frombuffer(slots[slot], np.uint8 if i else np.uint16, math.prod(shape), start).reshape(shape)
            for i, (start, shape) in enumerate(shapes)
        )
        yield Batch(tokens, pictures, [])
        free.put(slot)


def batches(folder: Path, seed: int, rows: int, workers: int) -> Iterator[Batch]:
    """Start the processes, and yield batches for ever; a batch's arrays are good until the next one is asked for."""
    context = multiprocessing.get_context("fork")
    lines = []
    for worker in range(workers):
        slots = [mmap.mmap(-1, _SLOT) for _ in range(_SLOTS_EACH)]
        free = context.SimpleQueue()
        for slot in range(_SLOTS_EACH):
            free.put(slot)
        ready, end = context.Pipe(duplex=False)
        job = (folder, f"train:{seed}", rows)
        process = context.Process(target=_work, args=(slots, free, end, job, count(worker, workers)), daemon=True)
        process.start()
        lines.append((slots, free, ready, process))
    return _drawn(lines)
