"""Penalties for tokens that a row already has, for all rows of a batch with penalties."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from orchard.engine.sampling.params import SamplingParams


class TallyState(NamedTuple):
    """The state of one kind of penalty at some moment: see `_Tally`."""

    counts: mx.array
    ring: mx.array
    lengths: list[int]


class Penalties:
    """Counts tokens on the device and changes their logits. Rows without penalties cost nothing."""

    def __init__(self, vocab_size: int) -> None:
        self._repetition = _Tally(vocab_size)
        # A row is in the second only if its presence and frequency penalties have different context sizes.
        self._additive = _Tally(vocab_size), _Tally(vocab_size)

    def add(self, row: int, params: SamplingParams, prompt: Sequence[int], generated: Sequence[int]) -> None:
        """Add row number `row`, the greatest so far; `generated`: the tokens that were already drawn for it."""
        if params.repetition_penalty != 1:
            tokens = [*prompt, *generated]
            self._repetition.add(row, params.repetition_context_size, tokens, (params.repetition_penalty, 0.0))
        wanted: dict[int, tuple[float, float]] = {}
        if params.frequency_penalty:
            wanted[params.frequency_context_size] = params.frequency_penalty, 0.0
        if params.presence_penalty:
            frequency, _ = wanted.get(params.presence_context_size, (0.0, 0.0))
            wanted[params.presence_context_size] = frequency, params.presence_penalty
        for tally, (context, factors) in zip(self._additive, wanted.items(), strict=False):
            tally.add(row, context, generated, factors)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        for tally in self._tallies():
            tally.keep(rows)

    def apply(self, scores: mx.array) -> mx.array:
        """Return scores, float32 (B, vocab_size), with the penalties applied."""
        scores = self._repetition.change(scores, _apply_repetition_penalty)
        for tally in self._additive:
            scores = tally.change(scores, _subtract_penalties)
        return scores

    def count(self, token: mx.array) -> None:
        """Count the tokens (B,) that have been drawn."""
        for tally in self._tallies():
            tally.count(token)

    def state(self) -> list[mx.array]:
        """Return the arrays to evaluate with every draw."""
        return [array for tally in self._tallies() for array in tally.state()]

    def save_state(self) -> list[TallyState]:
        """Return the present state, for `settle`."""
        return [tally.save_state() for tally in self._tallies()]

    def settle(self, states: Sequence[list[TallyState]], places: Sequence[int]) -> None:
        """Take row i back to the state `states[places[i]]`."""
        for tally, tally_states in zip(self._tallies(), zip(*states, strict=True), strict=True):
            tally.settle(tally_states, [places[row] for row in tally.rows])

    def _tallies(self) -> list["_Tally"]:
        return [tally for tally in (self._repetition, *self._additive) if tally.rows]


def _apply_repetition_penalty(scores: mx.array, counts: mx.array, factors: mx.array) -> mx.array:
    penalty = factors[:, :1]
    return mx.where(counts > 0, mx.where(scores > 0, scores / penalty, scores * penalty), scores)


def _subtract_penalties(scores: mx.array, counts: mx.array, factors: mx.array) -> mx.array:
    return scores - (factors[:, :1] * counts + factors[:, 1:] * (counts > 0))


class _Tally:
    """How often each token is among the last tokens of n rows: counts, float32 (n, vocab_size)."""

    def __init__(self, vocab_size: int) -> None:
        self.rows: list[int] = []
        self._size = vocab_size
        self._windows: list[int] = []  # 0: all tokens count
        self._lengths: list[int] = []  # tokens so far
        self._factors: list[tuple[float, float]] = []
        self._counts = mx.zeros((0, vocab_size), mx.float32)
        # The token at place p of a row is in column p modulo its window.
        self._ring = mx.zeros((0, 0), mx.uint32)
        self._arrays: tuple[mx.array, mx.array, mx.array] | None = None

    def add(self, row: int, window: int, tokens: Sequence[int], factors: tuple[float, float]) -> None:
        last = np.asarray(tokens[-window:] if window else tokens, np.int64)
        counts = np.bincount(last, minlength=self._size).astype(np.float32)
        self._counts = mx.concatenate([self._counts, mx.array(counts)[None]])
        columns = min(window, len(tokens))
        self._reserve(columns)
        ring = np.zeros(self._ring.shape[1], np.uint32)
        if window:
            ring[np.arange(len(tokens) - columns, len(tokens)) % window] = last
        self._ring = mx.concatenate([self._ring, mx.array(ring)[None]])
        self.rows.append(row)
        self._windows.append(window)
        self._lengths.append(len(tokens))
        self._factors.append(factors)
        self._arrays = None

    def keep(self, rows: Sequence[int]) -> None:
        here = {row: place for place, row in enumerate(self.rows)}
        places = [here[row] for row in rows if row in here]
        self.rows = [new for new, row in enumerate(rows) if row in here]
        self._windows = [self._windows[place] for place in places]
        self._lengths = [self._lengths[place] for place in places]
        self._factors = [self._factors[place] for place in places]
        if places:
            self._counts, self._ring = self._counts[mx.array(places)], self._ring[mx.array(places)]
        else:
            self._counts, self._ring = mx.zeros((0, self._size), mx.float32), mx.zeros((0, 0), mx.uint32)
        self._arrays = None

    def change(self, scores: mx.array, penalize: Callable[[mx.array, mx.array, mx.array], mx.array]) -> mx.array:
        """Return scores (B, vocab_size), with those of the tally's rows replaced by how(scores, counts, factors)."""
        if not self.rows:
            return scores
        rows, _, factors = self._constants()
        if len(self.rows) == scores.shape[0]:
            return penalize(scores, self._counts, factors)
        changed = mx.array(scores)
        changed[rows] = penalize(scores[rows], self._counts, factors)
        return changed

    def count(self, token: mx.array) -> None:
        rows, places, _ = self._constants()
        token = token[rows]
        self._counts = self._counts.at[places, token].add(1.0)
        if any(self._windows):
            self._slide(token)
        self._lengths = [length + 1 for length in self._lengths]

    def state(self) -> list[mx.array]:
        return [self._counts, self._ring]

    def save_state(self) -> TallyState:
        return TallyState(self._counts, self._ring, self._lengths)

    def settle(self, states: Sequence[TallyState], places: Sequence[int]) -> None:
        own = mx.array(list(places)), mx.arange(len(places))
        self._counts = mx.stack([state.counts for state in states])[own]
        width = self._ring.shape[1]
        self._ring = mx.stack([mx.pad(state.ring, [(0, 0), (0, width - state.ring.shape[1])]) for state in states])[own]
        self._lengths = [states[place].lengths[row] for row, place in enumerate(places)]

    def _slide(self, token: mx.array) -> None:
        """Replace the tokens that leave the windows by `token` (n,)."""
        pairs = list(zip(self._windows, self._lengths, strict=True))
        self._reserve(max(min(window, length + 1) for window, length in pairs))
        column = mx.array([[length % window if window else 0] for window, length in pairs])
        leaves = mx.array([float(0 < window <= length) for window, length in pairs])
        _, places, _ = self._constants()
        oldest = mx.take_along_axis(self._ring, column, axis=1)[:, 0]
        self._counts = self._counts.at[places, oldest].add(-leaves)
        self._ring = mx.put_along_axis(self._ring, column, token[:, None], axis=1)

    def _reserve(self, columns: int) -> None:
        """Widen the ring to at least `columns`; add spare columns, so that this is rare."""
        missing = columns - self._ring.shape[1]
        if missing > 0:
            self._ring = mx.pad(self._ring, [(0, 0), (0, max(missing, columns // 2))])

    def _constants(self) -> tuple[mx.array, mx.array, mx.array]:
        """Return the rows (n,), their places here (n,), and their factors (n, 2)."""
        if self._arrays is None:
            self._arrays = mx.array(self.rows), mx.arange(len(self.rows)), mx.array(self._factors)
        return self._arrays
