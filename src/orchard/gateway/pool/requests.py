"""The requests of one model: those that wait for its process, and those that the process has."""

from collections.abc import Callable, Collection

from msgspec import Struct

from orchard.core.events import Failed
from orchard.core.fair_queue import FairQueue
from orchard.core.request import Request
from orchard.gateway.metrics.counters import Meter
from orchard.gateway.pool.waiting import Timer
from orchard.gateway.replies.event_stream import EventStream


class Lease(Struct, eq=False):
    """A request, until its stream is over; `timer` fires when it has waited too long.

    `replayed`: its first process died, so it goes to the next one.
    """

    request: Request
    stream: EventStream
    meter: Meter
    timer: Timer
    replayed: bool = False


class Requests:
    """Keeps the requests of one model."""

    def __init__(
        self,
        timeout: float,
        note: Callable[[], str],
        too_late: Callable[[bool], Failed | None],
        released: Callable[[Lease, bool], None],
    ) -> None:
        """`note` returns what the waiting requests wait for.

        A request that has not begun, or that waits for memory, after `timeout` seconds fails with the result of
        `too_late`; None: it waits again. Its argument is whether the request waits for memory.
        `released` is called when a stream is over; its second argument is whether a process had the request.
        """
        self._timeout = timeout
        self._note = note
        self._too_late = too_late
        self._released = released
        self._leases: dict[str, Lease] = {}
        self._waiting: dict[str, Lease] = {}
        self._starved: Collection[str] = ()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def submitted(self) -> int:
        """How many requests the process has."""
        return len(self._leases) - len(self._waiting)

    def add(self, request: Request, stream: EventStream, meter: Meter) -> None:
        """Add a request to those that wait."""
        lease = Lease(request, stream, meter, Timer(lambda: self._give_up(lease)))
        self._leases[request.id] = self._waiting[request.id] = lease
        stream.on_end = lambda: self._release(lease)
        stream.waits_for = lambda: self._note() if request.id in self._waiting else ""
        lease.timer.start(self._timeout)

    def take(self) -> list[Lease]:
        """Return all waiting requests in the order of `FairQueue`, and count them as those of the process."""
        waiting, self._waiting = self._waiting, {}
        if len(waiting) < 2:
            return list(waiting.values())
        queue: FairQueue[Lease] = FairQueue()
        for id_, lease in waiting.items():
            queue.add(id_, lease, lease.request.priority, lease.request.sender)
        return list(queue.drain())

    def starve(self, ids: Collection[str]) -> None:
        """Note which of the process's requests wait for memory now. Time counts also for those that have begun."""
        before, self._starved = self._starved, ids
        for id_ in {*before} ^ {*ids}:
            if (lease := self._leases.get(id_)) and lease.stream.begun:
                lease.timer.stop()
                if id_ in ids:
                    lease.timer.start(self._timeout)

    def wait_anew(self) -> None:
        """Restart the timeouts of the waiting requests."""
        for lease in self._waiting.values():
            lease.timer.start(self._timeout)

    def fail_waiting(self, failed: Failed) -> None:
        """Fail the waiting requests."""
        for lease in list(self._waiting.values()):
            lease.stream.close(failed)

    def fail_all(self, failed: Failed) -> None:
        """Fail all requests."""
        for lease in list(self._leases.values()):
            lease.stream.close(failed)

    def replay(self, crash: Failed) -> None:
        """After a crash, queue the process's requests for the next one, once, if their callers have received nothing.

        The others fail with `crash`.
        """
        again: dict[str, Lease] = {}
        for lease in [lease for id_, lease in self._leases.items() if id_ not in self._waiting]:
            if lease.replayed or not lease.stream.restart():
                lease.stream.push([crash])
                continue
            lease.replayed = True
            again[lease.request.id] = lease
            lease.timer.start(self._timeout)
        # If one of several merged requests fails, the others are closed.
        self._waiting = {id_: lease for id_, lease in (again | self._waiting).items() if not lease.stream.ended}

    def _release(self, lease: Lease) -> None:
        """Forget a request whose stream is over."""
        self._leases.pop(lease.request.id, None)
        was_waiting = self._waiting.pop(lease.request.id, None)
        lease.timer.stop()
        lease.meter.end("cancelled")  # does nothing if an event has ended the request
        self._released(lease, was_waiting is None)

    def _give_up(self, lease: Lease) -> None:
        starved = lease.request.id in self._starved
        if lease.stream.begun and not starved:
            return
        if failed := self._too_late(starved):
            lease.stream.close(failed)
        else:
            lease.timer.start(self._timeout)
