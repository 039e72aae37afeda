"""What of a prediction is in the answer, wherever the answer departs from it."""

from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.speculation.prediction import PredictionUse
from tests.support.examples import examples

FILE = list(range(100, 150))


def counted(prediction: list[int], answer: list[int]) -> tuple[int, int]:
    use = PredictionUse(prediction)
    for token in answer:
        use.take(token)
    return use.accepted, use.rejected


def test_all_or_nothing() -> None:
    assert counted(FILE, FILE) == (50, 0)
    assert counted(FILE, [*FILE, 1, 2]) == (50, 0)
    assert counted(FILE, [1, 2, 3]) == (0, 50)
    assert counted(FILE, []) == (0, 50)


def test_an_answer_that_departs_and_returns() -> None:
    assert counted(FILE, [*FILE[:10], 1, 2, *FILE[20:]]) == (40, 10)
    assert counted(FILE, [1, 2, *FILE]) == (50, 0)


def test_what_comes_again_does_not_count_twice() -> None:
    assert counted(FILE, [*FILE, *FILE]) == (50, 0)


@examples(100)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.lists(st.integers(0, 3), max_size=60))
def test_counts_add_up(prediction: list[int], answer: list[int]) -> None:
    accepted, rejected = counted(prediction, answer)
    assert accepted + rejected == len(prediction)
    assert 0 <= accepted <= len(answer)
    head = next((n for n, (a, b) in enumerate(zip(prediction, answer, strict=False)) if a != b), None)
    assert accepted >= (min(len(prediction), len(answer)) if head is None else head)
