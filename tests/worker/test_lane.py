import itertools
import time
from contextlib import suppress

import pytest

from orchard.worker.lane import within


def test_work_without_end_is_ended() -> None:
    def work() -> None:
        for _ in itertools.count():
            with suppress(Exception):  # as a template may
                time.sleep(0)

    with pytest.raises(TimeoutError):
        within(0.01, work)


def test_work_in_time_gives_its_result_and_its_error() -> None:
    assert within(60, lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)
