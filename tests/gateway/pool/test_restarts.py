"""When a model that failed may be loaded again."""

from orchard.gateway.pool.restarts import Restarts


def test_the_pauses_grow_and_a_finished_request_ends_them() -> None:
    restarts = Restarts()
    pauses = []
    for _ in range(4):
        restarts.crashed(100.0, "why", loading=False)
        pauses.append(restarts.pause(100.0))
        assert not restarts.refuses
        restarts.loaded()
    assert pauses == [0, 1, 2, 4]
    restarts.served()
    restarts.crashed(100.0, "why", loading=False)
    assert restarts.pause(100.0) == 0
    assert restarts.count == 5


def test_after_five_crashes_it_has_failed_for_a_minute() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.crashed(0.0, "why", loading=False)
    assert restarts.refuses
    assert restarts.reason == "5 failures in a row, at last: why"
    assert restarts.pause(1.0) == 59
    assert restarts.pause(60.0) == 0
    restarts.crashed(60.0, "why", loading=False)
    assert restarts.refuses
    assert restarts.pause(60.0) == 60


def test_a_load_that_fails_refuses_in_its_pauses_only() -> None:
    restarts = Restarts()
    restarts.refused(0.0, "no weights")
    assert (restarts.refuses, restarts.pause(0.0), restarts.reason) == (True, 0, "no weights")
    restarts.refused(0.0, "no weights")
    assert (restarts.refuses, restarts.pause(0.0)) == (True, 1)
    restarts.allow()
    assert restarts.pause(0.0) == 0
    restarts.loaded()
    assert (restarts.refuses, restarts.reason) == (False, None)


def test_a_process_that_dies_while_it_loads_is_tried_once_more_and_then_refused() -> None:
    restarts = Restarts()
    restarts.crashed(0.0, "why", loading=True)
    assert not restarts.refuses
    restarts.crashed(0.0, "why", loading=True)
    assert restarts.refuses
