"""What training reads."""

import numpy as np
import pytest

from tools.demo_model import batches


def test_each_batch_comes_twice_with_others_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_BETWEEN", 2)
    made = (np.full(1, number, np.uint16) for number in range(6))
    assert [int(batch[0]) for batch in batches.twice(made)] == [0, 1, 2, 0, 3, 1, 4, 2, 5, 3]
