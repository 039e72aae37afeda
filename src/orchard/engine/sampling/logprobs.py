"""The model's own log-probabilities: before temperature, penalties and cut-offs."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx

from orchard.engine.sampling import categorical
from orchard.engine.sampling.params import Sample

_SMALLEST = -9999.0  # JSON has no infinity; OpenAI writes this number too
_MOST_LOGITS = 2**24  # of one piece of a prompt: 64 MiB in float32


class Logprobs(NamedTuple):
    """Log-probabilities at n places: of the tokens `ids` (n,) there, `own` (n, 1), and of the likeliest, `top`.

    `top`: ids and values, both (n, k), likeliest first; None where k is 0.
    """

    ids: mx.array
    own: mx.array
    top: tuple[mx.array, mx.array] | None

    @classmethod
    def of(cls, raw: mx.array, ids: mx.array, count: int) -> "Logprobs":
        """Queue the computation from logits (n, vocab_size) in float32; `count`: how many of the likeliest."""
        total = mx.logsumexp(raw, axis=-1, keepdims=True)
        top = None
        if count:
            leading = categorical.leading(raw, count)
            top = leading, mx.take_along_axis(raw, leading, axis=-1) - total
        return cls(ids, mx.take_along_axis(raw, ids[:, None], axis=-1) - total, top)

    def arrays(self) -> list[mx.array]:
        """Return what must be evaluated."""
        return [self.ids, self.own, *(self.top or ())]

    def read(self) -> list[Sample]:
        """Wait for the values and return them, one sample a place."""
        read: Any = [array.tolist() for array in self.arrays()]
        ids, own, *top = read
        pairs = [zip(*place, strict=True) for place in zip(*top, strict=True)] if top else [()] * len(ids)
        return [
            Sample(id_, _finite(value), tuple((other, _finite(its)) for other, its in best))
            for id_, (value,), best in zip(ids, own, pairs, strict=True)
        ]


class Scoring:
    """Scores a prompt's own tokens while it is read: piece by piece, each of a bounded number of logits."""

    def __init__(self, count: int, vocab_size: int) -> None:
        """`count`: how many of the likeliest tokens are reported beside each of the prompt's own."""
        self._count = min(count, vocab_size)
        self.most_places = max(1, _MOST_LOGITS // vocab_size)
        """How many tokens a piece may have."""
        self._pieces: list[Logprobs] = []

    def add(self, logits: mx.array, following: Sequence[int]) -> list[mx.array]:
        """Queue the scores of the tokens that follow each of those read, from logits (n, vocab_size).

        Return what must be evaluated.
        """
        piece = Logprobs.of(logits.astype(mx.float32), mx.array(list(following), mx.uint32), self._count)
        self._pieces.append(piece)
        return piece.arrays()

    def take(self) -> list[Logprobs]:
        """Return the pieces that were added since the last call, and forget them."""
        pieces, self._pieces = self._pieces, []
        return pieces


def _finite(logprob: float) -> float:
    return max(logprob, _SMALLEST) if math.isfinite(logprob) else _SMALLEST
