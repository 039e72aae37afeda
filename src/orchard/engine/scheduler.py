"""Decides which request is worked on when. It computes nothing: no MLX, no clock, no thread.

Every running row decodes in every step, by one token or, where proposed tokens are verified, by several. The scheduler
decides the rest: which requests are admitted, which prompts are read (prefill), and which requests are preempted. All
three use the same weights of the priorities.

Prefill: self-clocked fair queueing (Golestani 1994, https://doi.org/10.1109/INFCOM.1994.337677). The next chunk goes to
the prompt whose chunk ends first in virtual time (tokens by weight), and a new prompt starts at the present one. So
short prompts don't wait for long ones, and every request gets its share.

Admission: the same between the classes, counted in rows; first come, first served within one. A request that doesn't
fit may be overtaken by others `_PATIENCE` / weight times; then no later one is admitted before it. None is admitted
unless every running row could grow by `Limits.room` tokens more, so that none is preempted within that many steps.

Preemption: the lowest class first, in it the last admitted. Each preemption lifts a request by one class in this order,
and it keeps its place in the order of admission, so that sooner or later each request is never preempted again.
"""

from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from orchard.core.request import Priority

WEIGHTS: dict[Priority, int] = {"interactive": 16, "normal": 4, "background": 1}
_RANKS: dict[Priority, int] = {"interactive": 0, "normal": 1, "background": 2}
_PATIENCE = 64
_LOOK_AHEAD = 16


class Limits(Struct, frozen=True):
    """What the requests share.

    `memory_bytes`: for the keys and values of all rows. `chunk`: the most prompt tokens read in a step in which a row
    decodes; `idle_chunk`: in any other. `room`: the tokens that every row must be able to grow by, at an admission.
    `pieces`: the most prompts that are read in a step, as each may be a forward pass of its own.
    """

    max_rows: int
    memory_bytes: int
    chunk: int
    idle_chunk: int
    room: int = 256
    pieces: int = 4


class Ticket(Struct, eq=False):
    """What the scheduler knows of a request; the ticket belongs to the scheduler once it has been added.

    `prompt_tokens`: still to be read, after what the prefix cache gave; may be 0. `rows`: choices that have not ended.
    `max_tokens`: the most that a row may still generate, at least 1. `prompt_bytes`: what one row's copy of the whole
    prompt takes. `bytes_per_token`: what one row grows by with each token. `fixed_bytes`: what one row takes anyhow.
    `state_bytes`: what of that is recurrent states, which a pass may keep for each token that it verifies.
    `media_bytes`: what encoding the prompt's media takes, until the prompt has been read.
    """

    id: str
    priority: Priority
    prompt_tokens: int
    rows: int
    max_tokens: int
    prompt_bytes: int
    bytes_per_token: int
    fixed_bytes: int = 0
    state_bytes: int = 0
    media_bytes: int = 0
    # The scheduler's own notes. `generated`: tokens of each row since it was last admitted, `earlier`: before.
    generated: int = 0
    earlier: int = 0
    seniority: int = -1
    preemptions: int = 0
    overtaken: int = 0
    tag: float = 0.0

    @property
    def rank(self) -> tuple[int, int]:
        """The order of preemption: the greatest goes first."""
        return max(_RANKS[self.priority] - self.preemptions, 0), self.seniority

    def bytes_with(self, tokens: int) -> int:
        """Return what all rows take once each has generated `tokens` more, or as many as it may."""
        generated = min(self.generated + tokens, self.max_tokens)
        encoding = self.media_bytes if self.prompt_tokens else 0
        return encoding + self.rows * (self.fixed_bytes + self.prompt_bytes + generated * self.bytes_per_token)


class TooLarge(Struct, frozen=True):
    """A request that doesn't fit although it is alone: it needs `needed_bytes`, and there are `memory_bytes`."""

    id: str
    needed_bytes: int
    memory_bytes: int


class StepPlan(Struct, frozen=True):
    """One step, to be carried out in this order; every row decodes before prompts are read.

    `too_large`: to be failed; already forgotten. `preempt`, `pause`: free the memory of these, then call `returned`.
    `begin`: admitted, some of them again. `prefill`: (id, tokens) of the prompts to read; one that is complete decodes
    from the next step on.
    """

    too_large: list[TooLarge]
    preempt: list[str]
    begin: list[str]
    prefill: list[tuple[str, int]]
    pause: list[str] = []


class _WaitingQueue:
    """The waiting requests of one class: first those that were preempted, in the order of their first admission."""

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.tickets: list[Ticket] = []
        self.tag = 0.0

    def finish(self) -> float:
        """Return the virtual time at which the first one's turn ends."""
        return self.tag + self.tickets[0].rows / self.weight

    def insert(self, ticket: Ticket, now: float) -> None:
        """Put a request behind those that come before it; `now`: the present virtual time."""
        if not self.tickets:
            self.tag = max(self.tag, now)  # time without requests earns nothing
        place = len(self.tickets)
        if ticket.seniority >= 0:
            place = sum(0 <= other.seniority < ticket.seniority for other in self.tickets)
        self.tickets.insert(place, ticket)


