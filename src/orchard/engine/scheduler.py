"""Decides which requests run in each step (continuous batching). It uses no MLX, no clock and no thread.

Every running row decodes in every step, by one token or, if proposed tokens are verified, by several. The scheduler
decides the rest: which requests to admit, which prompts to prefill, and which requests to preempt.

Prefill: a `FairQueue` that counts tokens. Priorities, callers, connections, conversations and prompts take turns. So
short prompts don't wait for long ones, and every caller gets its share.

Admission: a `FairQueue` that counts rows; first come, first served within a conversation. Of two callers with the same
priority, the one with fewer rows goes first, and so on below. Other requests may overtake one that doesn't fit
`_PATIENCE` / weight times; then no later request is admitted before it. A request is admitted only if every row could
then grow by `Limits.room` tokens, so that no preemption follows at once. A request that is nearly as large as the
memory runs alone, with less room. One that needs more memory than there is for now, but not more than there may be
(`Limits.max_request_bytes`), is starved: it waits outside the queue, so that it stops no other, until the memory grows.

Preemption for lack of memory: the lowest priority first, and in it the request that was admitted last. Each preemption
raises a request by one priority in this order, and it comes back before new requests. So no request is preempted
forever.

Preemption for a fair share: see `Occupancy.victims`.
"""

from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from orchard.core.fair_queue import ARRIVAL, WEIGHTS, FairQueue
from orchard.engine.occupancy import Occupancy
from orchard.engine.prefill_price import LEAST_TOKENS, PrefillPrice
from orchard.engine.ticket import Limits, Ticket

_PATIENCE = 64
_LOOK_AHEAD = 16
_MOST_CANDIDATES = 64
_PLANS_PER_LOOK = 8


class TooLargeRequest(Struct, frozen=True):
    """A request that can never fit, even alone: it needs `needed_bytes`; all requests may take `memory_bytes`."""

    id: str
    needed_bytes: int
    memory_bytes: int


class StepPlan(Struct, frozen=True):
    """Who runs in a step. Carry it out in the order below, then call `plan_prefill`.

    `too_large`: fail these; the scheduler has forgotten them. `preempt`, `pause`, `displace`: free their memory, then
    call `requeue`; `preempt` for lack of memory, `displace` for another caller's fair share. `begin`: admitted, for
    the first time or again.
    """

    too_large: list[TooLargeRequest]
    preempt: list[str]
    begin: list[str]
    pause: list[str] = []
    displace: list[str] = []


