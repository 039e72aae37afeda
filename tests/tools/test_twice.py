"""Batches come twice, far apart."""

import itertools

from tools.twice import twice


def test_each_batch_comes_again_after_others() -> None:
    assert list(itertools.islice(twice(itertools.count(), 3), 10)) == [0, 1, 2, 3, 0, 4, 1, 5, 2, 6]
