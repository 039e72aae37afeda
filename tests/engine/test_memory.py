import pytest

from orchard.core.tasks.text_options import TextOptions
from orchard.engine import memory


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (TextOptions(memory_limit=5_000), memory.Shares(2_700, 1_000)),
        (TextOptions(memory_limit=5_000, prompt_cache_bytes=0), memory.Shares(3_600, 0)),
        (TextOptions(memory_limit=5_000, prompt_cache_bytes=1_500), memory.Shares(2_250, 1_500)),
        (TextOptions(memory_limit=5_000, prompt_cache_bytes=3_000), memory.Shares(1_800, 2_000)),
        (TextOptions(memory_limit=1_000), memory.Shares(0, 0)),
        (TextOptions(memory_limit=400, prompt_cache_bytes=300), memory.Shares(0, 0)),
    ],
)
def test_what_the_weights_leave_is_divided(options: TextOptions, expected: memory.Shares) -> None:
    assert memory.divide(options, 1_000) == expected


def test_without_a_limit_it_is_what_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "recommended", lambda: 5_000)
    assert memory.divide(TextOptions(), 7) == memory.divide(TextOptions(memory_limit=5_000), 7)
