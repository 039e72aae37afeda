"""Thinking budgets: a row whose reasoning is too long gets the token that ends it, and can't write it again.

The tokens and the state of the reasoning stay on the device: nothing waits for them.
"""

import itertools
from collections.abc import Sequence

import mlx.core as mx

from orchard.engine.sampling.params import SamplingParams

_IS_OVER = -1  # the reasoning is over, or there is none
_MAY_BEGIN = -2  # the model may still begin the reasoning
_MAX_BLANK = 8  # the token that opens the reasoning must be among the first draws, up to this number
_UNLIMITED = SamplingParams(seed=0)  # for a row without a budget, or without a token that ends its reasoning


class ThinkingBudgets:
    """The state of the reasoning of a batch of rows."""

    def __init__(self) -> None:
        self._states: mx.array | None = None  # (B,): tokens before the reasoning, or a state above; None: no budgets
        self._rows: list[SamplingParams] = []

    def add(self, params: SamplingParams, generated: Sequence[int]) -> None:
        """Append a row for which the tokens `generated` were drawn already."""
        limited = params.thinking_budget is not None and params.think_end >= 0
        if limited or self._states is not None:
            before = mx.array([_IS_OVER] * len(self._rows), mx.int32) if self._states is None else self._states
            begun = _reasoning_state(params, generated) if limited else _IS_OVER
            self._states = mx.concatenate([before, mx.array([begun], mx.int32)])
        self._rows.append(params if limited else _UNLIMITED)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._rows = [self._rows[row] for row in rows]
        if self._states is not None:
            limited = any(one is not _UNLIMITED for one in self._rows)
            self._states = self._states[mx.array(list(rows))] if limited else None

    def state(self) -> list[mx.array]:
        """Return the arrays to compute with every draw."""
        return [] if self._states is None else [self._states]

    def settle(self, states: Sequence[list[mx.array]], places: Sequence[int]) -> None:
        """Take row i back to the state `states[places[i]]`."""
        if self._states is not None:
            begun = mx.stack([array for state in states for array in state])
            self._states = begun[mx.array(list(places)), mx.arange(len(places))]

    def forbid_end(self, scores: mx.array) -> mx.array:
        """Return scores (B, vocab_size) that are -inf for `think_end` in rows whose reasoning is over.

        A model whose reasoning was cut short may try to end it again.
        """
        if self._states is None:
            return scores
        ends = mx.array([one.think_end for one in self._rows], mx.int32)
        barred = (self._states == _IS_OVER)[:, None] & (mx.arange(scores.shape[1]) == ends[:, None])
        return mx.where(barred, -mx.inf, scores)

    def apply(self, token: mx.array, draw_counts: Sequence[int]) -> mx.array:
        """Return `token` (B,), with `think_end` where the budget is spent. Row i has drawn `draw_counts[i]` tokens."""
        if self._states is None:
            return token
        ends = mx.array([max(one.think_end, 0) for one in self._rows], mx.uint32)
        due = self._spent_rows(draw_counts)
        if due is not None:
            token = mx.where(due, ends, token)
        begun = mx.where(token == ends, _IS_OVER, self._states)
        ahead = [
            one.think_start >= 0 and count < _MAX_BLANK for one, count in zip(self._rows, draw_counts, strict=True)
        ]
        if any(ahead):
            begun = mx.where(self._states == _MAY_BEGIN, self._state_after_start(token, draw_counts), begun)
        self._states = begun
        return token

    def _spent_rows(self, draw_counts: Sequence[int]) -> mx.array | None:
        """Return which rows (B,) have spent their budgets; None if none can have."""
        budgets = [one.thinking_budget for one in self._rows]
        spent = [
            -1 if budget is None else max(count - budget, -1)
            for budget, count in zip(budgets, draw_counts, strict=True)
        ]
        if max(spent) < 0:
            return None
        assert self._states is not None
        return (self._states >= 0) & (mx.array(spent, mx.int32) >= self._states)

    def _state_after_start(self, token: mx.array, draw_counts: Sequence[int]) -> mx.array:
        """Return the state (B,) of reasoning that could begin with `token`."""
        starts = mx.array([max(one.think_start, 0) for one in self._rows], mx.uint32)
        most = max(1, *(len(one.think_blank) for one in self._rows))
        # Pad with the token that opens the reasoning, which has precedence.
        blanks = [[*one.think_blank, *[max(one.think_start, 0)] * (most - len(one.think_blank))] for one in self._rows]
        blank = (token[:, None] == mx.array(blanks, mx.uint32).reshape(len(blanks), most)).any(axis=-1)
        last = mx.array([count + 1 == _MAX_BLANK for count in draw_counts])
        begun = mx.array([count + 1 for count in draw_counts], mx.int32)
        return mx.where(token == starts, begun, mx.where(blank & ~last, _MAY_BEGIN, _IS_OVER))


def _reasoning_state(params: SamplingParams, generated: Sequence[int]) -> int:
    """Return the state of the reasoning after these tokens."""
    begun = 0
    if params.think_start >= 0:
        blanks = len(list(itertools.takewhile(params.think_blank.__contains__, generated)))
        if blanks >= _MAX_BLANK:
            return _IS_OVER
        if blanks == len(generated):
            return _MAY_BEGIN
        if generated[blanks] != params.think_start:
            return _IS_OVER
        begun = blanks + 1
    return _IS_OVER if params.think_end in generated[begun:] else begun
