import mlx.core as mx
import pytest

from orchard.core.tasks.text_options import TextOptions
from orchard.engine import memory
from orchard.engine.memory import MemoryGiver, Shares
from tests.support.engine_driver import greedy, prompt
from tests.support.tiny_models import make_runner, network, run


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
    assert memory.divide_memory(options, 1_000) == expected


@pytest.mark.parametrize(("now", "left", "rows"), [(5_000, 4_000, 3_000), (3_000, 2_000, 2_000), (900, 0, 0)])
def test_rows_keep_their_share_for_longest_when_there_is_less_for_now(now: int, left: int, rows: int) -> None:
    shares = memory.divide_memory(TextOptions(memory_limit=5_000), 1_000, now)
    assert shares == Shares(3_000, 1_000, left)
    assert (shares.rows_now, shares.is_short) == (rows, now < 5_000)


def test_without_a_limit_it_is_what_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "recommended_bytes", lambda: 5_000)
    assert memory.divide_memory(TextOptions(), 7) == memory.divide_memory(TextOptions(memory_limit=5_000), 7)


def test_buffers_go_first_then_cached_prompts_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """And not every second: what is given up meanwhile is in the next line."""
    caplog.set_level("INFO", "orchard.engine")
    runner = make_runner(network("qwen3"), cache_bytes=2**24)
    run(runner, [greedy("a", prompt(1, 60), 4)])
    held, usual = runner.store.nbytes, mx.set_cache_limit(2**30)
    freed = mx.zeros(2**20)
    mx.eval(freed)
    del freed
    assert mx.get_cache_memory() >= 2**22
    giver = MemoryGiver(runner.store, None)
    giver.limit(Shares(2**30, 2**24, 16 * 2**20), 2**20)
    assert mx.set_cache_limit(usual) <= 2**20
    assert mx.get_cache_memory() <= 2**20
    assert runner.store.nbytes == held
    giver.limit(Shares(2**30, 2**24, 2**20), 2**20)
    assert runner.store.nbytes == 0
    (line,) = caplog.messages
    assert "of MLX's free buffers are given up, because other models or programs take memory" in line
    giver._logged_at -= memory._SECONDS_BETWEEN_LINES
    giver.log_release("running requests", 7)
    assert [message.partition(" are")[0] for message in caplog.messages[1:]] == [
        f"{held:,} bytes of cached prompts",
        "7 bytes of running requests",
    ]
    mx.set_cache_limit(usual)


def test_cached_prompts_get_what_rows_leave() -> None:
    runner = make_runner(network("qwen3"), cache_bytes=2**24)
    giver = MemoryGiver(runner.store, None)
    for left, rows, budget in ((2000, 0, 600), (1000, 500, 500), (1000, 520, 480), (1000, 500, 480), (1000, 100, 600)):
        if left != giver._shares.available:
            giver.limit(Shares(1400, 600, left), rows)
        giver.make_room(rows)
        assert runner.store.counters()["budget_bytes"] == budget
