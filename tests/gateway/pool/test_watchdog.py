"""Who is silent for too long."""

from orchard.gateway.pool.watchdog import Watchdog


def silence(watchdog: Watchdog, at_least: float = 0.0) -> float:
    """Count the seconds until it barks, up to a thousand."""
    ticks = 1
    while not watchdog.tick(at_least) and ticks * watchdog.interval < 1000:
        ticks += 1
    return ticks * watchdog.interval


def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    watchdog = Watchdog(10)
    assert silence(watchdog) == 11
    watchdog.heard()
    assert silence(watchdog) == 11
    watchdog.heard(silent_seconds=6)
    assert silence(watchdog) == 5
    watchdog.heard()
    assert silence(watchdog, at_least=60) == 61


def test_short_limits_are_looked_at_more_often() -> None:
    assert Watchdog(1).interval == 0.25
    assert silence(Watchdog(1)) == 1.25


def test_without_a_limit_nobody_is_too_silent() -> None:
    assert silence(Watchdog(0)) == 1000
