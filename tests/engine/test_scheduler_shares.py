"""Shares: callers get the same rows, memory and prefill, and each of them all of it while it is alone."""

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.fair_queue import WEIGHTS
from orchard.core.request import Priority, Sender
from orchard.engine.scheduler import StepPlan
from orchard.engine.ticket import Limits
from tests.support.examples import examples, share
from tests.support.scheduler_world import CLASSES, Work, World, check_the_end, stream

ANN, BEN = Sender("ann"), Sender("ben")
ROOMY = Limits(64, 10**9, 64, 256)


def flood(
    count: int, sender: Sender = ANN, length: int = 2000, priority: Priority = "normal", rows: int = 1
) -> list[Work]:
    """Long requests that all come at once."""
    works = stream(priority, count, 0, 10, length, sender=sender)
    for work in works:
        work.lengths, work.rows = [length] * rows, rows
    return works


def small(arrival: int, sender: Sender = BEN, priority: Priority = "normal", length: int = 5) -> Work:
    return Work(f"small {sender.caller} {arrival}", arrival, priority, 10, [length], length, sender=sender)


def played(limits: Limits, works: list[Work], steps: int) -> World:
    """A world after so many steps."""
    world = World(limits, works)
    arrivals = defaultdict(list)
    for work in world.works:
        arrivals[work.arrival].append(work)
    for _ in range(steps):
        for work in arrivals[world.now]:
            world.arrive(work)
        world.step()
    return world


def wait(work: Work) -> int:
    assert work.begun is not None
    return work.begun - work.arrival


@pytest.mark.parametrize("rows", [1, 2, 8, 64])
@pytest.mark.parametrize("priority", CLASSES)
def test_a_small_request_begins_soon_though_one_caller_has_all_rows(priority: Priority, rows: int) -> None:
    works = [
        *flood(256 // rows, priority=priority, rows=rows),
        *(small(at, priority=priority) for at in (30, 300, 500)),
    ]
    played(ROOMY, works, 600)
    late = [work for work in works if work.sender == BEN]
    # One plan frees the rows, the next one gives them away. A single request with all rows first gets its turns.
    assert max(map(wait, late)) <= (3 if rows < 64 else 150)
    assert all(work.outcomes == ["finished"] for work in late)


@pytest.mark.parametrize(("prompt", "memory_bytes"), [(2500, 24_810), (12_000, 24_520), (20_000, 20_260)])
def test_a_small_request_begins_soon_though_one_caller_has_all_memory(prompt: int, memory_bytes: int) -> None:
    large = [Work(f"large{n}", 0, "normal", prompt, [3000], 3000, sender=ANN) for n in range(9)]
    works = [*large, small(40), small(200)]
    world = played(Limits(64, memory_bytes, 1024, 4096), works, 230)
    assert max(map(wait, works[-2:])) <= 3
    assert 1 <= sum(work.displacements for work in world.works) <= 2


@examples(100)
@given(ann=st.integers(8, 40), ben=st.integers(8, 40), rows=st.sampled_from([2, 3, 8]), more=st.integers(0, 30))
def test_two_callers_have_the_same_rows(ann: int, ben: int, rows: int, more: int) -> None:
    works = [*flood(ann, ANN), *flood(ben, BEN)]
    for work in works[ann:]:
        work.arrival = more
    world = played(Limits(rows, 10**9, 64, 256), works, more + 40)
    assert sum(world.rows().values()) == rows
    assert abs(world.rows()["ann"] - world.rows()["ben"]) <= 1
    before = sum(work.displacements for work in works)
    assert before <= rows // 2
    for _ in range(100):
        world.step()
    assert sum(work.displacements for work in works) == before  # equal shares stay as they are


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("ann", "ben"), [(1, 1), (1, 9), (7, 3)])
def test_short_requests_of_two_callers_get_equal_turns(rows: int, ann: int, ben: int) -> None:
    """`ann` and `ben`: how many requests of each come for each that ends."""
    works = [
        work for n, sender in ((ann, ANN), (ben, BEN)) for work in stream("normal", 200 * n, 1 / n, 5, 6, sender=sender)
    ]
    world = played(Limits(rows, 10**9, 64, 256), works, 200)
    done = {sender: sum(work.generated for work in works if work.sender is sender) for sender in (ANN, BEN)}
    assert abs(done[ANN] - done[BEN]) <= 6 * rows + 6
    assert sum(work.displacements for work in world.works) <= 2


