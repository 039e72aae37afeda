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


def test_what_the_thread_did_not_work_it_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    now, worked = [0.0], [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "thread_time", lambda: worked[0])
    clock = StepClock()
    for seconds, busy, waited in ((1.0, 0.25, 0.75), (2.0, 2.0, 0.0), (1.0, 1.5, 0.0)):
        now[0] += seconds
        worked[0] += busy
        clock.lap()
        assert clock.waited == waited
