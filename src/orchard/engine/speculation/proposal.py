"""Proposals: guesses of a row's next tokens."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import mlx.core as mx
from msgspec import Struct

Source = Literal["ngram", "prediction", "grammar", "draft", "mtp"]

DRAFTS: frozenset[Source] = frozenset({"draft", "mtp"})
"""The sources whose guesses need forward passes: of a draft model, or of the model's own MTP head."""


class Proposal(Struct, frozen=True):
    """Guesses of a row's next tokens. `chances`: for each, how likely it and all guesses before it are right.

    A draft's proposal has no tokens until it is chosen, since they need passes of a model. `unread_count`: how many
    tokens of the row's text the draft must read first.
    """

    source: Source
    tokens: list[int]
    chances: list[float]
    unread_count: int = 0

    @property
    def count(self) -> int:
        """How many tokens are proposed, including those that a draft has yet to guess."""
        return len(self.chances)

    def part(self, start: int, stop: int | None = None) -> "Proposal":
        """Return the guesses from `start` to `stop`, with the same chances."""
        return Proposal(self.source, self.tokens[start:stop], self.chances[start:stop], self.unread_count)


class DraftedTokens(Struct):
    """A draft's guesses for several rows: the first `counts[i]` tokens of row i in `array`, uint32 (rows, most).

    The device may still compute them. `read` calls `on_read` with them.
    """

    array: mx.array
    counts: list[int]
    on_read: Callable[[list[list[int]]], None] = lambda tokens: None
    compiled: bool = False
    """Whether something was compiled for these guesses, so that they took much longer than later ones will."""

    @classmethod
    def from_lists(cls, tokens: Sequence[Sequence[int]]) -> "DraftedTokens":
        """Return guesses that are already computed."""
        counts = [len(guesses) for guesses in tokens]
        most = max(counts, default=0)
        padded = [[*guesses, *[0] * (most - len(guesses))] for guesses in tokens]
        return cls(mx.array(padded, mx.uint32).reshape(len(counts), most), counts)

    def read(self) -> list[list[int]]:
        """Wait for the device; return each row's guesses."""
        listed: Any = self.array.tolist()
        tokens = [guesses[:count] for guesses, count in zip(listed, self.counts, strict=True)]
        self.on_read(tokens)
        return tokens
