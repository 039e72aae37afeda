"""Who is loaded, who goes and who waits."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchard.gateway.pool.placement import (
    MemoryTurn,
    PlacementPlan,
    ResidentModel,
    allowances,
    choose_evictions,
    choose_turn,
    make_plan,
    need,
    shares,
    too_large_reason,
)


def model(id_: str, state: Any = "ready", need: int = 10, **fields: Any) -> ResidentModel:
    return ResidentModel(id=id_, state=state, need=need, **fields)


def waiting(id_: str, need: int = 10, **fields: Any) -> ResidentModel:
    return model(id_, "queued", need, **fields)


def test_what_fits_is_loaded() -> None:
    assert make_plan([waiting("b"), waiting("c")], [model("a")], 3, 30) == PlacementPlan(load=["b", "c"])


def test_while_the_budget_is_unknown_one_is_loaded() -> None:
    assert make_plan([waiting("a"), waiting("b")], [], 3, None) == PlacementPlan(load=["a"])
    assert make_plan([waiting("b")], [model("a", "loading")], 3, None) == PlacementPlan()


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        ([model("old", last_used=1), model("new", last_used=2)], PlacementPlan(evict={"old": "x"}, hold={"old"})),
        (
            [model("old", last_used=1, busy=True), model("new", last_used=2)],
            PlacementPlan(evict={"new": "x"}, hold={"new"}),
        ),
        (
            [model("old", last_used=1, pinned=True), model("new", last_used=2)],
            PlacementPlan(evict={"new": "x"}, hold={"new"}),
        ),
        ([model("old", last_used=1, busy=True), model("new", last_used=2, busy=True)], PlacementPlan(hold={"old"})),
        (
            [model("own", last_used=1, resident=True), model("new", last_used=2)],
            PlacementPlan(evict={"new": "x"}, hold={"new"}),
        ),
        ([model("own", resident=True), model("new", last_used=2, busy=True)], PlacementPlan(hold={"new"})),
        ([model("own", resident=True), model("pinned", pinned=True)], PlacementPlan(evict={"own": "x"}, hold={"own"})),
        ([model("loads", "loading"), model("pinned", pinned=True)], PlacementPlan()),
        ([model("leaves", "unloading"), model("idle")], PlacementPlan()),
    ],
    ids=[
        "least recently used",
        "idle before busy",
        "never pinned",
        "busy ones yield",
        "on demand before resident",
        "busy before resident",
        "resident if there is no other",
        "never loading",
        "one leaves",
    ],
)
def test_who_makes_room(placed: list[ResidentModel], expected: PlacementPlan) -> None:
    assert make_plan([waiting("x")], placed, 2, 100) == expected


def test_nobody_goes_in_vain() -> None:
    placed = [model("small", need=10, last_used=1), model("large", need=80, last_used=2)]
    assert make_plan([waiting("x", 90)], placed, 3, 100) == PlacementPlan(evict={"large": "x"}, hold={"large"})
    placed = [model("small", need=10, last_used=1, busy=True), model("large", need=80, resident=True)]
    assert make_plan([waiting("x", 90)], placed, 3, 100) == PlacementPlan(evict={"large": "x"}, hold={"large"})


def test_nobody_overtakes() -> None:
    placed = [model("a", need=80, busy=True)]
    assert make_plan([waiting("first", 50), waiting("second", 10)], placed, 3, 100) == PlacementPlan(hold={"a"})


def test_modest_ones_make_nobody_go_and_hold_up_nobody() -> None:
    placed = [model("a", need=80)]
    assert make_plan([waiting("b", 50, modest=True), waiting("c")], placed, 3, 100) == PlacementPlan(
        load=["c"], drop=["b"]
    )


def test_what_can_never_fit_is_refused_and_holds_up_nobody() -> None:
    made = make_plan([waiting("x", 200), waiting("c")], [model("a", need=30, pinned=True)], 3, 100)
    assert made.load == ["c"]
    assert "200 bytes" in made.refuse["x"]
    assert "pinned models take 30" in made.refuse["x"]
    assert "as many are pinned" in make_plan([waiting("x")], [model("a", pinned=True)], 1, None).refuse["x"]


@pytest.mark.parametrize(
    ("weights", "budget", "expected"), [(80, None, 90), (80, 100, 90), (96, 100, 100), (120, 100, 120)]
)
def test_a_model_needs_a_little_more_than_its_weights(weights: int, budget: int | None, expected: int) -> None:
    assert need(weights, budget) == expected


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 12_000)), min_size=1), st.integers(1000, 10_000))
def test_all_is_divided_and_nothing_twice(models: list[tuple[int, int]], budget: int) -> None:
    needs, mosts = zip(*models, strict=True)
    shares = allowances(needs, mosts, budget)
    assert sum(shares) <= budget
    assert all(share <= most for share, most in zip(shares, mosts, strict=True))
    if sum(map(min, needs, mosts)) <= budget:
        assert all(share >= least for share, least in zip(shares, map(min, needs, mosts), strict=True))
        assert sum(shares) == min(budget, sum(mosts))


def test_what_a_model_may_not_take_is_the_others() -> None:
    assert shares([model("a", max_bytes=25), model("b"), model("c", need=30, max_bytes=20)], 100) == [25, 55, 20]
    owner, other = model("owner", turn_bytes=50), model("other", max_bytes=15)
    assert shares([owner, other], 100) == [85, 15]


_STATES = st.sampled_from(("loading", "ready", "unloading"))


@given(
    st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=4),
    st.lists(st.tuples(st.integers(1, 40), _STATES, st.booleans(), st.booleans(), st.integers(0, 3)), max_size=3),
    st.integers(1, 4),
)
@example([(47, True), (1, False)], [(54, "unloading", False, False, 0)], 4)
def test_plans_keep_the_law(queue: list[tuple[int, bool]], placed: list[tuple[Any, ...]], most: int) -> None:
    waits = [waiting(f"w{number}", size, modest=modest) for number, (size, modest) in enumerate(queue)]
    models = [
        model(f"p{number}", state, size, busy=busy and state == "ready", pinned=pinned, last_used=used)
        for number, (size, state, busy, pinned, used) in enumerate(placed)
    ]
    made = make_plan(waits, models, most, 100)
    by_id = {one.id: one for one in (*waits, *models)}
    if made.load:
        after = [*models, *(by_id[id_] for id_ in made.load)]
        assert len(after) <= most
        assert sum(one.need for one in after) <= 100
    for id_ in made.hold:
        assert by_id[id_].state == "ready"
        assert not by_id[id_].pinned
    assert all(not by_id[id_].busy and id_ in made.hold for id_ in made.evict)
    # A modest one that waits for who is leaving holds up nobody.
    open_ = [
        one.id
        for one in waits
        if one.id in made.load or not (one.modest or one.id in made.refuse or one.id in made.drop)
    ]
    assert made.load == open_[: len(made.load)]
    if len(made.load) < len(open_) and all(one.state == "ready" for one in models):
        assert made.hold or made.load, "somebody waits, and nobody makes room"


def test_what_makes_nobody_go_waits_for_who_is_leaving() -> None:
    leaving = [model("a", "unloading", need=80)]
    assert make_plan([waiting("b", 50, modest=True)], leaving, 1, 100) == PlacementPlan()
    assert make_plan([waiting("b", 50, modest=True)], [*leaving, model("c", need=60)], 3, 100) == PlacementPlan(
        drop=["b"]
    )


def bundled(id_: str, state: Any = "ready", **fields: Any) -> ResidentModel:
    return model(id_, state, modest=True, bundled=True, **fields)


@pytest.mark.parametrize(
    ("asking", "placed", "expected"),
    [
        (bundled("x", "queued"), [model("a")], PlacementPlan(load=["x"])),
        (bundled("x", "queued", need=60), [model("a", need=60)], PlacementPlan(drop=["x"])),
        (bundled("x", "queued"), [model("a", pinned=True)], PlacementPlan(load=["x"])),
        (waiting("x"), [bundled("own")], PlacementPlan(load=["x"], evict={"own": "x"}, hold={"own"})),
        (waiting("x"), [bundled("own", busy=True)], PlacementPlan(load=["x"])),
        (waiting("x"), [bundled("own", pinned=True)], PlacementPlan(load=["x"])),
        (waiting("x", modest=True), [bundled("own", "loading")], PlacementPlan(load=["x"])),
    ],
)
def test_the_bundled_model_takes_nobodys_place_and_goes_for_any_other(
    asking: ResidentModel, placed: list[ResidentModel], expected: PlacementPlan
) -> None:
    assert make_plan([asking], placed, 1, 100) == expected


def test_while_others_take_memory_models_are_placed_in_what_is_left() -> None:
    placed = [model("a", need=30, last_used=1), model("b", need=30, last_used=2)]
    assert make_plan([waiting("x", 30)], placed, 3, 100, 90) == PlacementPlan(load=["x"])
    assert make_plan([waiting("x", 30)], placed, 3, 100, 70) == PlacementPlan(evict={"a": "x"}, hold={"a"})
    busy = [model("a", need=30, busy=True)]
    assert make_plan([waiting("x", 30)], busy, 3, 100, 50) == PlacementPlan(hold={"a"})


def test_a_model_that_needs_more_than_is_left_is_placed_beside_pinned_ones_only() -> None:
    pinned = model("p", need=30, pinned=True)
    assert make_plan([waiting("x", 60)], [pinned], 3, 100, 20) == PlacementPlan(load=["x"])
    expected = PlacementPlan(evict={"a": "x"}, hold={"a"})
    assert make_plan([waiting("x", 60)], [pinned, model("a", need=1)], 3, 100, 20) == expected
    assert make_plan([waiting("x", 80)], [pinned], 3, 100, 20).refuse.keys() == {"x"}


def weighty(id_: str, used: float = 0, **fields: Any) -> ResidentModel:
    return model(id_, weights=8, last_used=used, **fields)


def test_the_weights_that_are_too_much_go_and_no_more() -> None:
    placed = [weighty("b", 2), weighty("c", 3), weighty("a", 1)]
    assert choose_evictions(placed, 24, 0) == {}
    assert list(choose_evictions(placed, 23, 0)) == ["a"]
    assert choose_evictions(placed, 22, 2) == {}
    assert list(choose_evictions(placed, 15, 0)) == ["a", "b"]
    assert list(choose_evictions(placed, 0, 0)) == ["a", "b", "c"]


def test_who_never_goes_by_itself() -> None:
    placed = [
        weighty("busy", busy=True),
        weighty("pinned", pinned=True),
        weighty("loading", state="loading"),
        weighty("startup", resident=True),
        weighty("leaves", state="unloading"),
    ]
    assert choose_evictions(placed, 0, 0) == {}


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (65, PlacementPlan()),  # "idle" and "busy" keep what they need, and "busy" its rows
        (75, PlacementPlan(evict={"idle": "owner"}, hold={"idle"})),
        (80, PlacementPlan()),  # rows wait
        (85, PlacementPlan(evict={"idle": "owner"}, hold={"idle"})),
        (91, PlacementPlan(evict={"idle": "owner"}, hold={"idle", "busy"})),
        (101, PlacementPlan()),
    ],
)
def test_what_others_give_up_for_a_turn(turn: int, expected: PlacementPlan) -> None:
    others = [model("idle"), model("busy", busy=True, running_bytes=25)]
    assert make_plan([], [model("owner", busy=True, turn_bytes=turn), *others], 3, 100, 100) == expected


def test_who_never_goes_for_a_turn() -> None:
    stay = [model("pinned", pinned=True), model("begun", busy=True, has_begun_starved=True)]
    assert make_plan([], [model("owner", busy=True, turn_bytes=90), *stay], 3, 100, 100) == PlacementPlan()


def test_during_a_turn_other_models_wait_and_none_is_refused() -> None:
    owner = model("owner", busy=True, pinned=True, turn_bytes=95)
    assert make_plan([waiting("x"), waiting("modest", modest=True)], [owner], 3, 100, 100) == PlacementPlan()


@pytest.mark.parametrize(("turn", "expected"), [(0, [25, 25]), (30, [31, 26]), (60, [61, 11]), (90, [49, 50])])
def test_who_has_the_turn_gets_its_memory_once_there_is_enough(turn: int, expected: list[int]) -> None:
    owner, other = model("owner", turn_bytes=turn), model("other", busy=True, running_bytes=25)
    assert shares([owner, other], {0: 50, 30: 57, 60: 72, 90: 99}[turn]) == expected


def test_turns_go_to_the_oldest_request_that_can_run() -> None:
    placed = [model(name) for name in "abc"]
    a, b, c = MemoryTurn("a", "1", 90, 1.0), MemoryTurn("b", "2", 50, 2.0), MemoryTurn("c", "3", 50, 3.0)
    assert choose_turn(None, [c, b, a], placed, 100) == a
    assert choose_turn(None, [c, b, a], placed, 60) == b
    assert choose_turn(c, [a, b], placed, 100) == c
    assert choose_turn(c, [a, b], placed, 49) is None
    assert choose_turn(None, [a], placed, None) is None
    stay = [placed[0], model("b", has_begun_starved=True), model("c", pinned=True)]
    assert choose_turn(None, [a, b], stay, 100) == b


def test_what_is_said_of_a_model_that_is_too_large() -> None:
    advice = "use a version of it with fewer bits, or a larger memory_limit"
    assert (
        too_large_reason(2000, 1000, {}) == f"it needs 2,000 bytes of memory, and all models may take 1,000; {advice}"
    )
    beside = "pinned models take 300 of them (a: 100, b: 200); unload one of those"
    assert too_large_reason(800, 1000, {"a": 100, "b": 200}).endswith(f"may take 1,000; {beside}, {advice}")