class Scheduler:
    """Holds every request that has not ended. It assumes that each plan is carried out; cancel requests that fail."""

    def __init__(self, limits: Limits, price: PrefillPrice | None = None) -> None:
        """`price`: bounds the time of prefill beside rows in decode; None: `limits.chunk` bounds its tokens."""
        self._limits = limits
        self._price = price
        self._waiting: FairQueue[Ticket] = FairQueue()
        self._starved: dict[str, Ticket] = {}  # too large for now, even alone
        self._reading: FairQueue[Ticket] = FairQueue()  # running ones whose prompts are not complete
        self._running: dict[str, Ticket] = {}
        self._returning: dict[str, Ticket] = {}
        self._paused: dict[str, Ticket] = {}
        self._to_pause: set[str] = set()
        self._arrived = 0
        self._admitted = 0
        self._plans = 0
        self._rows_bytes = 0
        self._chunk_bytes = 0
        self._largest_chunk = 0  # of those that have run: the least that a pass can read of a prompt
        self._changed = False
        """Whether a waiting request may fit that didn't before."""
        self._max_running: int | None = None
        self._wanted_reserve = 0
        self._heir = ""
        """The request for which others were displaced last; it goes first."""

    @property
    def running(self) -> int:
        """How many requests are running: admitted, and neither preempted nor paused."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests wait for admission, for the first time or again, or are paused."""
        return len(self._paused) + len(self._starved) + self._admission_count

    @property
    def starved_ids(self) -> list[str]:
        """The requests that wait because they need more memory than there is for now, even alone."""
        return list(self._starved)

    @property
    def wanted_bytes(self) -> int:
        """The memory that the oldest of the starved requests needs to run, with room to grow; 0: none is starved."""
        if not self._starved:
            return 0
        oldest = min(self._starved.values(), key=lambda ticket: ticket.arrival)
        return min(oldest.needed_bytes_alone(self._limits.room, self._limits.work), self._limits.max_request_bytes)

    @property
    def planned_bytes(self) -> int:
        """The bytes that the step that was planned last takes with all rows, at most."""
        return self._rows_bytes + self._chunk_bytes

    @property
    def spare_bytes(self) -> int:
        """The bytes that the step that was planned last leaves."""
        return max(self._limits.memory_bytes - self.planned_bytes, 0)

    @property
    def is_idle(self) -> bool:
        """Whether a plan would be empty."""
        return not (self.running or self._admission_count)

    @property
    def _admission_count(self) -> int:
        return len(self._returning) + len(self._waiting)

    @property
    def used_bytes(self) -> int:
        """The bytes of all rows now; a prompt in prefill counts as a whole."""
        return sum(ticket.bytes_with(0) for ticket in self._running.values())

    def add(self, ticket: Ticket) -> TooLargeRequest | None:
        """Queue a request, or return the reason why it can never run. Raise ValueError if it has too many rows."""
        if not 1 <= ticket.rows <= self._limits.max_rows:
            raise ValueError(f"{ticket.id} has {ticket.rows} rows; between 1 and {self._limits.max_rows} can run")
        return self._enqueue(ticket)

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> list[TooLargeRequest]:
        """Limit all rows to `memory_bytes` from the next plan on, and each request to `most_bytes`.

        Forget and return waiting requests that can never fit.
        """
        self._limits = replace(self._limits, memory_bytes=memory_bytes, most_bytes=most_bytes)
        self._changed = True
        refused = self._forget_too_large([*self._waiting, *self._starved.values()])
        for ticket in list(self._waiting):
            if not self._fits_alone(ticket):
                self._waiting.remove(ticket.id)
                self._starved[ticket.id] = ticket
        for ticket in list(self._starved.values()):
            self._enqueue_if_it_fits(ticket)
        return refused

    def adopt(self, limits: Limits) -> None:
        """Use other limits from the next plan on, except those of the memory and of the rows."""
        chunks = {"chunk": limits.chunk, "idle_chunk": limits.idle_chunk}
        self._limits = replace(self._limits, **chunks, pieces=limits.pieces, work=limits.work)
        self._changed = True

    def preempt_all(self) -> list[str]:
        """Stop all running requests; return the ids of those for which `requeue` must be called."""
        for ticket_id in list(self._running):
            self._returning[ticket_id] = self._stop(ticket_id)
        return list(self._returning)

    def reserve(self, nbytes: int) -> None:
        """Keep this much memory, but at most half, from requests that would run beside others, from the next plan on.

        Running requests may grow into it.
        """
        self._wanted_reserve = nbytes
        self._changed = True

    @property
    def reserved_bytes(self) -> int:
        """The bytes that are kept from requests that would run beside others."""
        return min(self._wanted_reserve, self._limits.memory_bytes // 2)

    def limit_running(self, most: int | None) -> None:
        """Admit no further request while `most` are running; None: there is no such limit."""
        self._max_running = most
        self._changed = True

    def limit_tokens(self, ticket_id: str, most: int) -> None:
        """Limit each row of a request to `most` generated tokens in total. Unknown ids are ignored."""
        if ticket := self._find(ticket_id):
            ticket.max_tokens = max(most - ticket.earlier, 1)
            self._changed = True

    def pause(self, ticket_id: str) -> None:
        """Stop a request with the next plan, until it is resumed. Unknown ids are ignored."""
        ticket = self._find(ticket_id)
        if ticket_id in self._running or ticket_id in self._returning:
            self._to_pause.add(ticket_id)
        elif ticket:
            self.cancel(ticket_id)
            self._paused[ticket_id] = ticket

    def resume(self, ticket_id: str) -> TooLargeRequest | None:
        """Queue a paused request again, or return the reason why it can't run any more. Unknown ids are ignored."""
        self._to_pause.discard(ticket_id)
        ticket = self._paused.pop(ticket_id, None)
        return self._enqueue(ticket) if ticket else None

    def cancel(self, ticket_id: str) -> None:
        """Forget a request. Unknown ids are ignored."""
        if ticket_id in self._running:
            self._stop(ticket_id)
        self._returning.pop(ticket_id, None)
        self._paused.pop(ticket_id, None)
        self._starved.pop(ticket_id, None)
        self._to_pause.discard(ticket_id)
        self._waiting.remove(ticket_id)
        self._changed = True

    def end_row(self, ticket_id: str) -> None:
        """Note that a row of a request has ended; forget the request with its last row. Unknown ids are ignored."""
        if ticket := self._find(ticket_id):
            if ticket.rows == 1:
                self.cancel(ticket_id)
                return
            ticket.rows -= 1
            if ticket_id in self._running:
                self._add_rows(ticket, -1)
            elif ticket_id in self._starved:
                self._enqueue_if_it_fits(ticket)

    def set_prompt_tokens(self, ticket_id: str, prompt_tokens: int) -> None:
        """Correct how many prompt tokens are left to prefill after the latest plan. Unknown ids are ignored.

        The prefix cache may hold more or less than before, and generated tokens may have to be prefilled again.
        """
        if ticket := self._find(ticket_id):
            ticket.prompt_tokens = prompt_tokens
            if ticket_id in self._running:
                self._update_reading(ticket)

    def note_generated(self, ticket_id: str, generated: int) -> None:
        """Note how many tokens a row of a request has generated since its admission. Unknown ids are ignored."""
        if ticket := self._running.get(ticket_id):
            ticket.generated = max(ticket.generated, generated)

    def requeue(self, ticket_id: str, prompt_tokens: int, generated: int) -> TooLargeRequest | None:
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
        ticket.length += generated
        ticket.generated = 0
        if ticket_id in self._to_pause:
            self._to_pause.remove(ticket_id)
            self._paused[ticket_id] = ticket
            return None
        return self._enqueue(ticket)

    def plan(self) -> StepPlan:
        """Decide who runs in the next step."""
        pause = [ticket_id for ticket_id in self._running if ticket_id in self._to_pause]
        for ticket_id in pause:
            self._returning[ticket_id] = self._stop(ticket_id)
        self._rows_bytes = self._needed_bytes()
        too_large: list[TooLargeRequest] = []
        if self._rows_bytes + self._largest_chunk > self._limits.max_request_bytes:  # else none can be
            too_large = self._forget_too_large(list(self._running.values()))
            self._rows_bytes = self._needed_bytes()
        preempt = self._preempt()
        self._plans += 1
        begin: list[str] = []
        displace: list[str] = []
        # A preempted request is not in its queue yet; no other may take its place.
        if self._waiting and not self._returning and (self._changed or not self._plans % _PLANS_PER_LOOK):
            use = Occupancy(self._limits, self._running.values(), self.reserved_bytes)
            begin = self._admit(use)
            displace = [] if begin or self._is_full else self._displace(use)
            self._changed = bool(begin or displace)
            self._rows_bytes = self._needed_bytes()
        self._chunk_bytes = 0
        for ticket in self._running.values():
            if not ticket.prompt_tokens:
                ticket.generated += 1
        return StepPlan(too_large, preempt, begin, pause, displace)

    def plan_prefill(self) -> list[tuple[str, int]]:
        """Divide the planned step's prompt tokens among the prompts in prefill; return (id, tokens) for each chunk.

        A request whose prompt gets complete decodes from the next step on. Call this once after each `plan`, when the
        requests that begin know what is cached of their prompts.
        """
        beside_rows = any(not ticket.prompt_tokens for ticket in self._running.values())
        pieces: list[tuple[str, int]] = []
        price = self._price if beside_rows else None
        left = budget = self._limits.chunk if beside_rows and not price else self._limits.idle_chunk
        seconds = price.free_seconds if price else 0.0
        work = self._limits.work
        while left and len(pieces) < self._limits.pieces:
            # A small remainder isn't worth a forward pass unless it completes a prompt.
            most = left if left < budget // 4 else None
            ticket = next((one for one in self._reading if most is None or one.prompt_tokens <= most), None)
            if not ticket:
                break
            least = min(ticket.least_tokens, ticket.prompt_tokens)
            fitting = work.tokens(self._limits.memory_bytes - self.planned_bytes, ticket.length)
            if pieces and fitting < least:
                break  # the first one always fits: see `_preempt`
            wanted = min(ticket.prompt_tokens, left)
            tokens = min(wanted, max(fitting, least))
            if price:
                start = ticket.length - ticket.prompt_tokens
                affordable = price.tokens(seconds, start)
                if pieces and affordable < min(tokens, max(least, LEAST_TOKENS)):
                    break
                tokens = min(tokens, max(affordable, least, LEAST_TOKENS))
                seconds -= price.seconds(tokens, start)
            self._chunk_bytes += work.chunk(max(tokens, least), ticket.length)
            ticket.prompt_tokens -= tokens
            self._reading.charge(ticket.id, tokens)
            self._update_reading(ticket)
            left -= tokens
            pieces.append((ticket.id, tokens))
            if tokens < wanted:
                break
        return pieces

    @property
    def room(self) -> int:
        """How many tokens beyond one each row may get in the step that was planned last; at most `Limits.room`."""
        decoding = [ticket for ticket in self._running.values() if not ticket.prompt_tokens]
        work = self._limits.work
        growth = sum(
            ticket.rows * (ticket.bytes_per_token + ticket.state_bytes + work.row + work.chunk(1, ticket.length))
            for ticket in decoding
        )
        return min(self.spare_bytes // max(growth, 1), self._limits.room) if decoding else 0

    @property
    def _is_full(self) -> bool:
        return self._max_running is not None and self.running >= self._max_running

    def _find(self, ticket_id: str) -> Ticket | None:
        known = (self._running, self._returning, self._paused, self._starved)
        return next((tickets[ticket_id] for tickets in known if ticket_id in tickets), self._waiting.find(ticket_id))

    def _enqueue(self, ticket: Ticket) -> TooLargeRequest | None:
        if refusal := self._refusal(ticket):
            return refusal
        if ticket.arrival < 0:
            ticket.arrival = self._arrived
            self._arrived += 1
        self._starved[ticket.id] = ticket
        self._enqueue_if_it_fits(ticket)
        return None

    def _enqueue_if_it_fits(self, ticket: Ticket) -> None:
        """Let a starved request wait for its turn if it fits now."""
        if self._fits_alone(ticket):
            del self._starved[ticket.id]
            order = ticket.seniority if ticket.seniority >= 0 else ARRIVAL + ticket.arrival
            self._waiting.add(ticket.id, ticket, ticket.priority, ticket.sender, size=ticket.rows, order=order)
            self._changed = True

    def _fits_alone(self, ticket: Ticket) -> bool:
        """Return whether a request could take its next step alone, with the memory that there is for now."""
        return ticket.needed_bytes_alone(1, self._limits.work) <= self._limits.memory_bytes

    def _add_rows(self, ticket: Ticket, rows: int) -> None:
        """Count `rows` more rows for a request's sender."""
        self._waiting.hold(ticket.priority, ticket.sender, rows)
        self._changed = True

    def _stop(self, ticket_id: str) -> Ticket:
        """Return a request that was running until now."""
        self._reading.remove(ticket_id)
        ticket = self._running.pop(ticket_id)
        self._add_rows(ticket, -ticket.rows)
        return ticket

    def _update_reading(self, ticket: Ticket) -> None:
        """Note how much of a running request's prompt is left."""
        size = min(ticket.prompt_tokens, self._limits.idle_chunk)
        if not size:
            self._reading.remove(ticket.id)
            self._changed = True  # it needs no more memory for encoding
        elif self._reading.find(ticket.id):
            self._reading.charge(ticket.id, 0, size)
        else:
            self._reading.add(ticket.id, ticket, ticket.priority, ticket.sender, size=size)

    def _refusal(self, ticket: Ticket) -> TooLargeRequest | None:
        """Return a rejection if a request can't take its next step even alone, with all memory that there may be."""
        needed = ticket.needed_bytes_alone(1, self._limits.work)
        return (
            TooLargeRequest(ticket.id, needed, self._limits.max_request_bytes)
            if needed > self._limits.max_request_bytes
            else None
        )

    def _forget_too_large(self, tickets: list[Ticket]) -> list[TooLargeRequest]:
        refusals = [refusal for ticket in tickets if (refusal := self._refusal(ticket))]
        for refusal in refusals:
            self.cancel(refusal.id)
        return refusals

    def _preempt(self) -> list[str]:
        """Stop requests until the others have memory for a step; return the ids of the stopped ones."""
        preempted: list[str] = []
        while self._rows_bytes + self._least_chunk() > self._limits.memory_bytes:
            # Those that don't fit even alone go first: it would not help them if others made room.
            victim = max(self._running.values(), key=lambda one: (not self._fits_alone(one), one.rank))
            self._rows_bytes -= victim.needed_bytes(1, self._limits.work)
            self._returning[victim.id] = self._stop(victim.id)
            victim.preemptions += 1
            preempted.append(victim.id)
        return preempted

    def _needed_bytes(self) -> int:
        """Return the bytes of all rows after their next tokens, and of drawing those."""
        work = self._limits.work
        return sum([ticket.needed_bytes(1, work) for ticket in self._running.values()])

    def _least_chunk(self) -> int:
        """Return the bytes that suffice for the smallest chunk of any prompt in prefill: each of them may be next."""
        reading = [ticket for ticket in self._running.values() if ticket.prompt_tokens]
        return max((ticket.chunk_bytes(self._limits.work) for ticket in reading), default=0)

    def _admit(self, use: Occupancy) -> list[str]:
        begun: list[str] = []
        while ticket := self._next_to_admit(use):
            self._waiting.charge(ticket.id, ticket.rows)
            self._waiting.remove(ticket.id)
            self._add_rows(ticket, ticket.rows)
            if ticket.seniority < 0:
                ticket.seniority = self._admitted
                self._admitted += 1
            self._running[ticket.id] = ticket
            use.add(ticket)
            self._largest_chunk = max(self._largest_chunk, ticket.chunk_bytes(self._limits.work))
            self._update_reading(ticket)
            begun.append(ticket.id)
        self._heir = "" if self._heir in begun else self._heir
        return begun

    def _next_to_admit(self, use: Occupancy) -> Ticket | None:
        """Return the first waiting request that fits; None if there is none, or one before it must not be overtaken."""
        if self._is_full or not use.free["rows"]:
            return None
        if (heir := self._waiting.find(self._heir)) and not use.lack(heir):
            return heir
        passed: list[Ticket] = []
        for ticket in islice(self._waiting.first_items(_LOOK_AHEAD), _MOST_CANDIDATES):
            if not use.lack(ticket):
                for other in passed:
                    other.overtaken += 1
                return ticket
            if ticket.overtaken >= _PATIENCE // WEIGHTS[ticket.priority]:
                return None
            passed.append(ticket)
        return None

    def _displace(self, use: Occupancy) -> list[str]:
        """Stop requests of callers that exceed their share until another caller's fits; return their ids."""
        for ticket in islice(self._waiting.first_items(1), _LOOK_AHEAD):
            if victims := use.victims(ticket):
                self._heir = ticket.id
                for victim in victims:
                    self._returning[victim.id] = self._stop(victim.id)
                    victim.displacements += 1
                return [victim.id for victim in victims]
        return []
