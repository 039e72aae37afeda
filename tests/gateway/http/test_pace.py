"""How often one peer is read from."""

from orchard.gateway.http.pace import BURST, RATE, ReadPace


def test_a_burst_is_read_at_once_and_then_so_many_a_second() -> None:
    now = 100.0
    pace = ReadPace(lambda: now)
    assert [pace.pause(1) for _ in range(BURST)] == [0.0] * BURST
    waited = 0.0
    for _ in range(100):
        pause = pace.pause(1)
        now += pause
        waited += pause
    assert abs(waited - 100 / RATE) < 1e-9


def test_many_pieces_at_once_are_paid_for_later() -> None:
    now = 0.0
    pace = ReadPace(lambda: now)
    assert abs(pace.pause(BURST + 100) - 100 / RATE) < 1e-9
    now += 100 / RATE
    assert abs(pace.pause(1) - 1 / RATE) < 1e-9


def test_nobody_saves_up_more_than_a_burst() -> None:
    now = 0.0
    pace = ReadPace(lambda: now)
    now = 1e6
    assert pace.pause(BURST) == 0.0
    assert pace.pause(1) > 0.0
    assert pace.pause(0) > 0.0
