"""How likely a guess is, by how often such guesses were right."""

import random

import pytest

from orchard.engine.speculation.acceptance import ModelAcceptance, RowAcceptance


def guess(row: RowAcceptance, right: bool, match_length: int = 4) -> None:
    row.propose("ngram", [1], match_length)
    row.take([int(right)])


def chance(row: RowAcceptance, match_length: int = 4) -> float:
    return row.propose("ngram", [1], match_length).chances[0]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_finds_the_share_of_right_guesses(share: float) -> None:
    row, luck = RowAcceptance(ModelAcceptance()), random.Random(5)
    found = []
    for _ in range(1000):
        guess(row, luck.random() < share)
        found.append(chance(row))
    assert sum(found[200:]) / 800 == pytest.approx(share, abs=0.05)
    assert 0 < min(found) <= max(found) < 1


def test_learns_a_rows_change_within_a_few_dozen_guesses() -> None:
    row = RowAcceptance(ModelAcceptance())
    for _ in range(500):
        guess(row, right=True)
    assert chance(row) > 0.95
    for _ in range(48):
        guess(row, right=False)
    assert chance(row) < 0.35


def test_a_new_row_expects_what_other_rows_had() -> None:
    model = ModelAcceptance()
    before = chance(RowAcceptance(model))
    other = RowAcceptance(model)
    for _ in range(50):
        guess(other, right=True)
    assert chance(RowAcceptance(model)) > 0.9 > before


def test_kinds_are_told_apart_by_source_and_by_what_speaks_for_them() -> None:
    row = RowAcceptance(ModelAcceptance())
    for _ in range(50):
        guess(row, right=False, match_length=4)
        guess(row, right=True, match_length=20)
    assert chance(row, 5) < 0.1
    assert chance(row, 30) > 0.9
    assert row.propose("prediction", [1], 4).chances[0] == pytest.approx(0.3)
    assert row.chances("draft", 2) == pytest.approx([0.7, 0.49])
    assert row.chances("grammar", 2) == pytest.approx([0.98, 0.98**2])


def test_a_guess_behind_a_wrong_one_says_nothing() -> None:
    row = RowAcceptance(ModelAcceptance())
    for _ in range(50):
        row.propose("ngram", [9, 1, 1, 1, 1], 3)
        row.take([1, 1, 1, 1, 1])
    assert chance(row, 3) < 0.05
    assert chance(row, 4) < 0.3


def test_chances_are_of_all_guesses_so_far() -> None:
    row = RowAcceptance(ModelAcceptance())
    for _ in range(200):
        guess(row, right=True, match_length=8)
        guess(row, right=False, match_length=8)
    first, second, third = row.propose("ngram", [1, 1, 1], 8).chances
    assert first == pytest.approx(0.5, abs=0.05)
    assert (second / first, third / second) == pytest.approx((first, first), abs=0.01)


def test_guesses_before_a_guess_speak_for_it() -> None:
    row = RowAcceptance(ModelAcceptance())
    for _ in range(50):
        guess(row, right=False, match_length=4)
        guess(row, right=True, match_length=8)
    chances = row.chances("ngram", 5, 4)
    assert chances[3] / chances[2] < 0.1
    assert chances[4] / chances[3] > 0.9
    for _ in range(50):
        row.propose("ngram", [1] * 5, 4)
        row.take([1, 1, 1, 1, 0])  # the last one is of the kind of longer matches
    assert chance(row, 4) > 0.9
    assert chance(row, 8) < 0.3


def test_a_proposal_counts_once() -> None:
    row = RowAcceptance(ModelAcceptance())
    row.propose("ngram", [1], 4)
    row.take([0])
    before = row.chances("ngram", 1, 4)
    row.take([0])
    assert row.chances("ngram", 1, 4) == before
