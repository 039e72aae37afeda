"""Batches come again, far apart."""

import itertools

from repeated import repeated


def test_each_batch_comes_again_after_others() -> None:
    assert list(itertools.islice(repeated(itertools.count(), 2, 3), 10)) == [0, 1, 2, 3, 0, 4, 1, 5, 2, 6]


def test_each_batch_comes_as_often_as_it_should() -> None:
    found = list(itertools.islice(repeated(itertools.count(), 4, 2), 400))
    assert [found.count(batch) for batch in range(20)] == [4] * 20
