"""The scheduler against a runner that computes nothing, keeps accounts of its own, and checks every plan."""

import random
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.core.fair_queue import WEIGHTS
from orchard.core.request import Priority
from orchard.engine.ticket import Limits
from tests.support.examples import examples, share
from tests.support.scheduler_world import (
    CLASSES,
    MOST_FIXED,
    Work,
    World,
    check_the_end,
    some_limits,
    some_work,
    some_works,
    stream,
)


@pytest.mark.parametrize("seed", range(share(60)))
def test_random_worlds(seed: int) -> None:
    rng = random.Random(seed)
    limits = some_limits(rng)
    works = some_works(rng, limits, 80)
    if seed % 2:
        limits = replace(limits, work=some_work(rng, limits))
    world = World(limits, works, rng.choice([0, 0, MOST_FIXED]), rng.choice([0, 1]), seed)
    check_the_end(world.run())


@pytest.mark.parametrize("seed", range(share(20)))
def test_random_worlds_whose_memory_changes(seed: int) -> None:
    rng = random.Random(seed)
    limits = some_limits(rng)
    most = limits.memory_bytes
    changes = {rng.randint(1, 3000): rng.choice([0, min(40, most), most // 5, most // 2, most]) for _ in range(30)}
    works, fixed, lag = some_works(rng, limits, 80), rng.choice([0, MOST_FIXED]), rng.choice([0, 1])
    if seed % 2:
        limits = replace(limits, work=some_work(rng, limits))
    calm = World(limits, deepcopy(works), fixed, lag, seed).run()
    world = World(limits, works, fixed, lag, seed, changes=changes)
    check_the_end(world.run())
    for work, undisturbed in zip(world.works, calm.works, strict=True):
        outcomes = {*work.outcomes, *undisturbed.outcomes}
        assert len(outcomes) == 1 or "cancelled" in outcomes, "memory that is short for now changes an outcome"


@st.composite
def small_works(draw: st.DrawFn) -> list[Work]:
    works = []
    for number in range(draw(st.integers(1, 8))):
        lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
        works.append(
            Work(
                id=f"r{number}",
                arrival=draw(st.integers(0, 20)),
                priority=draw(st.sampled_from(CLASSES)),
                prompt=draw(st.integers(0, 40)),
                lengths=lengths,
                max_tokens=max(lengths) + draw(st.integers(0, 5)),
                cached=draw(st.integers(0, 40)),
                cancel_at=draw(st.none() | st.integers(0, 60)),
            )
        )
    return works


@examples(200)
@given(
    works=small_works(),
    limits=st.builds(
        Limits, st.integers(3, 6), st.integers(1, 120), st.integers(1, 8), st.integers(1, 20), st.integers(1, 10)
    ),
    lag=st.integers(0, 1),
)
def test_small_worlds(works: list[Work], limits: Limits, lag: int) -> None:
    check_the_end(World(limits, works, lag=lag).run())


def admitted_during_the_wait(world: World, work: Work) -> int:
    assert work.begun is not None
    return sum(
        other.begun is not None and other is not work and work.arrival < other.begun <= work.begun
        for other in world.works
    )


@pytest.mark.parametrize("waiting", [1, 5])
@pytest.mark.parametrize("priority", CLASSES)
def test_no_class_starves_behind_too_much_of_the_others(priority: Priority, waiting: int) -> None:
    others = [
        work for other in CLASSES for work in stream(other, 240, 0.5, 20, 10) if other != priority
    ]  # there are rows for a fifth of them
    mine = [Work(f"mine{n}", 80, priority, 20, [10], 10) for n in range(waiting)]
    world = World(Limits(8, 10**6, 64, 256), [*others, *mine]).run()
    # Of each `sum(WEIGHTS)` admissions this class gets its weight.
    share = WEIGHTS[priority] / sum(WEIGHTS.values())
    for work in mine:
        assert admitted_during_the_wait(world, work) <= (waiting + 1) / share + 8


@pytest.mark.parametrize("priority", CLASSES)
def test_large_ones_get_in_through_a_stream_of_small_ones(priority: Priority) -> None:
    small = stream("interactive", 800, 0.5, 10, 10)
    large = Work("large", 100, priority, 900, [20], 20)
    many = Work("many", 100, priority, 10, [20] * 8, 20)
    world = World(Limits(8, 1000, 64, 256, room=16), [*small, large, many]).run()
    for work in (large, many):
        assert work.outcomes == ["finished"]
        # Its class's turns, behind 120 of its own where it is interactive, and as many again as its patience allows.
        assert admitted_during_the_wait(world, work) <= 64 // WEIGHTS[priority] * 2 + 16 * 9 + 16


def test_a_background_request_ends_though_others_keep_outgrowing_the_memory() -> None:
    others = stream("interactive", 50, 10, 50, 300)
    mine = Work("mine", 50, "background", 400, [100], 100)
    world = World(Limits(16, 1000, 16, 64, room=8), [*others, mine]).run()
    assert sum(work.preemptions for work in world.works) > 50
    assert mine.preemptions <= 3
    # Four requests fill the memory; 50 of them need some 5,000 steps.
    assert mine.ended_at < 2500
    check_the_end(world)


def test_all_of_one_class_get_through_memory_pressure_in_order() -> None:
    world = World(Limits(64, 2000, 64, 256, room=16), stream("normal", 200, 1, 20, 200)).run()
    ends = [work.ended_at for work in world.works]
    late = max(end - max(ends[:place]) for place, end in enumerate(ends) if place)
    assert late < 500  # nobody ends long after all those that came before


@pytest.mark.parametrize("long", CLASSES)
@pytest.mark.parametrize("short", CLASSES)
@pytest.mark.parametrize("decoding", [False, True])
def test_a_short_prompt_is_read_within_a_few_chunks_of_a_long_one(
    long: Priority, short: Priority, decoding: bool
) -> None:
    works = [Work("long", 0, long, 100_000, [5], 5), Work("short", 30, short, 32, [5], 5)]
    works += [Work("decoding", 0, "normal", 1, [5000], 5000)] * decoding
    World(Limits(8, 10**6, 128, 512), works).run()
    allowed = 1 + max(WEIGHTS[long] / WEIGHTS[short], 1) * 32 / 128
    assert works[1].ended_at - works[1].arrival - 5 - 2 <= allowed


def test_reading_follows_the_weights() -> None:
    for numbers in ((1, 1, 1), (3, 2, 5)):
        works = [
            Work(f"{priority}{n}", 0, priority, 10**7, [1], 1)
            for priority, number in zip(CLASSES, numbers, strict=True)
            for n in range(number)
        ]
        works.append(Work("decoding", 0, "normal", 1, [10**6], 10**6))
        world = World(Limits(64, 10**9, 100, 400), works)
        world.random.random = lambda: 1.0  # type: ignore[method-assign]  # no changes of the prefix cache
        for work in works:
            world.arrive(work)
        for _ in range(3000):
            world.step()
        for priority, weight in WEIGHTS.items():
            part = world.read[priority] / sum(world.read.values())
            assert part == pytest.approx(weight / sum(WEIGHTS.values()), rel=0.05)


def test_admissions_follow_the_weights() -> None:
    works = [work for priority in CLASSES for work in stream(priority, 2500, 0.1, 1, 4)]
    world = World(Limits(4, 10**6, 64, 64), works)
    arriving = iter(world.works)
    for _ in range(250):
        for work in [next(arriving) for _ in range(30)]:
            world.arrive(work)
        world.step()
    begun = {p: sum(w.begun is not None for w in works if w.priority == p) for p in CLASSES}
    for priority, weight in WEIGHTS.items():
        assert begun[priority] / sum(begun.values()) == pytest.approx(weight / sum(WEIGHTS.values()), rel=0.1)
