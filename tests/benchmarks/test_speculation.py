"""The interval of a median, and the oracle that a benchmark of speculation asks."""

from dataclasses import dataclass, field

import pytest
from benchmarks.speculation import Oracle, median_interval


@pytest.mark.parametrize(
    ("count", "low", "high"), [(1, 0, 0), (5, 0, 4), (6, 0, 5), (9, 1, 7), (20, 5, 14), (21, 5, 15)]
)
def test_the_interval_is_that_of_the_ranks(count: int, low: int, high: int) -> None:
    assert median_interval(list(range(count))[::-1]) == (low, high)


@dataclass(eq=False)
class AskedRow:
    tokens: list[int] = field(default_factory=lambda: [1, 2])
    prompt_length: int = 2
    prediction: tuple[int, ...] = ()
    grammar: None = None


@pytest.mark.parametrize(("chance", "right"), [(1.0, 4), (0.0, 0)])
def test_the_oracle_guesses_as_often_right_as_it_is_told(chance: float, right: int) -> None:
    oracle, row = Oracle(chance), AskedRow()
    oracle.answers[1, 2] = [5, 6, 7, 8]
    oracle.open(row)
    row.tokens.append(5)
    [proposal] = oracle.propose([row], [3])
    assert proposal
    assert len(proposal.tokens) == 3
    assert sum(map(int.__eq__, proposal.tokens, [6, 7, 8])) == min(right, 3)
