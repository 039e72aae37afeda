"""When a model that failed may be loaded again."""

from orchard.gateway.pool.restarts import Restarts


def test_the_pauses_grow_and_a_finished_request_ends_them() -> None:
    restarts = Restarts()
    pauses = []
    for _ in range(4):
        restarts.count_crash(100.0, "why", loading=False)
        pauses.append(restarts.pause(100.0))
        assert not restarts.refuses
        restarts.note_load()
    assert pauses == [0, 1, 2, 4]
    restarts.note_success()
    restarts.count_crash(100.0, "why", loading=False)
    assert restarts.pause(100.0) == 0
    assert restarts.count == 5


def test_after_five_crashes_it_has_failed_for_a_minute() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.count_crash(0.0, "why", loading=False)
    assert restarts.refuses
    assert restarts.reason == "5 failures in a row, at last: why"
    assert restarts.pause(1.0) == 59
    assert restarts.pause(60.0) == 0
    restarts.count_crash(60.0, "why", loading=False)
    assert restarts.refuses
    assert restarts.pause(60.0) == 60


def test_a_load_that_fails_refuses_in_its_pauses_only() -> None:
    restarts = Restarts()
    restarts.count_failed_load(0.0, "no weights")
    assert (restarts.refuses, restarts.pause(0.0), restarts.reason) == (True, 0, "no weights")
    restarts.count_failed_load(0.0, "no weights")
    assert (restarts.refuses, restarts.pause(0.0)) == (True, 1)
    restarts.allow()
    assert restarts.pause(0.0) == 0
    restarts.note_load()
    assert (restarts.refuses, restarts.reason) == (False, None)


def test_a_process_that_dies_while_it_loads_is_tried_once_more_and_then_refused() -> None:
    restarts = Restarts()
    restarts.count_crash(0.0, "why", loading=True)
    assert not restarts.refuses
    restarts.count_crash(0.0, "why", loading=True)
    assert restarts.refuses


def test_what_is_left_beside_the_weights_is_halved_each_time_memory_runs_out() -> None:
    restarts = Restarts()
    limits = [9000]
    while limits[-1] > 1000 + 1000 // 32 and len(limits) < 20:
        restarts.count_crash(0.0, "why", loading=False, ran_out=(limits[-1], 1000))
        restarts.note_success()
        assert restarts.reduction.halvings == len(limits)
        assert restarts.reduction.limit is not None
        limits.append(restarts.reduction.limit)
    assert limits == [9000, 5000, 3000, 2000, 1500, 1250, 1125, 1062, 1031]
    assert restarts.reason == (
        "why: memory ran out, with a limit of 1,062 bytes, of which the weights take 1,000; until it is unloaded on "
        "request, its limit is 1,031 bytes, and it reads prompts in smaller pieces"
    )


def test_after_a_load_a_smaller_limit_is_still_told() -> None:
    restarts = Restarts()
    assert restarts.explanation is None
    restarts.count_crash(0.0, "why", loading=False, ran_out=(9000, 1000))
    assert restarts.explanation == restarts.reason
    restarts.note_load()
    assert restarts.explanation == restarts.reduction.note
    restarts.forgive()
    assert (restarts.explanation, restarts.reduction.limit) == (None, None)


def test_where_no_smaller_limit_is_left_only_an_unload_ends_the_pause() -> None:
    restarts = Restarts()
    restarts.count_crash(0.0, "why", loading=False, ran_out=(1031, 1000))
    assert restarts.refuses
    assert "Quit other programs" in (restarts.reason or "")
    assert not restarts.allow()
    assert restarts.pause(10**9) > 0
    restarts.forgive()
    assert restarts.pause(0.0) == 0
    assert restarts.allow()


def test_a_pause_for_another_reason_outlives_an_unload() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.count_crash(0.0, "why", loading=False)
    restarts.forgive()
    assert restarts.pause(0.0) == 60
