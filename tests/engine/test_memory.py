import pytest

from orchard.core.tasks.text_options import TextOptions
from orchard.engine import memory
from orchard.engine.memory import Shares


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (TextOptions(memory_limit=5_000), Shares(3_000, 1_000, 4_000)),
        (TextOptions(memory_limit=5_000, prompt_cache_bytes=0), Shares(4_000, 0, 4_000)),
        (TextOptions(memory_limit=5_000, prompt_cache_bytes=1_500), Shares(2_500, 1_500, 4_000)),
        (TextOptions(memory_limit=5_000, prompt_cache_bytes=3_000), Shares(2_000, 2_000, 4_000)),
        (TextOptions(memory_limit=1_000), Shares(0, 0, 0)),
        (TextOptions(memory_limit=400, prompt_cache_bytes=300), Shares(0, 0, 0)),
    ],
)
def test_what_the_weights_leave_is_divided(options: TextOptions, expected: Shares) -> None:
    assert memory.divide(options, 1_000) == expected


@pytest.mark.parametrize(("now", "left", "rows"), [(5_000, 4_000, 3_000), (3_000, 2_000, 2_000), (900, 0, 0)])
def test_rows_keep_their_share_for_longest_when_there_is_less_for_now(now: int, left: int, rows: int) -> None:
    shares = memory.divide(TextOptions(memory_limit=5_000), 1_000, now)
    assert shares == Shares(3_000, 1_000, left)
    assert (shares.rows_now, shares.short) == (rows, now < 5_000)


def test_without_a_limit_it_is_what_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "recommended", lambda: 5_000)
    assert memory.divide(TextOptions(), 7) == memory.divide(TextOptions(memory_limit=5_000), 7)
