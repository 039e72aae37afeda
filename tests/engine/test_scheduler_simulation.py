"""The scheduler against a runner that computes nothing, keeps accounts of its own, and checks every plan."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.core.request import Priority
from orchard.engine.scheduler import WEIGHTS, Limits, Scheduler, StepPlan, Ticket
from tests.support.examples import examples, share

CLASSES: tuple[Priority, ...] = ("interactive", "normal", "background")
_MOST_FIXED = 10


@dataclass(eq=False)
class Work:
    """A request as it really is; `lengths`: after how many tokens each row ends.

    `media`: bytes that it takes besides until its prompt has been read.
    """

    id: str
    arrival: int
    priority: Priority
    prompt: int
    lengths: list[int]
    max_tokens: int
    cached: int = 0
    media: int = 0
    cancel_at: int | None = None
    generated: int = 0
    since: int = 0
    left: int = 0
    begun: int | None = None
    order: int = -1
    preemptions: int = 0
    outcomes: list[str] = field(default_factory=list)
    ended_at: int = 0
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = len(self.lengths)

    @property
    def rank(self) -> tuple[int, int]:
        return max(CLASSES.index(self.priority) - self.preemptions, 0), self.order


class World:
    """Runs `works` to their ends; every row takes a byte for each of its tokens, and `fixed` more.

    `lag`: the runner hears of a row's end one step late, and computes a token too many, as one that launches a step
    before it has read the last one does. `changes`: at which step the memory becomes so many bytes.
    """

    def __init__(
        self,
        limits: Limits,
        works: Iterable[Work],
        fixed: int = 0,
        lag: int = 1,
        seed: int = 0,
        *,
        changes: dict[int, int] | None = None,
    ) -> None:
        self.limits, self.fixed, self.lag = limits, fixed, lag
        self.changes = changes or {}
        self.works = sorted(works, key=lambda work: work.arrival)
        self.scheduler = Scheduler(limits)
        self.random = random.Random(seed)
        self.now = 0
        self.known: dict[str, Work] = {}
        self.waiting: set[Work] = set()
        self.running: set[Work] = set()
        self.over: list[list[tuple[Work, int]]] = [[] for _ in range(lag + 1)]
        self.read = dict.fromkeys(CLASSES, 0)
        self.reads = 0
        self.busy_steps = 0
        self.last_begin = -(10**9)
        self.admissions = 0

    def run(self, most: int = 200_000) -> "World":
        arriving = iter(self.works)
        work = next(arriving, None)
        while work or not self.scheduler.idle:
            while work and work.arrival <= self.now:
                self.arrive(work)
                work = next(arriving, None)
            self.step()
            assert self.now < most, "it never ends"
        return self

    def arrive(self, work: Work) -> None:
        self.known[work.id] = work
        work.left = max(work.prompt - work.cached, 0)
        ticket = Ticket(
            id=work.id,
            priority=work.priority,
            prompt_tokens=work.left,
            rows=work.rows,
            max_tokens=work.max_tokens,
            prompt_bytes=work.prompt,
            bytes_per_token=1,
            fixed_bytes=self.fixed,
            media_bytes=work.media,
        )
        refusal = self.scheduler.add(ticket)
        needed = self.bytes(work, 1)
        assert (refusal is not None) == (needed > self.limits.memory_bytes)
        if refusal:
            assert (refusal.id, refusal.needed_bytes) == (work.id, needed)
            self.end(work, "refused")
        else:
            self.waiting.add(work)

    def step(self) -> None:
        self.now += 1
        for work in [*self.waiting, *self.running]:
            if work.cancel_at is not None and work.cancel_at <= self.now:
                self.scheduler.cancel(work.id)
                self.end(work, "cancelled")
        if self.now in self.changes:
            self.change(self.changes[self.now])
        plan = self.scheduler.plan()
        self.carry_out(plan)
        self.check_totals()
        for work, row in self.over.pop(0):
            self.row_ended(work, row)
        self.over.append([])

    def change(self, memory_bytes: int) -> None:
        self.limits = replace(self.limits, memory_bytes=memory_bytes)
        refusals = {refusal.id: refusal for refusal in self.scheduler.limit_memory(memory_bytes)}
        assert refusals.keys() == {work.id for work in self.waiting if self.bytes(work, 1) > memory_bytes}
        for name, refusal in refusals.items():
            assert (refusal.needed_bytes, refusal.memory_bytes) == (self.bytes(self.known[name], 1), memory_bytes)
            self.end(self.known[name], "refused")
        self.last_begin = -(10**9)  # who was admitted a moment ago may have to go

    def carry_out(self, plan: StepPlan) -> None:
        for refusal in plan.too_large:
            self.fail(self.known[refusal.id], refusal.needed_bytes)
        victims = [self.known[name] for name in plan.preempt]
        assert not (victims and plan.begin), "somebody takes the place of who was preempted"
        for work in victims:
            self.preempt(work)
        for name in plan.begin:
            self.begin(self.known[name])
        assert self.running or not self.waiting, "idle with work"
        decoding = [work for work in self.running if not work.left]
        self.check_budget(plan, bool(decoding))
        for name, tokens in plan.prefill:
            self.prefill(self.known[name], tokens)
        for work in decoding:
            self.decode(work)
        assert not self.running or decoding or plan.prefill, "a step in which nothing happens"
        self.busy_steps += bool(self.running)

    def check_budget(self, plan: StepPlan, decoding: bool) -> None:
        budget = self.limits.chunk if decoding else self.limits.idle_chunk
        assert sum(tokens for _, tokens in plan.prefill) <= budget
        assert len({name for name, _ in plan.prefill}) == len(plan.prefill) <= 4
        assert all(tokens > 0 for _, tokens in plan.prefill)
        assert bool(plan.prefill) == any(work.left for work in self.running), (
            "nothing is read though there is something"
        )

    def check_totals(self) -> None:
        assert sum(len(work.lengths) for work in self.running) <= self.limits.max_rows
        used = sum(self.bytes(work) for work in self.running)
        assert used == self.scheduler.used_bytes <= self.limits.memory_bytes
        assert (self.scheduler.running, self.scheduler.waiting) == (len(self.running), len(self.waiting))

    def bytes(self, work: Work, more: int = 0) -> int:
        rows = len(work.lengths) * (self.fixed + work.prompt + min(work.generated + more, work.max_tokens))
        return rows + (work.media if work.left else 0)

    def fail(self, work: Work, needed: int) -> None:
        assert work in self.running
        assert needed == self.bytes(work, 1) > self.limits.memory_bytes
        self.end(work, "too large")

    def preempt(self, work: Work) -> None:
        assert work in self.running
        assert self.now - self.last_begin >= self.limits.room, "preempted soon after an admission"
        self.running.remove(work)
        assert all(other.rank < work.rank for other in self.running), "the wrong one is preempted"
        assert self.running, "preempted though alone"
        work.preemptions += 1
        self.waiting.add(work)
        # The runner reads what is under way first, and may find that the last row has ended.
        for ends in self.over:
            for item in [item for item in ends if item[0] is work]:
                ends.remove(item)
                self.row_ended(*item)
        if not work.outcomes:
            work.left = work.prompt + work.generated * len(work.lengths)
        if refusal := self.scheduler.returned(work.id, work.left, work.since):
            # There was memory for its media when it began.
            assert work.media
            assert self.changes
            assert refusal.needed_bytes == self.bytes(work, 1) > self.limits.memory_bytes
            self.end(work, "too large")

    def begin(self, work: Work) -> None:
        assert work in self.waiting
        self.waiting.remove(work)
        self.running.add(work)
        if work.begun is None:
            work.begun, work.order = self.now, self.admissions
            self.admissions += 1
        work.since = 0
        self.reads += 1
        self.last_begin = self.now

    def prefill(self, work: Work, tokens: int) -> None:
        assert work in self.running
        assert 0 < tokens <= work.left
        work.left -= tokens
        self.read[work.priority] += tokens
        if work.left and self.random.random() < 0.1:  # the prefix cache has changed since
            work.left = self.random.randint(0, work.left)
            self.scheduler.remains(work.id, work.left)

    def decode(self, work: Work) -> None:
        if work.generated == work.max_tokens:
            return
        work.generated += 1
        work.since += 1
        self.over[-1] += [(work, length) for length in work.lengths if length == work.generated]

    def row_ended(self, work: Work, row: int) -> None:
        if work.outcomes:
            return
        work.lengths.remove(row)
        self.scheduler.ended(work.id)
        if not work.lengths:
            self.end(work, "finished")

    def end(self, work: Work, outcome: str) -> None:
        work.outcomes.append(outcome)
        work.ended_at = self.now
        self.running.discard(work)
        self.waiting.discard(work)


def some_limits(rng: random.Random) -> Limits:
    chunk = rng.choice([1, 7, 64, 256])
    memory = rng.choice([400, 2000, 8000, 100_000])
    return Limits(rng.choice([1, 2, 8, 64]), memory, chunk, chunk * rng.choice([1, 4]), rng.choice([1, 8, 64, 256]))


def some_works(rng: random.Random, limits: Limits, count: int) -> list[Work]:
    now = 0.0
    pace = rng.choice([0.2, 2.0, 20.0])
    longest = rng.choice([200, limits.memory_bytes // 3])
    shape = rng.choice([0.9, 0.4])
    works = []
    for number in range(count):
        now += rng.expovariate(1) * pace
        rows = min(rng.choice([1, 1, 1, 1, 2, 3, 8]), limits.max_rows)
        prompt = min(int(rng.paretovariate(0.8) * 5), limits.memory_bytes + 5, 200 * limits.chunk)
        most = min(int(rng.paretovariate(shape) * 8), longest, 700)
        lengths = [rng.choice([most, rng.randint(1, most)]) for _ in range(rows)]
        cancel = int(now) + rng.randint(0, 200) if rng.random() < 0.15 else None
        cached = rng.choice([0, 0, prompt // 2, prompt])
        # As the runner bounds an answer, its media can be encoded again beside all of it.
        free = max(limits.memory_bytes - rows * (prompt + most + _MOST_FIXED), 0)
        media = rng.choice([0, 0, free // 4, free])
        works.append(Work(f"r{number}", int(now), rng.choice(CLASSES), prompt, lengths, most, cached, media, cancel))
    return works


def check_the_end(world: World) -> None:
    for work in world.works:
        assert len(work.outcomes) == 1, work
        assert work.outcomes != ["cancelled"] or work.cancel_at is not None
        # A request that was pushed out comes back when a row ends of those that were admitted before it, and its class
        # falls short of theirs but twice.
        before = sum(other.rows for other in world.works if 0 <= other.order < work.order)
        assert work.preemptions <= 2 + before + len(world.changes)
    # No step is wasted: each decodes somebody, or reads as much as it may or a whole prompt.
    decoded = sum(work.generated + world.lag + 1 for work in world.works)
    read = sum(world.read.values()) // world.limits.idle_chunk
    assert world.busy_steps <= decoded + read + world.reads
    assert world.scheduler.idle
    assert world.scheduler.used_bytes == 0


@pytest.mark.parametrize("seed", range(share(60)))
def test_random_worlds(seed: int) -> None:
    rng = random.Random(seed)
    limits = some_limits(rng)
    world = World(limits, some_works(rng, limits, 80), rng.choice([0, 0, _MOST_FIXED]), rng.choice([0, 1]), seed)
    check_the_end(world.run())


@pytest.mark.parametrize("seed", range(share(20)))
def test_random_worlds_whose_memory_changes(seed: int) -> None:
    rng = random.Random(seed)
    limits = some_limits(rng)
    changes = {rng.randint(1, 3000): rng.choice([0, 40, 300, 2000, limits.memory_bytes]) for _ in range(30)}
    world = World(
        limits, some_works(rng, limits, 80), rng.choice([0, _MOST_FIXED]), rng.choice([0, 1]), seed, changes=changes
    )
    check_the_end(world.run())


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


def stream(priority: Priority, count: int, every: float, prompt: int, length: int) -> list[Work]:
    """One request `every` so many steps."""
    return [Work(f"{priority}{n}", int(n * every), priority, prompt, [length], length) for n in range(count)]


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
        work for other in CLASSES for work in stream(other, 600, 0.5, 20, 10) if other != priority
    ]  # there are rows for a fifth of them
    mine = [Work(f"mine{n}", 200, priority, 20, [10], 10) for n in range(waiting)]
    world = World(Limits(8, 10**6, 64, 256), [*others, *mine]).run()
    # Of each `sum(WEIGHTS)` admissions this class gets its weight.
    share = WEIGHTS[priority] / sum(WEIGHTS.values())
    for work in mine:
        assert admitted_during_the_wait(world, work) <= (waiting + 1) / share + 8


@pytest.mark.parametrize("priority", CLASSES)
def test_large_ones_get_in_through_a_stream_of_small_ones(priority: Priority) -> None:
    small = stream("interactive", 1500, 0.5, 10, 10)
    large = Work("large", 100, priority, 900, [20], 20)
    many = Work("many", 100, priority, 10, [20] * 8, 20)
    world = World(Limits(8, 1000, 64, 256, room=16), [*small, large, many]).run()
    for work in (large, many):
        assert work.outcomes == ["finished"]
        # Its class's turns, behind 120 of its own where it is interactive, and as many again as its patience allows.
        assert admitted_during_the_wait(world, work) <= 64 // WEIGHTS[priority] * 2 + 16 * 9 + 16


def test_a_background_request_ends_though_others_keep_outgrowing_the_memory() -> None:
    others = stream("interactive", 300, 10, 50, 300)
    mine = Work("mine", 50, "background", 400, [100], 100)
    world = World(Limits(16, 1000, 16, 64, room=8), [*others, mine]).run()
    assert sum(work.preemptions for work in world.works) > 100
    assert mine.preemptions <= 3
    # Four requests fill the memory; 300 of them need some 30,000 steps.
    assert mine.ended_at < 5000
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
        weights = {p: WEIGHTS[p] * number for p, number in zip(CLASSES, numbers, strict=True)}
        for priority, weight in weights.items():
            part = world.read[priority] / sum(world.read.values())
            assert part == pytest.approx(weight / sum(weights.values()), rel=0.05)


def test_admissions_follow_the_weights() -> None:
    works = [work for priority in CLASSES for work in stream(priority, 4000, 0.1, 1, 4)]
    world = World(Limits(4, 10**6, 64, 64), works)
    arriving = iter(world.works)
    for _ in range(400):
        for work in [next(arriving) for _ in range(30)]:
            world.arrive(work)
        world.step()
    begun = {p: sum(w.begun is not None for w in works if w.priority == p) for p in CLASSES}
    for priority, weight in WEIGHTS.items():
        assert begun[priority] / sum(begun.values()) == pytest.approx(weight / sum(WEIGHTS.values()), rel=0.1)
