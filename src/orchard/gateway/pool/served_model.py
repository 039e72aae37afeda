"""A served model: its process, if it has one, and its requests."""

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.cache_report import CacheState
from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.core.request import Request
from orchard.gateway.metrics.counters import ModelMetrics
from orchard.gateway.model_status import ModelStatus, ShownState
from orchard.gateway.models.registry import ModelEntry
from orchard.gateway.pool import failures, placement
from orchard.gateway.pool.fetch import Fetch
from orchard.gateway.pool.placement import ResidentModel
from orchard.gateway.pool.requests import Lease, Requests
from orchard.gateway.pool.restarts import Restarts
from orchard.gateway.pool.waiting import IdleClock, Timer, Waiters
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.gateway.replies.event_stream import EventStream

if TYPE_CHECKING:
    from orchard.gateway.pool.pool import Pool

log = logging.getLogger("orchard.gateway")


class ServedModel:
    """A model's requests wait in it while it has no process, or must leave the one it has."""

    def __init__(self, entry: ModelEntry, settings: Settings, pool: "Pool") -> None:
        self.entry = entry
        self.restarts = Restarts()
        self.worker: WorkerProcess | None = None
        self.used = 0.0
        self.allowance: int | None = None
        """Bytes that it may take now."""
        self.held = False
        """Another model waits for its room: new requests wait until it has been served."""
        self._settings = settings
        self._pool = pool
        self._requests = Requests(settings.queue_timeout, self._too_late, self._released)
        self._wanted = False
        self._leaving = False
        self._handing_on = False
        self._loading = False
        self._ready = False
        self._weights_bytes = 0
        self._placed_at = 0.0
        self._asked_at: float | None = None
        self._fetch = Fetch(pool.registry, self._tell, self._fetched)
        self._idle = IdleClock(self._idle_too_long)
        self._pause = Timer(self._ask_for_room)
        self._load_waiters = Waiters()
        self._unload_waiters = Waiters()

    @property
    def state(self) -> ShownState:
        """What /health calls it."""
        if self.worker is None:
            if self.waits or self._pause.running or self._fetch.running:
                return "queued"
            return "failed" if self.restarts.refuses else "unloaded"
        match self.worker.phase:
            case "ready":
                return "ready"
            case "starting" | "idle" | "loading":
                return "loading"
        return "unloading"

    @property
    def waits(self) -> bool:
        """Whether it is to be loaded as soon as there is room, or to take requests again."""
        return self._is_asked_for and not self._pause.running and not self._fetch.running

    @property
    def _is_asked_for(self) -> bool:
        return self._wanted or bool(self._requests.waiting or self._load_waiters)

    @property
    def forgettable(self) -> bool:
        """Whether it is not here and nobody waits for it."""
        return not (self.entry.path or self.entry.configured or self._is_asked_for or self._fetch.running)

    @property
    def seat(self) -> ResidentModel:
        """How placement sees it."""
        phases: dict[ShownState, placement.Phase] = {"loading": "loading", "ready": "ready", "unloading": "leaving"}
        phase = phases.get(self.state, "waiting")
        need = placement.need(max(self.entry.size_bytes, self._weights_bytes), self._pool.budget)
        if phase == "leaving" and self.allowance is not None:
            need = self.allowance  # nobody can tell it any more to take less
        bundled = self._pool.is_bundled(self.entry)
        return ResidentModel(
            id=self.entry.id,
            need=need,
            phase=phase,
            busy=self._requests.submitted > 0,
            pinned=self.entry.pinned,
            used=self.used,
            modest=bundled or not (self._requests.waiting or self._load_waiters),
            bundled=bundled,
            resident=self.entry.configured and not self.entry.on_demand,
        )

    @property
    def status(self) -> ModelStatus:
        """How it stands, for the metrics and for /health."""
        worker, state = self.worker, self.state
        return ModelStatus(
            state=state,
            reason=self.restarts.reason,
            note=self._note() if state in ("queued", "loading") else "",
            progress=worker.progress if worker and state == "loading" else None,
            running=worker.running if worker else 0,
            waiting=(worker.waiting if worker else 0) + self._requests.waiting,
            mlx_bytes=worker.mlx_bytes if worker else None,
            rss_bytes=worker.rss_bytes if worker else None,
            pid=worker.pid if worker else None,
            restarts=self.restarts.count,
            details=worker.details if worker and state == "ready" else {},
        )

    async def cache(self, request_id: str | None = None) -> CacheState:
        """What the process has cached, or its report on one request; nothing where none is ready.

        Raises OrchardError("unavailable") where it does not say so in time.
        """
        if self.worker and self.worker.ready:
            return await self.worker.cache(request_id)
        return CacheState()

    def submit(self, request: Request, stream: EventStream) -> None:
        """Give the request to the process, now or as soon as there is one that is ready."""
        # What has to be downloaded first may not even exist.
        meter = self._pool.metrics.meter(request, self.entry.id if self.entry.path else "")
        stream.on_events = meter.see
        if self._is_refused():
            stream.push([self._failed])
            return
        self._requests.add(request, stream, meter)
        if self._takes_requests:
            self._submit()
        else:
            self._ask_for_room()
            stream.note = self._note()

    def want(self) -> None:
        """Load it where there is free room."""
        self._wanted = True
        self._ask_for_room()

    async def load(self) -> None:
        """Load it now, as a request would, and wait until it is ready. Raises OrchardError."""
        if self._takes_requests:
            return
        self.restarts.allow()
        self._pause.stop()
        loaded = self._load_waiters.add()
        self._ask_for_room()
        try:
            async with asyncio.timeout(self._settings.queue_timeout):
                await loaded
        except TimeoutError:
            raise self._not_ready.error() from None

    async def unload(self) -> bool:
        """End its process once its requests have ended, and wait until its memory is back; False: it had none."""
        self._wanted = False
        if not self._is_asked_for:
            self._pause.stop()
            self._fetch.cancel()
        if self.worker is None:
            return False
        gone = self._unload_waiters.add()
        self._leaving = True
        self._count_unload("asked", "somebody asked for that")
        if self.state == "loading" and not self._requests.waiting and not self._load_waiters:
            self._end_process()
        self._rest()
        await gone
        return True

    def place(self) -> None:
        """There is room: take a process. `begin` goes on."""
        self._wanted = False
        self._placed_at = asyncio.get_running_loop().time()
        self._asked_at = self._placed_at if self._asked_at is None else self._asked_at
        self.worker = self._pool.processes.take(self.entry.backend)
        self.worker.name = self.entry.id
        self.worker.on_change = self._changed

    def begin(self) -> None:
        """Load, now or as soon as the process has started."""
        if self.worker and self.worker.phase == "idle":
            self._load()
        self._tell()

    def evict(self, other: str) -> None:
        """Free its memory for another model, which may take the process over."""
        self._count_unload("evicted", f"it makes room for {other}")
        self._free()

    def refuse(self, error: OrchardError) -> None:
        """It can't be loaded, without any fault of its own."""
        self._wanted, self._asked_at = False, None
        self._fail_all(error)

    def refuse_room(self, reason: str) -> None:
        """There can never be room for it."""
        self.restarts.reason = reason
        self.refuse(self._failed.error())

    def drop(self) -> None:
        """There is no free room, and it makes nobody go."""
        self.refuse(failures.no_room(self.entry.id).error())

    def flush(self) -> None:
        """Hand over what waits, if the process may have it."""
        if self._takes_requests:
            self._submit()

    def allow(self, memory_bytes: int) -> None:
        """Let it take so much memory from now on."""
        if own := self.entry.options.memory_limit:
            memory_bytes = min(own, memory_bytes)
        if memory_bytes != self.allowance:
            self.allowance = memory_bytes
            if self.worker and self.worker.phase in ("loading", "ready"):
                self.worker.limit_memory(memory_bytes)

    def end_requests(self) -> None:
        """End every request, because the server shuts down."""
        self._requests.fail_all(failures.SHUTTING_DOWN)

    def close(self) -> None:
        """End everything, because the server shuts down."""
        self._idle.stop()
        self._pause.stop()
        self._fetch.cancel()
        self.end_requests()
        self._load_waiters.tell(failures.SHUTTING_DOWN.error())
        if self.worker:
            self.worker.close()

    # What happens to its requests

    @property
    def _takes_requests(self) -> bool:
        return self.worker is not None and self.worker.ready and not self.held and not self._leaving

    def _submit(self) -> None:
        """Hand over what waits."""
        assert self.worker
        if self._requests.waiting:
            self._idle.stop()
            self._requests.submit_to(self.worker)

    def _released(self, lease: Lease) -> None:
        if lease.stream.finished:
            self.restarts.served()
        if lease.submitted:
            self.used = asyncio.get_running_loop().time()
            self._idle.ttl = lease.request.ttl
        self._fetch_for_nobody()
        if not self._requests.submitted:
            self._rest()
            self._pool.rested()

    def _too_late(self) -> Failed | None:
        """A request has waited for as long as it may, unless its model is being downloaded."""
        if self._fetch.running:
            return None
        if self._takes_requests:
            return failures.not_begun(self.entry.id, self._settings.queue_timeout)
        return self._not_ready

    def _is_refused(self) -> bool:
        return self.restarts.refuses and self.restarts.pause(asyncio.get_running_loop().time()) > 0

    @property
    def _failed(self) -> Failed:
        return failures.not_loadable(self.entry.id, self.restarts.reason)

    @property
    def _not_ready(self) -> Failed:
        return failures.not_ready(self.entry.id, self._settings.queue_timeout, self._note())

    def _fail_all(self, error: OrchardError) -> None:
        """Fail all who wait for it to load."""
        self._requests.fail_waiting(Failed.of(error))
        self._load_waiters.tell(error)

    def _tell(self) -> None:
        self._requests.tell(self._note())

    def _note(self) -> str:
        match self.state:
            case "loading":
                assert self.worker
                return f"loading {round(100 * self.worker.progress)}%"
            case "queued" if self._fetch.running:
                return self._fetch.note
            case "queued" if self._pause.running:
                return "waiting for a restart"
        return "waiting for room"

    # How it comes to have a process

    def _ask_for_room(self) -> None:
        """Have it loaded, or downloaded first, if anybody still wants that."""
        if self._asked_at is None and self._is_asked_for:
            self._asked_at = asyncio.get_running_loop().time()
        if self._is_asked_for and not self.entry.path and self.entry.repo:
            self._fetch.begin(self.entry)
        self._pool.changed(self)

    def _fetched(self, entry: ModelEntry | None) -> None:
        self.entry = entry or self.entry
        if self._fetch.failure:
            self.refuse(self._fetch.failure)
        self._requests.wait_anew()
        self._ask_for_room()  # also for somebody who came when the last one had gone

    def _fetch_for_nobody(self) -> None:
        if not self._is_asked_for:
            self._fetch.cancel()

    @property
    def _counted(self) -> ModelMetrics:
        return self._pool.metrics.of(self.entry.id)

    def _count_unload(self, reason: str, why: str) -> None:
        self._counted.unloads[(reason,)] += 1
        log.info("%s is unloaded: %s", self.entry.id, why)

    # What happens to its process

    def _changed(self) -> None:
        assert self.worker
        match self.worker.phase:
            case "idle" if self._handing_on:
                self._hand_on(self.worker)
            case "idle":
                self._pool.share()  # the process may have been the first to say how much memory there is
                self._load()
                self._pool.changed(self)
            case "loading":
                self._tell()
            case "ready":
                self._loaded(self.worker)
            case "ending":
                self._ending(self.worker)
            case "gone":
                self._gone(self.worker)

    def _load(self) -> None:
        assert self.worker
        seat, budget = self.seat, self._pool.budget
        if budget is not None and seat.need > budget:
            self.refuse_room(placement.too_large(seat.need, budget))
            self._hand_on(self.worker)
            return
        options = self.entry.options
        if self.allowance is not None:
            options = replace(options, memory_limit=self.allowance)
        self._loading = True
        self.worker.load(self.entry.id, self.entry.path, options)

    def _loaded(self, worker: WorkerProcess) -> None:
        self._ready = True
        self._weights_bytes = worker.weights_bytes
        self.used = asyncio.get_running_loop().time()
        self._counted.load.add(self.used - self._placed_at)
        waited = self.used - (self._placed_at if self._asked_at is None else self._asked_at)
        log.info("%s is ready, loaded in %.2f s (%.2f s of reading)", self.entry.id, waited, worker.load_seconds)
        self._asked_at = None
        self.restarts.loaded()
        self._load_waiters.tell()
        self._submit()  # also where it must leave: they came before that
        self._rest()
        self._pool.changed(self)

    def _shrink(self) -> None:
        """Until it is gone it takes no more than it needs: what is beyond that may be given to others now.

        Prompts that are still to be saved would be lost thereby.
        """
        if self.allowance is not None and not self.entry.options.saves:
            self.allow(min(self.allowance, self.seat.need))

    def _free(self) -> None:
        """Free the model, and keep the process."""
        assert self.worker
        self._idle.stop()
        self._handing_on = True
        self._shrink()
        self.worker.unload()

    def _end_process(self) -> None:
        assert self.worker
        self._shrink()
        if self.worker.ready:
            self.worker.unload()  # it has less time for saving prompts than at the server's end
        self.worker.close()

    def _hand_on(self, worker: WorkerProcess) -> None:
        self._left()
        self._pool.processes.give(worker)

    def _ending(self, worker: WorkerProcess) -> None:
        """The process has closed its socket; its memory is not back yet."""
        if worker.refused:
            self._counted.failed_loads += 1
            self.restarts.refused(asyncio.get_running_loop().time(), worker.failure or "")
            self._fail_all(self._failed.error())
        elif worker.crashed and self._ready:
            self._requests.lose(failures.crashed(self.entry.id, worker.failure))

    def _gone(self, worker: WorkerProcess) -> None:
        """Its memory is back."""
        if worker.crashed and not worker.refused:
            now = asyncio.get_running_loop().time()
            self._counted.crashes += 1
            self._counted.failed_loads += not self._ready
            self.restarts.crashed(now, worker.failure or "", loading=self._loading and not self._ready)
            if self.restarts.refuses:
                self._fail_all(self._failed.error())
            elif not (self._leaving or self._handing_on):
                self._wanted = True
                self._counted.restarts += 1
                if pause := self.restarts.pause(now):
                    self._pause.start(pause)
                self._tell()
        self._left()

    def _left(self) -> None:
        """It has no process any more."""
        self._idle.stop()
        self.worker = self.allowance = None
        self.held = self._leaving = self._handing_on = self._loading = self._ready = False
        self._unload_waiters.tell()
        self._pool.changed(self)

    # Clocks

    def _rest(self) -> None:
        """Where it has nothing to do: leave, if it must, or wait for the end of its time."""
        if self._requests.submitted or not (self.worker and self.worker.ready):
            return
        if self._leaving:
            self._end_process()
            return
        self._idle.start(self.entry.ttl)

    def _idle_too_long(self) -> None:
        self._count_unload("idle", "it had no requests for as long as it may stay without")
        if self._pool.processes.can_load(self.entry.backend):
            self._end_process()
        else:  # the next load need not wait for a process to start
            self._free()
