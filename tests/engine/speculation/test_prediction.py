"""What of a prediction is in the answer, wherever the answer departs from it."""

from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.speculation.prediction import PredictedText, PredictionUse
from tests.support.examples import examples

FILE = list(range(100, 150))


def counted(prediction: list[int], answer: list[int]) -> tuple[int, int]:
    use = PredictionUse(PredictedText(prediction))
    for token in answer:
        use.take(token)
    return use.accepted_tokens, use.rejected_tokens


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
    assert counted(FILE, FILE[:2] * 25) == (2, 48)


def test_what_comes_in_another_order_does_not_count() -> None:
    assert counted(FILE, [*FILE[30:], *FILE[:30]]) == (30, 20)
    assert counted(FILE, FILE[::-1]) == (1, 49)


def test_single_tokens_count() -> None:
    assert counted(FILE, [token if token % 2 else 0 for token in FILE]) == (25, 25)


def test_answers_of_one_prediction_are_counted_apart_and_share_what_is_known_of_it() -> None:
    """A request may have 64 answers, and to look through a long prediction takes a tenth of a second."""
    predicted = PredictedText(FILE * 20)
    first, second = PredictionUse(predicted), PredictionUse(predicted)
    assert predicted.bits_of(FILE[0]) is predicted.bits_of(FILE[0])
    for token in FILE:
        first.take(token)
    assert (first.accepted_tokens, second.accepted_tokens) == (50, 0)


@examples(100)
@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=60))
def test_it_is_the_longest_text_that_both_hold(prediction: list[int], answer: list[int]) -> None:
    accepted, rejected = counted(prediction, answer)
    assert accepted == longest(prediction, answer)
    assert accepted + rejected == len(prediction)


def longest(one: list[int], other: list[int]) -> int:
    """By the table of textbooks."""
    row = [0] * (len(other) + 1)
    for token in one:
        before = row
        row = [0]
        for place, opposite in enumerate(other):
            row.append(before[place] + 1 if token == opposite else max(before[place + 1], row[place]))
    return row[-1]