@pytest.mark.parametrize("seed", range(share(20)))
def test_nothing_lies_idle(seed: int) -> None:
    rng = random.Random(seed)
    most = rng.choice([2, 8, 32])
    works = [
        Work(f"r{n}", rng.randrange(300), rng.choice(CLASSES), 5, [length], length, sender=Sender(rng.choice("aaabc")))
        for n, length in enumerate(rng.choices([3, 30, 300], k=100))
    ]
    world = World(Limits(most, 10**9, 64, 256), works)
    carry_out, idle = world.carry_out, [0]

    def watched(plan: StepPlan) -> None:
        carry_out(plan)
        if not plan.displace:
            idle.append(min(most - len(world.running), len(world.waiting)))

    world.carry_out = watched  # type: ignore[method-assign]
    check_the_end(world.run())
    assert len(idle) > 100
    assert max(idle) == 0


@pytest.mark.parametrize("seed", range(share(20)))
def test_a_caller_alone_is_never_displaced(seed: int) -> None:
    rng = random.Random(seed)
    works = [
        Work(
            f"r{n}", rng.randrange(100), rng.choice(CLASSES), 5, [60] * rng.choice([1, 2]), 60,
            sender=Sender("ann", rng.choice("1234"), rng.choice("xy")),
        )
        for n in range(60)
    ]  # fmt: skip
    check_the_end(World(Limits(4, 10**6, 64, 256), works).run())
    assert not any(work.displacements for work in works)


def test_no_request_is_displaced_often() -> None:
    """A second caller sends one small request after the other."""
    works = [*flood(4, length=3000), *(small(at) for at in range(20, 6000, 9))]
    world = World(Limits(4, 10**9, 64, 256), works).run()
    check_the_end(world)
    long = works[:4]
    assert all(1 <= work.displacements <= 8 for work in long)
    # They share the row that the other caller takes at times, and lose nothing else.
    assert max(work.ended_at for work in long) <= 3000 * 4 / 3 + 300


def test_the_one_who_has_least_goes_first() -> None:
    """Of callers, of connections of one caller, and of conversations of one connection."""
    for others in (Sender("b"), Sender("a", "2"), Sender("a", "1", "y")):
        mine = Sender("a", "1", "x")
        works = [*flood(6, mine, 50), *flood(2, others, 50, "normal")]
        for number, work in enumerate(works):
            work.id = str(number)
        played(Limits(4, 10**6, 64, 256), works, 1)
        assert [work.begun is not None for work in works] == [True, True, False, False, False, False, True, True]


@pytest.mark.parametrize("low", ["normal", "background"])
def test_priorities_go_first(low: Priority) -> None:
    """Others with a lower priority get no more rows from those that run than the priorities' weights say."""
    works = [*flood(30, ANN, 500, "interactive"), *flood(30, BEN, 500, low)]
    for work in works[30:]:
        work.arrival = 10
    world = played(Limits(20, 10**9, 64, 256), works, 100)
    share = WEIGHTS[low] / (WEIGHTS[low] + WEIGHTS["interactive"])
    assert abs(world.rows()["ben"] - 20 * share) <= 1
    works = [*flood(30, ANN, 500, low), *flood(10, BEN, 500, "interactive")]
    for work in works[30:]:
        work.arrival = 10
    assert played(Limits(20, 10**9, 64, 256), works, 100).rows() == {"ann": 10, "ben": 10}


def test_prefill_is_shared() -> None:
    for others in (Sender("b"), Sender("a", "2"), Sender("a", "1", "y")):
        mine = Sender("a", "1", "x")
        works = [*flood(20, mine), *flood(1, others)]
        for number, work in enumerate(works):
            work.id, work.prompt = str(number), 10**6
        world = World(ROOMY, works)
        world.random.random = lambda: 1.0  # type: ignore[method-assign]  # no changes of the prefix cache
        for work in works:
            world.arrive(work)
        for _ in range(1000):
            world.step()
        assert 10**6 - works[-1].left == pytest.approx(1000 * 256 / 2, rel=0.01)
