"""Turn training conversations into token arrays, in worker processes, in an order that the seed fixes.

A row is one whole conversation, padded to one of a few lengths, so that each starts at position 0 as it does in use.
"""

import multiprocessing
import os
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demo_model import text
from demo_model.data import training_conversations
from demo_model.template import render

# Token ids are below 2**15, so the top bit can say "learn to predict this one".
LEARN = 0x8000
# Every length divides BATCH: all batches have the same number of tokens, and one compiled step serves them all.
BATCH = 122_880
LENGTHS = (96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 2048, 4096)
_SHARDS = 100_000

Rows = list[tuple[int, NDArray[np.uint16]]]


def _tokens(tokenizer: Any, texts: list[str]) -> tuple[list[int], list[int]]:
    """Cut texts into tokens; return also where each token starts. At an empty text no token goes on."""
    ids: list[int] = []
    starts: list[int] = []
    begun = 0
    for whole, some in groupby(texts, bool):
        if whole:
            text = "".join(some)
            encoded = tokenizer.encode(text)
            ids += encoded.ids
            starts += [begun + start for start, _ in encoded.offsets]
            begun += len(text)
    return ids, starts


def encode(folder: Path, seed: int, count: int, shard: int) -> Rows:
    """Make one shard: (padded length, row) pairs, with ``LEARN`` set on the tokens the assistant writes."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text.PIECES[:] = sorted(
        piece for piece in tokenizer.get_vocab() if piece.isascii() and piece.isalpha() and len(piece) > 1
    )
    rows: Rows = []
    for conversation in training_conversations(seed, shard, count):
        segments = render(conversation.messages, conversation.tools, conversation.thinking)
        learnt = np.repeat([learn for _, learn in segments], [len(part) for part, _ in segments])
        ids, starts = _tokens(tokenizer, [part for part, _ in segments])
        length = next((length for length in LENGTHS if length >= len(ids)), 0)
        if not length:
            continue
        row = np.zeros(length, np.uint16)
        row[: len(starts)] = np.array(ids, np.uint16) | np.where(learnt[starts], LEARN, 0).astype(np.uint16)
        rows.append((length, row))
    return rows


def batches(folder: Path, seed: int, workers: int) -> Iterator[NDArray[np.uint16]]:
    """Yield batches of ``BATCH`` tokens in rows of one length."""
    waiting: dict[int, list[NDArray[np.uint16]]] = {length: [] for length in LENGTHS}
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for rows in pool.imap(partial(encode, folder, seed, 1000), range(_SHARDS)):
            for length, row in rows:
                waiting[length].append(row)
                if len(waiting[length]) * length == BATCH:
                    yield np.stack(waiting[length])
                    waiting[length] = []
