"""The scheduler's world: a runner that computes nothing, keeps accounts of its own, and checks every plan."""

import math
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchard.core.request import Priority, Sender
from orchard.engine.scheduler import Scheduler, StepPlan
from orchard.engine.ticket import LEAST_CHUNK, Limits, StepWork, Ticket

CLASSES: tuple[Priority, ...] = ("interactive", "normal", "background")
MOST_FIXED = 10
NOBODY = Sender()


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
    sender: Sender = NOBODY
    generated: int = 0
    since: int = 0
    left: int = 0
    begun: int | None = None
    order: int = -1
    preemptions: int = 0
    displacements: int = 0
    outcomes: list[str] = field(default_factory=list)
    ended_at: int = 0
    rows: int = field(init=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = len(self.lengths)
        self.length = self.prompt

    @property
    def rows_left(self) -> int:
        return len(self.lengths)

    @property
    def rank(self) -> tuple[int, int]:
        return max(CLASSES.index(self.priority) - self.preemptions, 0), self.order


class World:
    """Runs `works` to their ends; every row takes a byte for each of its tokens, and `fixed` more.

    `lag`: the runner hears of a row's end one step late, and computes a token too many, as one that launches a step
    before it has read the last one does. `changes`: at which step the memory becomes so many bytes for now; it is whole
    again at the end. Each request may need as much as there is at the beginning.
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
        self.most = limits.memory_bytes
        self.changes = changes or {}
        self.works = sorted(works, key=lambda work: work.arrival)
        self.scheduler = Scheduler(limits)
        for work in self.works:
            self.bound(work)
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

    def bound(self, work: Work) -> None:
        """As the runner bounds an answer, its prompt and its media can be read again beside all of it."""
        if work.media:
            free = self.most - self.whole(work, work.max_tokens)
            work.media = min(work.media, max(int(free / (1 + self.limits.work.copies)), 0))
        if self.limits.work != StepWork():
            while work.max_tokens > 1 and self.whole(work, work.max_tokens) > self.most:
                work.max_tokens -= 1
            work.lengths = [min(length, work.max_tokens) for length in work.lengths]

    def whole(self, work: Work, tokens: int) -> int:
        """The bytes of a request that is read again after so many tokens, without its media."""
        of_step, length = self.limits.work, work.prompt + tokens
        rows = work.rows * (self.fixed + length)
        drawing = work.rows * (of_step.row + of_step.chunk(1, length))
        return math.ceil(rows * (1 + of_step.copies)) + drawing + of_step.chunk(LEAST_CHUNK, length)

    def run(self, most: int = 200_000) -> "World":
        arriving = iter(self.works)
        work = next(arriving, None)
        while work or self.waiting or self.running:
            if self.scheduler.is_idle and self.scheduler.starved_ids and self.now > max(self.changes):
                self.change(self.most)
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
            sender=work.sender,
            length=work.length,
        )
        refusal = self.scheduler.add(ticket)
        needed = self.alone(work)
        assert (refusal is not None) == (needed > self.most)
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
        assert not self.scheduler.limit_memory(memory_bytes, self.most), "a limit that is low for now refuses nothing"
        self.last_begin = -(10**9)  # who was admitted a moment ago may have to go

    def carry_out(self, plan: StepPlan) -> None:
        for refusal in plan.too_large:
            self.fail(self.known[refusal.id], refusal.needed_bytes)
        victims = [self.known[name] for name in plan.preempt]
        assert not ((victims or plan.displace) and plan.begin), "somebody takes the place of who was preempted"
        for work in victims:
            self.preempt(work)
        self.displace([self.known[name] for name in plan.displace])
        for name in plan.begin:
            self.begin(self.known[name])
        starved = {work.id for work in self.waiting if not self.fits_alone(work)}
        assert starved == set(self.scheduler.starved_ids)
        assert self.running or len(self.waiting) == len(starved) or plan.displace or plan.preempt, "idle with work"
        decoding = [work for work in self.running if not work.left]
        prefill = self.scheduler.plan_prefill()
        self.check_budget(prefill, bool(decoding))
        self.chunk_bytes = 0
        for name, tokens in prefill:
            self.prefill(self.known[name], tokens)
        for work in decoding:
            self.decode(work)
        assert not self.running or decoding or prefill, "a step in which nothing happens"
        self.busy_steps += bool(self.running)

    def check_budget(self, prefill: list[tuple[str, int]], decoding: bool) -> None:
        budget = self.limits.chunk if decoding else self.limits.idle_chunk
        assert sum(tokens for _, tokens in prefill) <= budget
        assert len({name for name, _ in prefill}) == len(prefill) <= 4
        assert all(tokens > 0 for _, tokens in prefill)
        assert bool(prefill) == any(work.left for work in self.running), "nothing is read though there is something"

    def check_totals(self) -> None:
        assert sum(len(work.lengths) for work in self.running) <= self.limits.max_rows
        used = sum(self.bytes(work) for work in self.running)
        assert used == self.scheduler.used_bytes
        needed = sum(self.needs(work) for work in self.running) + self.chunk_bytes
        assert used <= needed <= self.scheduler.planned_bytes
        # Nothing is left of a plan whose requests were all preempted.
        assert not self.running or self.scheduler.planned_bytes <= self.limits.memory_bytes
        assert (self.scheduler.running, self.scheduler.waiting) == (len(self.running), len(self.waiting))

    def bytes(self, work: Work, more: int = 0) -> int:
        rows = len(work.lengths) * (self.fixed + work.prompt + min(work.generated + more, work.max_tokens))
        return rows + (work.media if work.left else 0)

    def needs(self, work: Work, more: int = 0) -> int:
        of_step = self.limits.work
        return int(self.bytes(work, more) * (1 + of_step.copies)) + work.rows_left * (
            of_step.row + of_step.chunk(1, work.length)
        )

    def alone(self, work: Work) -> int:
        return self.needs(work, 1) + self.limits.work.chunk(min(work.length, LEAST_CHUNK), work.length)

    def fits_alone(self, work: Work) -> bool:
        return self.alone(work) <= self.limits.memory_bytes

    def fail(self, work: Work, needed: int) -> None:
        assert work in self.running
        assert needed == self.alone(work) > self.most
        self.end(work, "too large")

    def preempt(self, work: Work) -> None:
        assert work in self.running
        self.running.remove(work)
        if self.fits_alone(work):
            assert self.now - self.last_begin >= self.limits.room, "preempted soon after an admission"
            assert all(other.rank < work.rank for other in self.running), "the wrong one is preempted"
            assert self.running, "preempted though alone"
        work.preemptions += 1
        self.stop(work)

    def displace(self, works: list[Work]) -> None:
        rows, most = self.rows(), max(self.rows().values(), default=0)
        for work in works:
            others = {other.sender.caller for other in self.waiting if not other.outcomes} - {work.sender.caller}
            assert others, "a caller alone is preempted for a fair share"
            if most == self.limits.max_rows:
                assert rows[work.sender.caller] == most
            assert not work.displacements or work.since >= 16 << work.displacements, "it had no turn"
        for work in works:
            self.running.remove(work)
            work.displacements += 1
            self.stop(work)

    def rows(self) -> Counter[str]:
        """The rows of each caller."""
        rows: Counter[str] = Counter()
        for work in self.running:
            rows[work.sender.caller] += work.rows_left
        return rows

    def stop(self, work: Work) -> None:
        self.waiting.add(work)
        # The runner reads what is under way first, and may find that the last row has ended.
        for ends in self.over:
            for item in [item for item in ends if item[0] is work]:
                ends.remove(item)
                self.row_ended(*item)
        if not work.outcomes:
            work.left = work.prompt + work.generated * len(work.lengths)
            work.length = work.prompt + work.generated
        assert not self.scheduler.requeue(work.id, work.left, work.since)

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
        self.chunk_bytes += self.limits.work.chunk(max(tokens, min(work.left, work.length, LEAST_CHUNK)), work.length)
        work.left -= tokens
        self.read[work.priority] += tokens
        if work.left and self.random.random() < 0.1:  # the prefix cache has changed since
            work.left = self.random.randint(0, work.left)
            self.scheduler.set_prompt_tokens(work.id, work.left)

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
        self.scheduler.end_row(work.id)
        if not work.lengths:
            self.end(work, "finished")

    def end(self, work: Work, outcome: str) -> None:
        work.outcomes.append(outcome)
        work.ended_at = self.now
        self.running.discard(work)
        self.waiting.discard(work)


def some_work(rng: random.Random, limits: Limits) -> StepWork:
    """What a step takes beside the rows: up to a good part of the memory for a chunk of a long prompt."""
    part = limits.memory_bytes // 100
    token = rng.choice([0, 1, part // limits.chunk])
    wide = rng.choice([0, 0, part])
    return StepWork(rng.choice([0, 1, part]), token, rng.choice([0, 0, 1]), wide, rng.choice([0.0, 0.25]))


def some_limits(rng: random.Random) -> Limits:
    chunk = rng.choice([1, 7, 64, 256])
    memory = rng.choice([400, 2000, 8000, 100_000])
    return Limits(rng.choice([1, 2, 8, 64]), memory, chunk, chunk * rng.choice([1, 4]), rng.choice([1, 8, 64, 256]))


def some_works(rng: random.Random, limits: Limits, count: int) -> list[Work]:
    now = 0.0
    pace = rng.choice([0.2, 2.0, 20.0])
    longest = rng.choice([200, limits.memory_bytes // 3])
    shape = rng.choice([0.9, 0.4])
    callers = rng.choice(["a", "aaab", "abc"])
    works = []
    for number in range(count):
        now += rng.expovariate(1) * pace
        rows = min(rng.choice([1, 1, 1, 1, 2, 3, 8]), limits.max_rows)
        prompt = min(int(rng.paretovariate(0.8) * 5), limits.memory_bytes + 5, 200 * limits.chunk)
        most = min(int(rng.paretovariate(shape) * 8), longest, 700)
        lengths = [rng.choice([most, rng.randint(1, most)]) for _ in range(rows)]
        cancel = int(now) + rng.randint(0, 200) if rng.random() < 0.15 else None
        cached = rng.choice([0, 0, prompt // 2, prompt])
        free = max(limits.memory_bytes - rows * (prompt + most + MOST_FIXED), 0)
        media = rng.choice([0, 0, free // 4, free])
        sender = Sender(rng.choice(callers), rng.choice("12"), rng.choice("xy"))
        works.append(
            Work(f"r{number}", int(now), rng.choice(CLASSES), prompt, lengths, most, cached, media, cancel, sender)
        )
    return works


def stream(
    priority: Priority, count: int, every: float, prompt: int, length: int, *, sender: Sender = NOBODY
) -> list[Work]:
    """One request `every` so many steps."""
    return [
        Work(f"{sender.caller}{priority}{n}", int(n * every), priority, prompt, [length], length, sender=sender)
        for n in range(count)
    ]


def check_the_end(world: World) -> None:
    for work in world.works:
        assert len(work.outcomes) == 1, work
        assert work.outcomes != ["cancelled"] or work.cancel_at is not None
        # A request that was pushed out comes back when a row ends of those that were admitted before it, and its class
        # falls short of theirs but twice.
        before = sum(other.rows for other in world.works if 0 <= other.order < work.order)
        # Nor does it come sooner than where others give their rows to other callers.
        displacements = sum(other.displacements for other in world.works)
        assert work.preemptions <= 2 + before + len(world.changes) + displacements
        assert work.displacements <= 2 + math.log2(work.max_tokens)
    # No step is wasted: each decodes somebody, or reads as much as it may or a whole prompt.
    decoded = sum(work.generated + world.lag + 1 for work in world.works)
    costly = world.limits.work.chunk(1, 1) > 0
    smallest = LEAST_CHUNK if costly else world.limits.idle_chunk
    read = sum(world.read.values()) // min(smallest, world.limits.idle_chunk)
    displaced = sum(work.displacements for work in world.works)
    assert world.busy_steps <= decoded + read + world.reads + displaced
    assert world.scheduler.is_idle
    assert world.scheduler.used_bytes == 0
