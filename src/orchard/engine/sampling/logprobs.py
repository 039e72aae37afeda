"""Logprobs of the model's own distribution: before temperature, penalties and cut-offs."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx

from orchard.engine.sampling import categorical
from orchard.engine.sampling.params import Sample

_MIN_LOGPROB = -9999.0  # JSON has no infinity; OpenAI writes this number, too
_MOST_LOGITS = 2**24  # for one piece of a prompt: 64 MiB in float32


class Logprobs(NamedTuple):
    """Logprobs at n places: `own` (n, 1) of the tokens `ids` (n,) there, and `top` of the most likely tokens.

    `top`: ids and logprobs, both (n, k), the most likely first; None if k is 0.
    """

    ids: mx.array
    own: mx.array
    top: tuple[mx.array, mx.array] | None

    @classmethod
    def from_logits(cls, raw: mx.array, ids: mx.array, count: int) -> "Logprobs":
        """Queue the computation from logits (n, vocab_size) in float32; `count`: how many most likely tokens."""
        total = mx.logsumexp(raw, axis=-1, keepdims=True)
        top = None
        if count:
            leading_ids = categorical.leading_ids(raw, count)
            top = leading_ids, mx.take_along_axis(raw, leading_ids, axis=-1) - total
        return cls(ids, mx.take_along_axis(raw, ids[:, None], axis=-1) - total, top)

    def arrays(self) -> list[mx.array]:
        """Return the arrays to evaluate."""
        return [self.ids, self.own, *(self.top or ())]

    def read(self) -> list[Sample]:
        """Wait for the values; return one sample for each place."""
        read: Any = [array.tolist() for array in self.arrays()]
        ids, own, *top = read
        pairs = [zip(*place, strict=True) for place in zip(*top, strict=True)] if top else [()] * len(ids)
        return [
            Sample(id_, _clamp_logprob(value), tuple((other, _clamp_logprob(its)) for other, its in best))
            for id_, (value,), best in zip(ids, own, pairs, strict=True)
        ]


class Scoring:
    """Scores a prompt's own tokens during its prefill, in pieces with a bounded number of logits."""

    def __init__(self, count: int, vocab_size: int) -> None:
        """`count`: how many of the most likely tokens to report for each prompt token."""
        self._count = min(count, vocab_size)
        self.most_places = max(1, _MOST_LOGITS // vocab_size)
        """The most tokens of a piece."""
        self._pieces: list[Logprobs] = []

    def add(self, logits: mx.array, following: Sequence[int]) -> list[mx.array]:
        """Queue the scores of the n `following` tokens from logits (n, vocab_size); return the arrays to evaluate."""
        piece = Logprobs.from_logits(logits.astype(mx.float32), mx.array(list(following), mx.uint32), self._count)
        self._pieces.append(piece)
        return piece.arrays()

    def take(self) -> list[Logprobs]:
        """Return the pieces that were added since the last call, and forget them."""
        pieces, self._pieces = self._pieces, []
        return pieces


def _clamp_logprob(logprob: float) -> float:
    return max(logprob, _MIN_LOGPROB) if math.isfinite(logprob) else _MIN_LOGPROB
