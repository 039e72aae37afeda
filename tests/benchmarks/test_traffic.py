"""What the benchmarks of several models count."""

import pytest
from benchmarks.swap import target
from benchmarks.traffic import gaps, two

from orchard.cli.bench_client import TimedAnswer


def test_only_gaps_that_touch_the_time_count() -> None:
    answers = [
        TimedAnswer(0.0, 9.0, [1.0, 2.0, 4.0, 7.0]),
        TimedAnswer(0.0, 9.0, [3.5, 8.5]),
        TimedAnswer(0.0, 9.0, [3.6]),
    ]
    assert gaps(answers, 3.0, 5.0) == [2.0, 3.0, 5.0]
    assert gaps(answers, 8.6, 9.0) == []


def test_one_model_serves_under_two_names() -> None:
    first, second = two(["demo"])
    assert (first.id, second.id) == ("a", "b")
    assert first.path == second.path


@pytest.mark.parametrize(("bare", "most"), [(0.0, 0.3), (2.0, 2.8)])
def test_what_a_swap_may_cost(bare: float, most: float) -> None:
    assert target(bare) == pytest.approx(most)
