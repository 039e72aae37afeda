"""The requests of one model: those that wait for its process, and those that the process has."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from orchard.core.events import Failed
from orchard.core.fair_queue import FairQueue
from orchard.core.request import Request, RequestProgress, Sender
from orchard.gateway.live_request import LiveRequest, RequestState
from orchard.gateway.metrics.counters import Meter
from orchard.gateway.pool.waiting import Timer
from orchard.gateway.replies.event_stream import EventStream

_CANCELLED = Failed("cancelled", "the request was cancelled by DELETE /v1/requests")


class Lease(Struct, eq=False):
    """A request, until its stream is over; `timer` fires when it has waited too long.

    `seconds_left`: how long it may still wait, from `waits_since` on, when it last began to wait. `queued_at`: when it
    was added. `replayed`: its first process died, so it goes to the next one. `has_more_time`: it has got more time,
    because it had the turn, or came next, when its time was over.
    """

    request: Request
    stream: EventStream
    meter: Meter
    timer: Timer
    seconds_left: float = 0.0
    waits_since: float = 0.0
    queued_at: float = 0.0
    replayed: bool = False
    has_more_time: bool = False

    def wait(self, seconds: float) -> None:
        """Let it wait for so many seconds from now on."""
        self.seconds_left, self.waits_since = seconds, asyncio.get_running_loop().time()
        self.timer.start(seconds)

    def stop_waiting(self) -> None:
        """Keep the seconds that it may still wait for the next time, because it no longer waits."""
        self.seconds_left -= asyncio.get_running_loop().time() - self.waits_since
        self.timer.stop()


class Requests:
    """Keeps the requests of one model."""

    def __init__(
        self,
        timeout: float,
        note: Callable[[], str],
        timeout_failure: Callable[[Lease | None], Failed | None],
        on_release: Callable[[Lease, bool], None],
    ) -> None:
        """`note` returns what the waiting requests wait for.

        After `timeout` seconds, a request that has not begun or waits for memory fails with the result of
        `timeout_failure`; None: it waits again. The argument is the request if it waits for memory in the process, else
        None.
        `on_release` is called when a stream is over; its second argument is whether a process had the request.
        """
        self._timeout = timeout
        self._note = note
        self._timeout_failure = timeout_failure
        self._on_release = on_release
        self._leases: dict[str, Lease] = {}
        self._waiting: dict[str, Lease] = {}
        self._starved: Collection[str] = ()

    @property
    def waiting_count(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def submitted_count(self) -> int:
        """How many requests the process has."""
        return len(self._leases) - len(self._waiting)

    @property
    def starved_leases(self) -> list[Lease]:
        """The requests that wait for memory in the process, the oldest first."""
        return [lease for id_, lease in self._submitted_leases.items() if id_ in self._starved] if self._starved else []

    @property
    def has_begun_starved(self) -> bool:
        """Whether a request that has begun waits for memory."""
        return any(lease.stream.begun for lease in self.starved_leases)

    @property
    def is_stuck(self) -> bool:
        """Whether the process has requests, but all of them wait for memory, and none has begun."""
        starved = self.starved_leases
        return bool(starved) and len(starved) == self.submitted_count and not self.has_begun_starved

    @property
    def _submitted_leases(self) -> dict[str, Lease]:
        return {id_: lease for id_, lease in self._leases.items() if id_ not in self._waiting}

    def is_submitted(self, request_id: str) -> bool:
        """Whether the process has this request."""
        return request_id in self._leases and request_id not in self._waiting

    def add(self, request: Request, stream: EventStream, meter: Meter) -> None:
        """Add a request to those that wait."""
        lease = Lease(request, stream, meter, Timer(lambda: self._time_out(lease)))
        self._leases[request.id] = self._waiting[request.id] = lease
        stream.on_end = lambda: self._release(lease)
        stream.waits_for = lambda: self._note() if request.id in self._waiting else ""
        lease.queued_at = asyncio.get_running_loop().time()
        lease.wait(self._timeout)

    def describe(self, model: str, reports: Mapping[str, RequestProgress]) -> list[LiveRequest]:
        """Return all requests, the oldest first; `reports` are those of the process."""
        return [self._describe(lease, model, reports.get(id_)) for id_, lease in self._leases.items()]

    def cancel(self, request_id: str, is_allowed: Callable[[Sender], bool]) -> int:
        """Cancel a request, and those that the gateway makes for it, and return how many there were.

        Only those whose senders are allowed.
        """
        leases = [
            lease
            for id_, lease in self._leases.items()
            if f"{id_}-".startswith(f"{request_id}-") and is_allowed(lease.request.sender)
        ]
        for lease in leases:
            lease.stream.close(_CANCELLED)
        return len(leases)

    def _describe(self, lease: Lease, model: str, report: RequestProgress | None) -> LiveRequest:
        request, meter = lease.request, lease.meter
        generated, seconds = report.generated_tokens if report else meter.batches, meter.decode_seconds
        if not self.is_submitted(request.id):
            state: RequestState = "queued"
        elif not request.task.draws_tokens:
            state = "running"
        elif not lease.stream.begun:
            state = "queued"
        else:
            state = "decode" if generated else "prefill"
        known = report if report and report.prompt_tokens else None
        return LiveRequest(
            id=request.id,
            model=model,
            dialect=meter.route,
            sender=request.sender,
            state=state,
            priority=request.priority,
            created_at=time.time() - (asyncio.get_running_loop().time() - lease.queued_at),
            prompt_tokens=known.prompt_tokens if known else None,
            read_tokens=known.read_tokens if known else None,
            cached_tokens=known.cached_tokens if known else None,
            generated_tokens=generated,
            tokens_per_second=round((generated - 1) / seconds, 1) if seconds and generated > 1 else None,
        )

    def take_waiting(self) -> list[Lease]:
        """Return all waiting requests in the order of `FairQueue`, and count them as those of the process."""
        waiting, self._waiting = self._waiting, {}
        if len(waiting) < 2:
            return list(waiting.values())
        queue: FairQueue[Lease] = FairQueue()
        for id_, lease in waiting.items():
            queue.add(id_, lease, lease.request.priority, lease.request.sender)
        return list(queue.drain())

    def starve(self, ids: Collection[str]) -> None:
        """Note which of the process's requests wait for memory now.

        For one that has begun, the time that it waits adds up.
        """
        before, self._starved = self._starved, ids
        for id_ in {*before} ^ {*ids}:
            if (lease := self._leases.get(id_)) and lease.stream.begun:
                if id_ in ids:
                    lease.wait(lease.seconds_left)
                else:
                    lease.stop_waiting()

    def restart_timeouts(self) -> None:
        """Restart the timeouts of the waiting requests."""
        for lease in self._waiting.values():
            lease.wait(self._timeout)

    def recall(self) -> None:
        """Take the requests from the process; none has begun. They wait for the next one, for no longer than before."""
        for lease in self._submitted_leases.values():
            if lease.stream.on_drop:
                lease.stream.on_drop()
            lease.stream.restart()
        self._waiting = dict(self._leases)

    def fail_waiting(self, failed: Failed) -> None:
        """Fail the waiting requests."""
        for lease in list(self._waiting.values()):
            lease.stream.close(failed)

    def fail_all(self, failed: Failed) -> None:
        """Fail all requests."""
        for lease in list(self._leases.values()):
            lease.stream.close(failed)

    def replay(self, crash: Failed) -> None:
        """Queue the requests of a crashed process for the next one, if their callers have received nothing.

        A request is queued again only once. The others fail with `crash`.
        """
        again: dict[str, Lease] = {}
        for lease in self._submitted_leases.values():
            if lease.replayed or not lease.stream.restart():
                lease.stream.push([crash])
                continue
            lease.replayed = True
            again[lease.request.id] = lease
            lease.wait(self._timeout)
        # If one of several merged requests fails, the others are closed.
        self._waiting = {id_: lease for id_, lease in (again | self._waiting).items() if not lease.stream.ended}

    def _release(self, lease: Lease) -> None:
        """Forget a request whose stream is over."""
        self._leases.pop(lease.request.id, None)
        was_waiting = self._waiting.pop(lease.request.id, None)
        lease.timer.stop()
        lease.meter.end("cancelled")  # does nothing if an event has ended the request
        self._on_release(lease, was_waiting is None)

    def _time_out(self, lease: Lease) -> None:
        starved = lease.request.id in self._starved
        if lease.stream.begun and not starved:
            return
        if failed := self._timeout_failure(lease if starved else None):
            lease.stream.close(failed)
        else:
            lease.wait(self._timeout)
