"""Decides which requests run in each step (continuous batching). It uses no MLX, no clock and no thread.

Every running row decodes in every step, by one token or, if proposed tokens are verified, by several. The scheduler
decides the rest: which requests to admit, which prompts to prefill, and which requests to preempt.

Prefill: self-clocked fair queueing (Golestani 1994, https://doi.org/10.1109/INFCOM.1994.337677). The next chunk goes to
the prompt whose chunk ends first in virtual time (tokens divided by the priority's weight). A new prompt starts at the
current virtual time. So short prompts don't wait for long ones, and every request gets its share.

Admission: fair queueing between the priorities, counted in rows; first come, first served within a priority. Other
requests may overtake one that doesn't fit `_PATIENCE` / weight times; then no later request is admitted before it. A
request is admitted only if every row could then grow by `Limits.room` tokens, so that no preemption follows at once. A
request that is nearly as large as the memory runs alone, with less room.

Preemption: the lowest priority first, and in it the request that was admitted last. Each preemption raises a request by
one priority in this order, and it keeps its place in the order of admission. So no request is preempted forever.
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
    """The limits that all requests share.

    `memory_bytes`: for the KV caches of all rows. `chunk`: the most prompt tokens that a step prefills while a row
    decodes; `idle_chunk`: while none does. `room`: how many tokens every row must be able to grow by at an admission.
    `pieces`: the most prompts that a step prefills; each may need its own forward pass.
    """

    max_rows: int
    memory_bytes: int
    chunk: int
    idle_chunk: int
    room: int = 256
    pieces: int = 4


class Ticket(Struct, eq=False):
    """What the scheduler knows about a request. Once added, the ticket belongs to the scheduler.

    `prompt_tokens`: still to prefill; may be 0. `rows`: choices that have not ended.
    `max_tokens`: the most that a row may still generate since its admission, at least 1.
    `prompt_bytes`: one row's copy of the whole prompt. `bytes_per_token`: what each token adds to one row.
    `fixed_bytes`: what one row takes without tokens. `state_bytes`: the part of it that is recurrent state, which a
    pass may keep for each token that it verifies. `media_bytes`: for encoding media, until the prompt is prefilled.
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
        """The order of preemption: the request with the greatest rank is preempted first."""
        return max(_RANKS[self.priority] - self.preemptions, 0), self.seniority

    def bytes_with(self, tokens: int) -> int:
        """Return the bytes of all rows once each has generated `tokens` more, limited by `max_tokens`."""
        generated = min(self.generated + tokens, self.max_tokens)
        encoding = self.media_bytes if self.prompt_tokens else 0
        return encoding + self.rows * (self.fixed_bytes + self.prompt_bytes + generated * self.bytes_per_token)


class TooLarge(Struct, frozen=True):
    """A request that doesn't fit even alone: it needs `needed_bytes` of the `memory_bytes` for all requests."""

    id: str
    needed_bytes: int
    memory_bytes: int


class StepPlan(Struct, frozen=True):
    """The plan of one step. Carry it out in the order below; decode every row before the prefill.

    `too_large`: fail these; the scheduler has forgotten them. `preempt`, `pause`: free their memory, then call
    `returned`. `begin`: admitted, for the first time or again. `prefill`: (id, tokens) of the prompts to prefill; a
    request whose prompt is complete decodes from the next step on.
    """

    too_large: list[TooLarge]
    preempt: list[str]
    begin: list[str]
    prefill: list[tuple[str, int]]
    pause: list[str] = []


class _WaitingQueue:
    """The waiting requests of one priority. Preempted ones come first, in the order of their first admission."""

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.tickets: list[Ticket] = []
        self.tag = 0.0

    def finish(self) -> float:
        """Return the virtual time at which the first request's turn ends."""
        return self.tag + self.tickets[0].rows / self.weight

    def insert(self, ticket: Ticket, now: float) -> None:
        """Insert a request at its place in the queue; `now`: the current virtual time."""
        if not self.tickets:
            self.tag = max(self.tag, now)  # an empty queue earns no credit
        place = len(self.tickets)
        if ticket.seniority >= 0:
            place = sum(0 <= other.seniority < ticket.seniority for other in self.tickets)
        self.tickets.insert(place, ticket)


