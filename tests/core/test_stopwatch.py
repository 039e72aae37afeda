"""The stopwatch of a request's way to its first token."""

from orchard.core.stopwatch import Stopwatch


def test_laps_add_up_by_part_until_the_stop() -> None:
    now = 0.0
    stopwatch = Stopwatch(lambda: now)
    for part, seconds in (("queue", 1.0), ("prefill", 2.0), ("queue", 4.0)):
        now += seconds
        stopwatch.lap(part)  # type: ignore[arg-type]
    now += 8.0
    stopwatch.stop("decode")
    now += 16.0
    stopwatch.lap("queue")
    stopwatch.stop("decode")
    assert stopwatch.seconds == {"queue": 5.0, "prefill": 2.0, "decode": 8.0}
    assert not stopwatch.is_running