class Scheduler:
    """Holds every request that has not ended. A plan counts as done once it is made; what fails is cancelled."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues = {priority: _WaitingQueue(weight) for priority, weight in WEIGHTS.items()}
        self._running: dict[str, Ticket] = {}
        self._returning: dict[str, Ticket] = {}
        self._paused: dict[str, Ticket] = {}
        self._to_pause: set[str] = set()
        self._admitted = 0
        self._admission_time = 0.0
        self._reading_time = 0.0

    @property
    def running(self) -> int:
        """How many requests are admitted."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests wait to be admitted, for the first time or again; those that are paused among them."""
        return len(self._paused) + self._to_admit

    @property
    def idle(self) -> bool:
        """Whether a plan would be empty."""
        return not (self.running or self._to_admit)

    @property
    def _to_admit(self) -> int:
        return len(self._returning) + sum(len(queue.tickets) for queue in self._queues.values())

    @property
    def used_bytes(self) -> int:
        """What the rows take now; a prompt that is being read counts as if it had been read."""
        return sum(ticket.bytes_with(0) for ticket in self._running.values())

    def add(self, ticket: Ticket) -> TooLarge | None:
        """Queue a request; return the reason if it could never run. Raise ValueError for more rows than may run."""
        if not 1 <= ticket.rows <= self._limits.max_rows:
            raise ValueError(f"{ticket.id} has {ticket.rows} rows; between 1 and {self._limits.max_rows} can run")
        return self._enqueue(ticket)

    def limit_memory(self, memory_bytes: int) -> list[TooLarge]:
        """Limit all rows to so many bytes from the next plan on; return, and forget, what could never run now."""
        self._limits = replace(self._limits, memory_bytes=memory_bytes)
        waiting = [ticket for queue in self._queues.values() for ticket in queue.tickets]
        return self._forget_too_large(waiting)

    def bound(self, ticket_id: str, most: int) -> None:
        """Bound each row of a request to `most` generated tokens in all. Unknown ids are fine."""
        if ticket := self._find(ticket_id):
            ticket.max_tokens = max(most - ticket.earlier, 1)

    def pause(self, ticket_id: str) -> None:
        """Stop a request with the next plan, until it is resumed. Unknown ids are fine."""
        ticket = self._find(ticket_id)
        if ticket_id in self._running or ticket_id in self._returning:
            self._to_pause.add(ticket_id)
        elif ticket:
            self.cancel(ticket_id)
            self._paused[ticket_id] = ticket

    def resume(self, ticket_id: str) -> TooLarge | None:
        """Queue a paused request again; return the reason if it could never run now. Unknown ids are fine."""
        self._to_pause.discard(ticket_id)
        ticket = self._paused.pop(ticket_id, None)
        return self._enqueue(ticket) if ticket else None

    def cancel(self, ticket_id: str) -> None:
        """Forget a request. Unknown ids are fine."""
        self._running.pop(ticket_id, None)
        self._returning.pop(ticket_id, None)
        self._paused.pop(ticket_id, None)
        self._to_pause.discard(ticket_id)
        for queue in self._queues.values():
            queue.tickets = [ticket for ticket in queue.tickets if ticket.id != ticket_id]

    def ended(self, ticket_id: str) -> None:
        """Note that a row of a request has ended; with its last row it is forgotten. Unknown ids are fine."""
        if ticket := self._find(ticket_id):
            ticket.rows -= 1
            if not ticket.rows:
                self.cancel(ticket_id)

    def remains(self, ticket_id: str, prompt_tokens: int) -> None:
        """Correct how many prompt tokens are left after the latest plan. Unknown ids are fine.

        The prefix cache may have more or less than it had, and what a request has generated may have to be read again.
        """
        if ticket := self._find(ticket_id):
            ticket.prompt_tokens = prompt_tokens

    def advanced(self, ticket_id: str, generated: int) -> None:
        """Note that a row of a request has generated so many tokens since it began. Unknown ids are fine."""
        if ticket := self._running.get(ticket_id):
            ticket.generated = max(ticket.generated, generated)

    def returned(self, ticket_id: str, prompt_tokens: int, generated: int) -> TooLarge | None:
        """Note that a preempted request has freed its memory: it waits at the head of its class, or for `resume`.

        `prompt_tokens`: to be read when it begins again, what it has generated among them. `generated`: by each row
        since it began. Call this before the next plan. Unknown ids are fine: it may have ended meanwhile.
        """
        ticket = self._returning.pop(ticket_id, None)
        if not ticket:
            return None
        ticket.prompt_tokens = prompt_tokens
        ticket.prompt_bytes += generated * ticket.bytes_per_token
        ticket.max_tokens -= generated
        ticket.earlier += generated
        ticket.generated = 0
        if ticket_id in self._to_pause:
            self._to_pause.remove(ticket_id)
            self._paused[ticket_id] = ticket
            return None
        return self._enqueue(ticket)

    def plan(self) -> StepPlan:
        """Decide the next step."""
        too_large = self._forget_too_large(list(self._running.values()))
        pause = [ticket_id for ticket_id in self._running if ticket_id in self._to_pause]
        for ticket_id in pause:
            self._returning[ticket_id] = self._running.pop(ticket_id)
        preempt = self._preempt()
        # What was preempted is not in its queue yet; none may take its place.
        begin = [] if self._returning else self._admit()
        decoding = [ticket for ticket in self._running.values() if not ticket.prompt_tokens]
        prefill = self._share(self._limits.chunk if decoding else self._limits.idle_chunk)
        for ticket in decoding:
            ticket.generated += 1
        return StepPlan(too_large, preempt, begin, prefill, pause)

    @property
    def room(self) -> int:
        """By how many tokens more than one each row may grow in the step that was planned last."""
        decoding = [ticket for ticket in self._running.values() if not ticket.prompt_tokens]
        growth = sum(ticket.rows * (ticket.bytes_per_token + ticket.state_bytes) for ticket in decoding)
        left = self._limits.memory_bytes - self.used_bytes
        return max(0, min(left // max(growth, 1), self._limits.room)) if decoding else 0

    def _find(self, ticket_id: str) -> Ticket | None:
        waiting = (ticket for queue in self._queues.values() for ticket in queue.tickets if ticket.id == ticket_id)
        known = (self._running, self._returning, self._paused)
        return next((tickets[ticket_id] for tickets in known if ticket_id in tickets), None) or next(waiting, None)

    def _enqueue(self, ticket: Ticket) -> TooLarge | None:
        refusal = self._refusal(ticket)
        if not refusal:
            self._queues[ticket.priority].insert(ticket, self._admission_time)
        return refusal

    def _refusal(self, ticket: Ticket) -> TooLarge | None:
        """Return a refusal if a request could not take its next step even if it were alone."""
        needed = ticket.bytes_with(1)
        return TooLarge(ticket.id, needed, self._limits.memory_bytes) if needed > self._limits.memory_bytes else None

    def _forget_too_large(self, tickets: list[Ticket]) -> list[TooLarge]:
        refusals = [refusal for ticket in tickets if (refusal := self._refusal(ticket))]
        for refusal in refusals:
            self.cancel(refusal.id)
        return refusals

    def _preempt(self) -> list[str]:
        """Stop requests until all others can take a step; return which."""
        needed = {ticket.id: ticket.bytes_with(1) for ticket in self._running.values()}
        excess = sum(needed.values()) - self._limits.memory_bytes
        preempted: list[str] = []
        # A request that is too large even alone is gone: see `plan`.
        while excess > 0:
            victim = max(self._running.values(), key=lambda ticket: ticket.rank)
            excess -= needed[victim.id]
            self._returning[victim.id] = self._running.pop(victim.id)
            victim.preemptions += 1
            preempted.append(victim.id)
        return preempted

    def _admit(self) -> list[str]:
        begun: list[str] = []
        while ticket := self._next():
            queue = self._queues[ticket.priority]
            queue.tickets.remove(ticket)
            queue.tag += ticket.rows / queue.weight
            self._admission_time = max(self._admission_time, queue.tag)
            if ticket.seniority < 0:
                ticket.seniority = self._admitted
                self._admitted += 1
            ticket.tag = self._reading_time
            self._running[ticket.id] = ticket
            begun.append(ticket.id)
        return begun

    def _next(self) -> Ticket | None:
        """Return the first request that fits, unless one before it has been overtaken often enough."""
        limits = self._limits
        rows = limits.max_rows - sum(ticket.rows for ticket in self._running.values())
        room = limits.memory_bytes - sum(ticket.bytes_with(limits.room) for ticket in self._running.values())
        passed: list[Ticket] = []
        for queue in sorted((queue for queue in self._queues.values() if queue.tickets), key=_WaitingQueue.finish):
            for ticket in islice(queue.tickets, _LOOK_AHEAD):
                # A request that is nearly as large as the memory runs alone, with less room to grow.
                if ticket.rows <= rows and min(ticket.bytes_with(limits.room), limits.memory_bytes) <= room:
                    for other in passed:
                        other.overtaken += 1
                    return ticket
                if ticket.overtaken >= _PATIENCE // queue.weight:
                    return None
                passed.append(ticket)
        return None

    def _share(self, budget: int) -> list[tuple[str, int]]:
        """Share `budget` prompt tokens among the prompts."""
        pieces: list[tuple[str, int]] = []
        left = budget
        while left and len(pieces) < self._limits.pieces:
            reading = [ticket for ticket in self._running.values() if ticket.prompt_tokens]
            if left < budget // 4:
                # A small remainder isn't worth a forward pass, except for a prompt that it ends.
                reading = [ticket for ticket in reading if ticket.prompt_tokens <= left]
            if not reading:
                break
            # The prompt whose chunk ends first in virtual time; no two ranks are the same.
            ends = [(t.tag + min(t.prompt_tokens, left) / WEIGHTS[t.priority], t.rank, t) for t in reading]
            finish, _, ticket = min(ends)
            tokens = min(ticket.prompt_tokens, left)
            ticket.tag = finish
            self._reading_time = max(self._reading_time, finish)
            ticket.prompt_tokens -= tokens
            left -= tokens
            pieces.append((ticket.id, tokens))
        return pieces
