"""The requests of one model: those that wait until its process may have them, and those that are in it."""

from collections.abc import Callable

from msgspec import Struct

from orchard.core.events import Failed
from orchard.core.request import Request
from orchard.gateway.metrics.counters import Meter
from orchard.gateway.pool.waiting import Timer
from orchard.gateway.replies.event_stream import EventStream


class Lease(Struct, eq=False):
    """A request, from its beginning until its stream is over; `timer` ends when it has waited too long.

    `replayed`: its first process died, and the next one gets it.
    """

    request: Request
    stream: EventStream
    meter: Meter
    timer: Timer
    replayed: bool = False


class Requests:
    """Keeps the requests in the order in which they came."""

    def __init__(
        self,
        timeout: float,
        note: Callable[[], str],
        too_late: Callable[[], Failed | None],
        released: Callable[[Lease, bool], None],
    ) -> None:
        """`note` returns what those that wait are waiting for.

        A request that has not begun after `timeout` seconds ends as `too_late` says; None: it waits once more.
        `released` is called when a stream is over, with whether a process had the request.
        """
        self._timeout = timeout
        self._note = note
        self._too_late = too_late
        self._released = released
        self._leases: dict[str, Lease] = {}
        self._waiting: dict[str, Lease] = {}

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def submitted(self) -> int:
        """How many the process has."""
        return len(self._leases) - len(self._waiting)

    def add(self, request: Request, stream: EventStream, meter: Meter) -> None:
        """Let a request wait."""
        lease = Lease(request, stream, meter, Timer(lambda: self._give_up(lease)))
        self._leases[request.id] = self._waiting[request.id] = lease
        stream.on_end = lambda: self._release(lease)
        stream.waits_for = lambda: self._note() if request.id in self._waiting else ""
        lease.timer.start(self._timeout)

    def take(self) -> list[Lease]:
        """Return all that wait, for the process."""
        taken = list(self._waiting.values())
        self._waiting.clear()
        return taken

    def wait_anew(self) -> None:
        """Let those that wait do so for as long again."""
        for lease in self._waiting.values():
            lease.timer.start(self._timeout)

    def fail_waiting(self, failed: Failed) -> None:
        """End those that wait."""
        for lease in list(self._waiting.values()):
            lease.stream.close(failed)

    def fail_all(self, failed: Failed) -> None:
        """End every one."""
        for lease in list(self._leases.values()):
            lease.stream.close(failed)

    def replay(self, crash: Failed) -> None:
        """Let those that a process died with wait for the next one, once, where no caller has seen anything of them.

        The others end with `crash`.
        """
        again: dict[str, Lease] = {}
        for lease in [lease for id_, lease in self._leases.items() if id_ not in self._waiting]:
            if lease.replayed or not lease.stream.restart():
                lease.stream.push([crash])
                continue
            lease.replayed = True
            again[lease.request.id] = lease
            lease.timer.start(self._timeout)
        # Of requests that are merged, one that fails closes the others.
        self._waiting = {id_: lease for id_, lease in (again | self._waiting).items() if not lease.stream.ended}

    def _release(self, lease: Lease) -> None:
        """Forget a request whose stream is over."""
        self._leases.pop(lease.request.id, None)
        was_waiting = self._waiting.pop(lease.request.id, None)
        lease.timer.stop()
        lease.meter.end("cancelled")  # unless an event has told of another end
        self._released(lease, was_waiting is None)

    def _give_up(self, lease: Lease) -> None:
        if lease.stream.begun:
            return
        if failed := self._too_late():
            lease.stream.close(failed)
        else:
            lease.timer.start(self._timeout)
