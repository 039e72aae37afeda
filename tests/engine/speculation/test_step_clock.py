"""What steps are said to take."""

import time

import pytest

from orchard.engine.speculation.step_clock import StepClock


def test_only_undisturbed_laps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    clock = StepClock()

    def lap(seconds: float) -> float | None:
        now[0] += seconds
        return clock.lap()

    assert lap(1) is None
    assert lap(2) == 2
    clock.disturb(2)
    clock.disturb(1)
    assert [lap(3), lap(4), lap(5), lap(6)] == [None, None, 5, 6]
