"""Thinking budgets: from where they count, and what ends with them."""

import math
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.sampling.params import SamplingParams
from orchard.engine.sampling.thinking_budget import ThinkingBudgets

START, END, BLANK, TEXT = 1, 2, 3, 4
OPENED: dict[str, Any] = {"think_end": END}
OPENS: dict[str, Any] = {"think_start": START, "think_end": END, "think_blank": (BLANK,)}


def thinker(budget: int | None, way: dict[str, Any] = OPENED) -> SamplingParams:
    return SamplingParams(seed=0, thinking_budget=budget, **way)


def said(params: SamplingParams, wanted: list[int], resumed: int = 0, company: int = 0) -> list[int]:
    """What a row draws that wants these tokens, the first `resumed` of them before it was stopped."""
    budgets = ThinkingBudgets()
    for _ in range(company):
        budgets.add(thinker(None), [])
    budgets.add(params, wanted[:resumed])
    found = wanted[:resumed]
    for place in range(resumed, len(wanted)):
        row = [*[TEXT] * company, wanted[place]]
        drawn: Any = budgets.apply(mx.array(row, mx.uint32), [*[0] * company, place]).tolist()
        found.append(drawn[-1])
    return found


@pytest.mark.parametrize(
    ("params", "wanted", "given"),
    [
        (thinker(2), [TEXT] * 5, [TEXT, TEXT, END, TEXT, TEXT]),
        (thinker(0), [TEXT] * 3, [END, TEXT, TEXT]),
        (thinker(2), [TEXT, END, TEXT, TEXT], [TEXT, END, TEXT, TEXT]),
        (thinker(None), [TEXT] * 3, [TEXT] * 3),
        (thinker(1, {}), [TEXT] * 3, [TEXT] * 3),
        # The model may open its reasoning.
        (thinker(2, OPENS), [TEXT] * 5, [TEXT] * 5),
        (thinker(2, OPENS), [START, *[TEXT] * 4], [START, TEXT, TEXT, END, TEXT]),
        (thinker(0, OPENS), [START, TEXT, TEXT], [START, END, TEXT]),
        (thinker(1, OPENS), [BLANK, BLANK, START, TEXT, TEXT], [BLANK, BLANK, START, TEXT, END]),
        (thinker(2, OPENS), [START, TEXT, END, TEXT, TEXT], [START, TEXT, END, TEXT, TEXT]),
        # What is opened later is text.
        (thinker(0, OPENS), [TEXT, START, TEXT, TEXT], [TEXT, START, TEXT, TEXT]),
        (thinker(0, OPENS), [BLANK, TEXT, START, TEXT], [BLANK, TEXT, START, TEXT]),
        (thinker(0, OPENS), [END, START, TEXT], [END, START, TEXT]),
        (thinker(0, OPENS), [*[BLANK] * 8, START, TEXT], [*[BLANK] * 8, START, TEXT]),
        (thinker(0, OPENS), [*[BLANK] * 7, START, TEXT], [*[BLANK] * 7, START, END]),
        (thinker(0, OPENS | {"think_blank": ()}), [BLANK, START, TEXT], [BLANK, START, TEXT]),
        (thinker(2**60, OPENS), [START, TEXT, TEXT], [START, TEXT, TEXT]),
    ],
)
def test_a_budget_counts_from_where_the_reasoning_begins(
    params: SamplingParams, wanted: list[int], given: list[int]
) -> None:
    assert said(params, wanted) == given
    assert said(params, wanted, company=2) == given


tokens = st.lists(st.sampled_from([START, END, BLANK, TEXT]), max_size=12)


@given(tokens, st.integers(0, 4), st.sampled_from([OPENED, OPENS]), st.integers(0, 12))
def test_a_row_that_was_stopped_goes_on_with_what_is_left(
    wanted: list[int], budget: int, way: dict[str, Any], resumed: int
) -> None:
    params = thinker(budget, way)
    whole = said(params, wanted)
    before = min(resumed, len(whole))
    assert said(params, [*whole[:before], *wanted[before:]], before) == whole


def test_what_is_over_is_not_ended_once_more() -> None:
    budgets = ThinkingBudgets()
    for params, drawn in (
        (thinker(1), [TEXT, END]),
        (thinker(3), [TEXT]),
        (thinker(None), [END]),
        (thinker(1, OPENS), []),
    ):
        budgets.add(params, drawn)
    scores = budgets.forbid_end(mx.zeros((4, 6)))
    assert scores[0].tolist() == [0, 0, -math.inf, 0, 0, 0]
    assert not scores[1:].any()
    assert ThinkingBudgets().forbid_end(scores) is scores


def test_rows_come_and_go() -> None:
    budgets = ThinkingBudgets()
    for params in (thinker(None), thinker(0), thinker(1, OPENS)):
        budgets.add(params, [])
    assert budgets.apply(mx.array([TEXT, TEXT, START], mx.uint32), [0, 0, 0]).tolist() == [TEXT, END, START]
    budgets.keep([2, 0])
    budgets.add(thinker(0), [])
    assert budgets.apply(mx.array([TEXT, TEXT, TEXT], mx.uint32), [1, 1, 0]).tolist() == [TEXT, TEXT, END]
    assert budgets.apply(mx.array([TEXT, TEXT, TEXT], mx.uint32), [2, 2, 1]).tolist() == [END, TEXT, TEXT]
    budgets.keep([1])
    assert not budgets.state()
