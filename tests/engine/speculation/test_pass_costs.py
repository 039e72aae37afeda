"""What a step takes, from what steps took."""

import pytest

from orchard.engine.speculation.pass_costs import DraftCosts, PassCosts


def measured(*samples: tuple[int, int, float]) -> PassCosts:
    costs = PassCosts()
    for sample in samples:
        costs.add(*sample)
    return costs


def test_unknown_until_it_is_measured() -> None:
    assert PassCosts().seconds(1, 1) is None
    costs = measured((2, 1, 10.0), (2, 4, 16.0))
    assert (costs.seconds(2, 1), costs.seconds(2, 4), costs.seconds(2, 8)) == (10.0, 16.0, None)
    assert (costs.measured_widths(2), costs.measured_widths(3), costs.count(2, 4), costs.count(2, 2)) == (
        [1, 4],
        [],
        1,
        0,
    )


def test_a_width_between_two_that_were_measured() -> None:
    assert measured((2, 1, 10.0), (2, 4, 16.0)).seconds(2, 3) == pytest.approx(14.0)


def test_interruptions_do_not_count() -> None:
    costs = measured(*[(1, 1, 10.0 if step % 3 else 90.0) for step in range(31)])
    assert costs.seconds(1, 1) == 10.0, "not the newest, which was interrupted"


def test_what_changes_is_learned() -> None:
    costs = measured(*[(1, 1, 10.0)] * 100, *[(1, 1, 20.0)] * 16)
    assert costs.seconds(1, 1) == 20.0


def test_other_numbers_of_rows_tell_the_ratio() -> None:
    costs = measured((1, 1, 10.0), (1, 4, 15.0), (8, 1, 20.0), (8, 4, 60.0), (7, 1, 18.0), (2, 1, 11.0))
    assert costs.seconds(7, 4) == pytest.approx(54.0)
    assert costs.seconds(2, 4) == pytest.approx(16.5)
    assert costs.seconds(3, 4) is None


def test_large_numbers_of_rows_are_alike() -> None:
    costs = measured((17, 1, 10.0))
    assert costs.seconds(19, 1) == 10.0
    assert costs.seconds(20, 1) is None
    assert len(measured(*[(rows, 1, 1.0) for rows in range(1, 257)])._samples) <= 32


def test_age_counts_all_steps() -> None:
    costs = measured((1, 1, 10.0), (2, 1, 10.0), (2, 2, 10.0))
    assert (costs.age(1, 1), costs.age(2, 2)) == (2, 0)


def test_what_a_draft_takes_is_that_of_the_most_similar_number_of_rows() -> None:
    costs = DraftCosts()
    assert (costs.guessing_seconds(3, 2), costs.reading_seconds(100)) == (0.0, 0.0)  # not known: it is worth a try
    costs.add(1, 2, 0.02)
    costs.add(8, 4, 0.08)
    costs.add_reading(50, 0.1)
    assert costs.guessing_seconds(2, 3) == pytest.approx(0.03)
    assert costs.guessing_seconds(6, 3) == pytest.approx(0.06)
    assert costs.reading_seconds(100) == pytest.approx(0.2)


def test_what_a_draft_took_long_ago_is_forgotten() -> None:
    costs = DraftCosts()
    costs.add(1, 1, 9.0)
    for _ in range(1000):
        costs.ask()
    assert costs.guessing_seconds(1, 1) == 9.0
    costs.ask()
    assert costs.guessing_seconds(1, 1) == 0.0


def test_numbers_of_rows_that_were_measured_lately() -> None:
    costs = measured(*[(8, 1, 10.0)] * 2, (3, 1, 5.0), *[(2, 1, 4.0)] * 2, *[(5, 4, 6.0)] * 2)
    assert (costs.measured_rows(2, 9), costs.measured_rows(1, 4), costs.measured_rows(2, 3)) == ([8, 2], [3, 2], [2])
