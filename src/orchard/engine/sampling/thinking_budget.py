"""Thinking budgets: a row whose reasoning is too long gets the token that ends it, and can't write it again.

The tokens and the state of the reasoning stay on the device: nothing waits for them.
"""

import itertools
from collections.abc import Sequence

import mlx.core as mx

from orchard.engine.sampling.params import SamplingParams

_OVER = -1  # the reasoning is over, or there is none
_AHEAD = -2  # the model may still begin the reasoning
_MOST_BLANK = 8  # the token that opens the reasoning must be among so many first draws
_UNLIMITED = SamplingParams(seed=0)  # for a row without a budget, or without a token that ends its reasoning


class ThinkingBudgets:
    """The state of the reasoning of a batch of rows."""

    def __init__(self) -> None:
        self._begun: mx.array | None = None  # (B,): tokens before the reasoning, or a state above; None: no budgets
        self._rows: list[SamplingParams] = []

    def add(self, params: SamplingParams, generated: Sequence[int]) -> None:
        """Append a row for which the tokens `generated` were drawn already."""
        limited = params.thinking_budget is not None and params.think_end >= 0
        if limited or self._begun is not None:
            before = mx.array([_OVER] * len(self._rows), mx.int32) if self._begun is None else self._begun
            begun = _begun(params, generated) if limited else _OVER
            self._begun = mx.concatenate([before, mx.array([begun], mx.int32)])
        self._rows.append(params if limited else _UNLIMITED)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._rows = [self._rows[row] for row in rows]
        if self._begun is not None:
            limited = any(one is not _UNLIMITED for one in self._rows)
            self._begun = self._begun[mx.array(list(rows))] if limited else None

    def state(self) -> list[mx.array]:
        """Return the arrays to compute with every draw."""
        return [] if self._begun is None else [self._begun]

    def settle(self, past: Sequence[list[mx.array]], places: Sequence[int]) -> None:
        """Take row i back to the state `past[places[i]]`."""
        if self._begun is not None:
            begun = mx.stack([array for state in past for array in state])
            self._begun = begun[mx.array(list(places)), mx.arange(len(places))]

    def forbid(self, scores: mx.array) -> mx.array:
        """Return scores (B, vocab_size) that are -inf for `think_end` in rows whose reasoning is over.

        A model whose reasoning was cut short may try to end it again.
        """
        if self._begun is None:
            return scores
        ends = mx.array([one.think_end for one in self._rows], mx.int32)
        barred = (self._begun == _OVER)[:, None] & (mx.arange(scores.shape[1]) == ends[:, None])
        return mx.where(barred, -mx.inf, scores)

    def apply(self, token: mx.array, drawn: Sequence[int]) -> mx.array:
        """Return `token` (B,), with `think_end` where the budget is spent; each row has drawn `drawn` tokens before."""
        if self._begun is None:
            return token
        ends = mx.array([max(one.think_end, 0) for one in self._rows], mx.uint32)
        due = self._due(drawn)
        if due is not None:
            token = mx.where(due, ends, token)
        begun = mx.where(token == ends, _OVER, self._begun)
        ahead = [one.think_start >= 0 and count < _MOST_BLANK for one, count in zip(self._rows, drawn, strict=True)]
        if any(ahead):
            begun = mx.where(self._begun == _AHEAD, self._opened(token, drawn), begun)
        self._begun = begun
        return token

    def _due(self, drawn: Sequence[int]) -> mx.array | None:
        """Return which rows (B,) have spent their budgets; None if none can have."""
        budgets = [one.thinking_budget for one in self._rows]
        spent = [
            -1 if budget is None else max(count - budget, -1) for budget, count in zip(budgets, drawn, strict=True)
        ]
        if max(spent) < 0:
            return None
        assert self._begun is not None
        return (self._begun >= 0) & (mx.array(spent, mx.int32) >= self._begun)

    def _opened(self, token: mx.array, drawn: Sequence[int]) -> mx.array:
        """Return the state (B,) of reasoning that could begin with `token`."""
        starts = mx.array([max(one.think_start, 0) for one in self._rows], mx.uint32)
        most = max(1, *(len(one.think_blank) for one in self._rows))
        # Pad with the token that opens the reasoning, which has precedence.
        blanks = [[*one.think_blank, *[max(one.think_start, 0)] * (most - len(one.think_blank))] for one in self._rows]
        blank = (token[:, None] == mx.array(blanks, mx.uint32).reshape(len(blanks), most)).any(axis=-1)
        last = mx.array([count + 1 == _MOST_BLANK for count in drawn])
        begun = mx.array([count + 1 for count in drawn], mx.int32)
        return mx.where(token == starts, begun, mx.where(blank & ~last, _AHEAD, _OVER))


def _begun(params: SamplingParams, generated: Sequence[int]) -> int:
    """Return the state of the reasoning after these tokens."""
    begun = 0
    if params.think_start >= 0:
        blanks = len(list(itertools.takewhile(params.think_blank.__contains__, generated)))
        if blanks >= _MOST_BLANK:
            return _OVER
        if blanks == len(generated):
            return _AHEAD
        if generated[blanks] != params.think_start:
            return _OVER
        begun = blanks + 1
    return _OVER if params.think_end in generated[begun:] else begun
