"""Jobs for a text model in which media stand for words: what it must answer is what it answers to the words."""

import hashlib
from collections.abc import Callable, Sequence

import mlx.core as mx
from msgspec.structs import replace

from orchard.engine.batching.job import Job, MediaSpan
from orchard.engine.batching.model import PromptEmbeddings

PAD = 7
Asked = list[tuple[int, int]]


def digest(content: object) -> bytes:
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()


def with_media(
    job: Job,
    runs: Sequence[tuple[int, int]],
    words: Callable[[mx.array], mx.array],
    *,
    divisible: bool = True,
    at_once: bool = True,
    asked: Asked | None = None,
) -> Job:
    """Give a job that reads the same, but has media in the place of some runs of its words.

    `words` embeds tokens. `at_once`: all media are encoded together, not each when its turn comes. `asked` gets the
    places from which, and up to which, something was encoded.
    """
    hidden = list(job.prompt)
    prompt = list(hidden)
    for start, stop in runs:
        prompt[start:stop] = [PAD] * (stop - start)

    def embed(cached: int) -> PromptEmbeddings:
        left = [run for run in runs if run[0] >= cached]
        assert not any(start < cached < stop for start, stop in runs)
        if not left:
            return PromptEmbeddings(cached)
        end = len(hidden) if at_once else left[0][1]
        if asked is not None:
            asked.append((cached, end))
        return PromptEmbeddings(cached, words(mx.array([hidden[cached:end]])))

    spans = tuple(MediaSpan(start, stop, digest(hidden[start:stop]), divisible) for start, stop in runs)
    return replace(job, prompt=prompt, spans=spans, embed=embed)
