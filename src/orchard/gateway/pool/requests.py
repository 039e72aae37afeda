"""The requests of one model: those that wait until its process may have them, and those that are in it."""

import asyncio
from collections.abc import Callable

from orchard.core.events import Failed
from orchard.core.request import Request
from orchard.gateway.metrics.counters import Meter
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.gateway.replies.event_stream import EventStream


class Lease:
    """A request, from its beginning until its stream is over."""

    def __init__(self, request: Request, stream: EventStream, meter: Meter) -> None:
        self.request = request
        self.stream = stream
        self.meter = meter
        self.timer: asyncio.TimerHandle | None = None
        self.submitted = False
        self.again = False
        """It was in a process that died, and has been given to the next."""


class Requests:
    """Keeps them in the order in which they came."""

    def __init__(
        self, timeout: float, too_late: Callable[[], Failed | None], released: Callable[[Lease], None]
    ) -> None:
        """One that has not begun after `timeout` seconds ends as `too_late` says; None: it waits once more as long."""
        self._timeout = timeout
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
        lease = Lease(request, stream, meter)
        self._leases[request.id] = self._waiting[request.id] = lease
        stream.on_end = lambda: self._release(lease)
        self._set_timer(lease)

    def submit_to(self, worker: WorkerProcess) -> None:
        """Hand over all that wait."""
        waiting, self._waiting = self._waiting, {}
        for lease in waiting.values():
            lease.submitted = True
            lease.stream.note = ""
            worker.submit(lease.request, lease.stream)

    def tell(self, note: str) -> None:
        """Let those that wait know what they wait for."""
        for lease in self._waiting.values():
            lease.stream.note = note

    def wait_anew(self) -> None:
        """Let those that wait do so for as long again."""
        for lease in self._waiting.values():
            self._set_timer(lease)

    def fail_waiting(self, failed: Failed) -> None:
        """End those that wait."""
        for lease in list(self._waiting.values()):
            lease.stream.close(failed)

    def fail_all(self, failed: Failed) -> None:
        """End every one."""
        for lease in list(self._leases.values()):
            lease.stream.close(failed)

    def lose(self, crash: Failed) -> None:
        """The process died: those nobody has seen anything of wait for the next one, once; the others end."""
        waiting, self._waiting = self._waiting, {}
        for lease in list(self._leases.values()):
            if lease.submitted:
                self._begin_anew(lease, crash)
        # Of requests that are merged, one that fails closes the others.
        self._waiting |= {id_: lease for id_, lease in waiting.items() if not lease.stream.ended}

    def _begin_anew(self, lease: Lease, crash: Failed) -> None:
        if lease.again or not lease.stream.begin_anew():
            lease.stream.push([crash])
            return
        lease.again, lease.submitted = True, False
        self._waiting[lease.request.id] = lease
        self._set_timer(lease)

    def _release(self, lease: Lease) -> None:
        """The stream of a request is over."""
        self._leases.pop(lease.request.id, None)
        self._waiting.pop(lease.request.id, None)
        if lease.timer:
            lease.timer.cancel()
        lease.meter.end("cancelled")  # unless an event has told of another end
        self._released(lease)

    def _set_timer(self, lease: Lease) -> None:
        if lease.timer:
            lease.timer.cancel()
        lease.timer = asyncio.get_running_loop().call_later(self._timeout, self._give_up, lease)

    def _give_up(self, lease: Lease) -> None:
        if lease.stream.begun:
            return
        if failed := self._too_late():
            lease.stream.close(failed)
        else:
            self._set_timer(lease)
