"""What the running requests take of the rows and the memory, and which of them have more than their caller's share."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from orchard.core.fair_queue import WEIGHTS
from orchard.core.request import Priority
from orchard.engine.ticket import RANKS, Limits, Ticket

_Kind = Literal["rows", "bytes"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
_TURN_TOKENS = 16


class Occupancy:
    """What running requests take of the rows and of the memory, once all rows have grown by `Limits.room` tokens."""

    def __init__(self, limits: Limits, running: Iterable[Ticket], reserved_bytes: int) -> None:
        """`reserved_bytes`: memory that only a request which runs alone may take."""
        self._limits = limits
        self._reserved_bytes = reserved_bytes
        self._running = list(running)
        self._use_by_kind: dict[_Kind, tuple[Counter[str], Counter[Priority]]] = {}
        rows = sum(ticket.rows for ticket in self._running)
        room = sum(self.need("bytes", ticket) for ticket in self._running)
        self._most_chunk = max(map(self._chunk_bytes, self._running), default=0)
        self.free: dict[_Kind, int] = {"rows": limits.max_rows - rows, "bytes": limits.memory_bytes - room}

    def need(self, kind: _Kind, ticket: Ticket) -> int:
        """Return what a request takes."""
        if kind == "rows":
            return ticket.rows
        # A request that is nearly as large as the memory runs alone, with less room to grow.
        return min(ticket.needed_bytes(self._limits.room, self._limits.work), self._limits.memory_bytes)

    def lack(self, ticket: Ticket) -> _Kind | None:
        """Return what a request lacks; None: it fits, and so does a chunk of any prompt."""
        if self.need("rows", ticket) > self.free["rows"]:
            return "rows"
        with_chunk = self.need("bytes", ticket) + max(self._chunk_bytes(ticket), self._most_chunk)
        free = self.free["bytes"] - (self._reserved_bytes if self._running else 0)
        return "bytes" if min(with_chunk, self._limits.memory_bytes) > free else None

    def _chunk_bytes(self, ticket: Ticket) -> int:
        return ticket.chunk_bytes(self._limits.work, self._limits.chunk)

    def add(self, ticket: Ticket) -> None:
        """Count one more request."""
        self._running.append(ticket)
        self._most_chunk = max(self._most_chunk, self._chunk_bytes(ticket))
        self._count(ticket, 1)

    def victims(self, ticket: Ticket) -> list[Ticket]:
        """Return requests of other callers to preempt, so that this one fits; none if that would not be fair.

        The caller that has most of what the request lacks (rows or memory) gives up its latest requests, as long as it
        has more than the request's caller would have with this request. A request that was preempted like this n times
        may first generate `_TURN_TOKENS` * 2^n tokens. So nothing is taken from a single caller, nor from one of
        several with equal shares, and a request is preempted like this O(log(`max_tokens`)) times.
        """
        found: list[Ticket] = []
        while kind := self.lack(ticket):
            ripe = self._victim_candidates(ticket, kind, found)
            if not ripe:
                break
            of_caller = self._uses(kind)[0]
            latest = max(ripe, key=lambda one: (of_caller[one.sender.caller], RANKS[one.priority], one.seniority))
            found.append(latest)
            self._count(latest, -1)
        fits = not self.lack(ticket)
        for one in found:
            self._count(one, 1)
        return found if fits else []

    def _victim_candidates(self, ticket: Ticket, kind: _Kind, found: list[Ticket]) -> list[Ticket]:
        """Return the requests that may be displaced for this one: their callers have more than its caller would have.

        They have had their turns. One of a higher priority only goes if its priority has more than its share, too.
        """
        of_caller, of_priority = self._uses(kind)
        own = of_caller[ticket.sender.caller] + self.need(kind, ticket)
        share = (of_priority[ticket.priority] + self.need(kind, ticket)) / WEIGHTS[ticket.priority]
        if max(of_caller.values()) <= own:
            return []
        return [
            one
            for one in self._running
            if of_caller[one.sender.caller] > own
            and (not one.displacements or one.generated >= _TURN_TOKENS << one.displacements)
            and (
                RANKS[one.priority] >= RANKS[ticket.priority]
                or of_priority[one.priority] / WEIGHTS[one.priority] > share
            )
            and one not in found
        ]

    def _uses(self, kind: _Kind) -> tuple[Counter[str], Counter[Priority]]:
        """Return what each caller and each priority takes."""
        if kind not in self._use_by_kind:
            of_caller, of_priority = self._use_by_kind[kind] = Counter(), Counter()
            for ticket in self._running:
                need = self.need(kind, ticket)
                of_caller[ticket.sender.caller] += need
                of_priority[ticket.priority] += need
        return self._use_by_kind[kind]

    def _count(self, ticket: Ticket, sign: int) -> None:
        for kind in _KINDS:
            need = sign * self.need(kind, ticket)
            self.free[kind] -= need
            if kind in self._use_by_kind:
                self._use_by_kind[kind][0][ticket.sender.caller] += need
                self._use_by_kind[kind][1][ticket.priority] += need