class Scheduler:
    """Holds every request that has not ended. It takes each plan as carried out; cancel requests that fail."""

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
        """How many requests are running: admitted, and neither preempted nor paused."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests wait for admission, for the first time or again, or are paused."""
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
        """The bytes of all rows now; a prompt in prefill counts as a whole."""
        return sum(ticket.bytes_with(0) for ticket in self._running.values())

    def add(self, ticket: Ticket) -> TooLarge | None:
        """Queue a request, or return the reason why it can never run. Raise ValueError if it has too many rows."""
        if not 1 <= ticket.rows <= self._limits.max_rows:
            raise ValueError(f"{ticket.id} has {ticket.rows} rows; between 1 and {self._limits.max_rows} can run")
        return self._enqueue(ticket)

    def limit_memory(self, memory_bytes: int) -> list[TooLarge]:
        """Limit all rows to `memory_bytes` from the next plan on; forget and return waiting requests that can't fit."""
        self._limits = replace(self._limits, memory_bytes=memory_bytes)
        waiting = [ticket for queue in self._queues.values() for ticket in queue.tickets]
        return self._forget_too_large(waiting)

    def bound(self, ticket_id: str, most: int) -> None:
        """Limit each row of a request to `most` generated tokens in total. Unknown ids are ignored."""
        if ticket := self._find(ticket_id):
            ticket.max_tokens = max(most - ticket.earlier, 1)

    def pause(self, ticket_id: str) -> None:
        """Stop a request with the next plan, until it is resumed. Unknown ids are ignored."""
        ticket = self._find(ticket_id)
        if ticket_id in self._running or ticket_id in self._returning:
            self._to_pause.add(ticket_id)
        elif ticket:
            self.cancel(ticket_id)
            self._paused[ticket_id] = ticket

    def resume(self, ticket_id: str) -> TooLarge | None:
        """Queue a paused request again, or return the reason why it can't run any more. Unknown ids are ignored."""
        self._to_pause.discard(ticket_id)
        ticket = self._paused.pop(ticket_id, None)
        return self._enqueue(ticket) if ticket else None

    def cancel(self, ticket_id: str) -> None:
        """Forget a request. Unknown ids are ignored."""
        self._running.pop(ticket_id, None)
        self._returning.pop(ticket_id, None)
        self._paused.pop(ticket_id, None)
        self._to_pause.discard(ticket_id)
        for queue in self._queues.values():
            queue.tickets = [ticket for ticket in queue.tickets if ticket.id != ticket_id]

    def ended(self, ticket_id: str) -> None:
        """Note that a row of a request has ended; forget the request with its last row. Unknown ids are ignored."""
        if ticket := self._find(ticket_id):
            ticket.rows -= 1
            if not ticket.rows:
                self.cancel(ticket_id)

    def remains(self, ticket_id: str, prompt_tokens: int) -> None:
        """Correct how many prompt tokens are left to prefill after the latest plan. Unknown ids are ignored.

        The prefix cache may hold more or less than before, and generated tokens may have to be prefilled again.
        """
        if ticket := self._find(ticket_id):
            ticket.prompt_tokens = prompt_tokens

    def advanced(self, ticket_id: str, generated: int) -> None:
        """Note that a row of a request has generated so many tokens since its admission. Unknown ids are ignored."""
        if ticket := self._running.get(ticket_id):
            ticket.generated = max(ticket.generated, generated)

    def returned(self, ticket_id: str, prompt_tokens: int, generated: int) -> TooLarge | None:
        """Note that a preempted or paused request has freed its memory. Call this before the next plan.

        A preempted request waits at the head of its priority, a paused one for `resume`. `prompt_tokens`: to prefill
        when it begins again, including generated ones. `generated`: the most tokens of a row since its admission.
        Return a rejection if it can never run again. Unknown ids are ignored: the request may have ended meanwhile.
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
        # A preempted request is not in its queue yet; no other may take its place.
        begin = [] if self._returning else self._admit()
        decoding = [ticket for ticket in self._running.values() if not ticket.prompt_tokens]
        prefill = self._share(self._limits.chunk if decoding else self._limits.idle_chunk)
        for ticket in decoding:
            ticket.generated += 1
        return StepPlan(too_large, preempt, begin, prefill, pause)

    @property
    def room(self) -> int:
        """How many tokens more than one each row may get in the step that was planned last, at most `Limits.room`."""
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
        """Return a rejection if a request could not take its next step even alone."""
        needed = ticket.bytes_with(1)
        return TooLarge(ticket.id, needed, self._limits.memory_bytes) if needed > self._limits.memory_bytes else None

    def _forget_too_large(self, tickets: list[Ticket]) -> list[TooLarge]:
        refusals = [refusal for ticket in tickets if (refusal := self._refusal(ticket))]
        for refusal in refusals:
            self.cancel(refusal.id)
        return refusals

    def _preempt(self) -> list[str]:
        """Stop requests until the others have memory for a step; return the ids of those stopped."""
        needed = {ticket.id: ticket.bytes_with(1) for ticket in self._running.values()}
        excess = sum(needed.values()) - self._limits.memory_bytes
        preempted: list[str] = []
        # Requests that are too large even alone are gone: see `plan`.
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
        """Return the first waiting request that fits; None if there is none, or one before it must not be overtaken."""
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
        """Divide `budget` prompt tokens among the prompts in prefill; return (id, tokens) for each chunk."""
        pieces: list[tuple[str, int]] = []
        left = budget
        while left and len(pieces) < self._limits.pieces:
            reading = [ticket for ticket in self._running.values() if ticket.prompt_tokens]
            if left < budget // 4:
                # A small remainder isn't worth a forward pass unless it completes a prompt.
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
