"""A served model: its process, if it has one, and its requests. `lifecycle` has its states."""

import asyncio
import logging
from contextlib import suppress

from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.cache_report import CacheState
from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.core.request import Request
from orchard.gateway.live_request import LiveRequest
from orchard.gateway.metrics.counters import ModelMetrics
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.pool import failures, lifecycle, placement, shown_status
from orchard.gateway.pool.host import Host
from orchard.gateway.pool.lifecycle import ModelState
from orchard.gateway.pool.requests import Lease, Requests
from orchard.gateway.pool.restarts import Restarts
from orchard.gateway.pool.waiting import Timer, Waiters
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.gateway.replies.event_stream import EventStream

log = logging.getLogger("orchard.gateway")


class ServedModel:
    """A model with its state, its requests and its process. Requests wait here until the process may have them."""

    def __init__(self, entry: ModelEntry, settings: Settings, host: Host) -> None:
        self.entry = entry
        self.state = ModelState.UNLOADED
        self.restarts = Restarts()
        self.worker: WorkerProcess | None = None
        self.last_used = 0.0
        self.allowance: int | None = None
        """The bytes of memory that it may take now."""
        self.load_seconds: float | None = None
        """How long its last load took, with the wait for room; None: it was never loaded."""
        self._most_bytes = 0  # what it could take if it were alone and other programs took nothing
        self._settings = settings
        self._host = host
        self.requests = Requests(settings.queue_timeout, self._note, self._timeout_failure, self._note_release)
        self._before = self.state  # the state before this one
        self._wanted = False
        """It is to be loaded although no request waits for it."""
        self._weights_bytes = 0
        self._placed_at = 0.0
        self._asked_at: float | None = None
        self._fetch: asyncio.Task[ModelEntry] | None = None
        self._ttl: float | None = None
        """The last request's seconds without requests after which the model is unloaded; None: the model's own."""
        self._pinned: bool | None = None
        self._idle = Timer(self._unload_idle)
        self._pause = Timer(self._seek)
        self._load_waiters = Waiters()
        self._unload_waiters = Waiters()

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for room, to be loaded or to take requests again."""
        return self._is_asked_for and self.state not in (ModelState.DOWNLOADING, ModelState.RESTARTING)

    @property
    def _is_asked_for(self) -> bool:
        return self._wanted or self.is_awaited

    @property
    def is_awaited(self) -> bool:
        """Whether a request or a caller of `load` waits for it."""
        return bool(self.requests.waiting_count or self._load_waiters)

    @property
    def is_busy(self) -> bool:
        """Whether its process has requests."""
        return self.requests.submitted_count > 0

    @property
    def is_forgettable(self) -> bool:
        """Whether it is neither configured nor on this machine, and nothing waits for it."""
        return not (self.entry.path or self.entry.configured) and self.state in (ModelState.UNLOADED, ModelState.FAILED)

    @property
    def need(self) -> int:
        """The least bytes of memory that it takes."""
        if self.state.shown == "unloading" and self.allowance is not None:
            return max(self.allowance, self.weights_bytes)  # it can't be told any more to take less
        return placement.need(self.weights_bytes, self._host.processes.limit)

    @property
    def is_pinned(self) -> bool:
        """Whether it is never unloaded to make room for another: as a client has asked last, else as configured."""
        return self.entry.pinned if self._pinned is None else self._pinned

    def pin(self, pinned: bool) -> None:
        """Pin it, or no longer, until the server stops."""
        self._pinned = pinned
        self._host.plan_for(self)

    @property
    def unload_seconds(self) -> float | None:
        """The seconds until it is unloaded, unless a request comes; None: its time to live does not run."""
        return None if self._idle.due is None else self._idle.due - asyncio.get_running_loop().time()

    @property
    def weights_bytes(self) -> int:
        """What its weights take in memory."""
        entry, on_device = self.entry, self._host.processes.has_device_memory
        expected = entry.options.loaded_bytes(entry.size_bytes, entry.kept_bytes, on_device=on_device)
        return max(expected, self._weights_bytes)

    @property
    def status(self) -> ModelStatus:
        """Its status, for the metrics and /health."""
        return shown_status.status(self, self._note())

    async def read_cache(self, request_id: str | None = None) -> CacheState:
        """Return what the process has cached, or its report on one request; an empty state if the model is not ready.

        Raise OrchardError("unavailable") if the process does not answer in time.
        """
        if self.worker and self.state.shown == "ready":
            return await self.worker.read_cache(request_id)
        return CacheState()

    async def live_requests(self) -> list[LiveRequest]:
        """Return its requests that have not ended, the oldest first."""
        reports = await self.worker.read_progress() if self.worker and self.is_busy else ()
        return self.requests.describe(self.entry.id, {report.id: report for report in reports})

    def enqueue(self, request: Request, stream: EventStream) -> None:
        """Give a request to the process, once it is ready. Push a failure if the model rejects requests."""
        # Count a model that must be downloaded first without a name, because it may not exist.
        meter = self._host.metrics.meter(request, self.entry.id if self.entry.path else "")
        stream.on_events = meter.see
        if self.restarts.refuses and self.restarts.pause(asyncio.get_running_loop().time()) > 0:
            stream.push([self._load_failure])
            return
        self.requests.add(request, stream, meter)
        self._cancel_unload()
        if self.state is ModelState.READY:
            self._send_waiting()
        else:
            self._seek()

    def want(self) -> None:
        """Load it if there is free memory."""
        self._wanted = True
        self._seek()

    async def load(self) -> None:
        """Load it now, as a request would, and wait until it is ready. Raise OrchardError if that fails."""
        if self.state is ModelState.READY:
            return
        if not self.restarts.allow():
            raise self._load_failure.error()
        self._pause.stop()
        self._cancel_unload()
        try:
            with self._load_waiters.add_waiter() as loaded:
                self._seek()
                async with asyncio.timeout(self._settings.queue_timeout):
                    await loaded
        except TimeoutError:
            raise failures.not_ready(self.entry.id, self._settings.queue_timeout, self._note()).error() from None
        finally:
            self._seek()

    def keep_for(self, seconds: float) -> None:
        """Unload it after so many seconds without a request, until a request comes that says something else."""
        self._ttl = seconds
        self._unload_or_idle()

    async def unload(self) -> bool:
        """End its process once its requests have ended, and wait until its memory is free; False: it had no process.

        Raise OrchardError("model_in_use") if somebody asks for the model before it is unloaded: then it stays.
        """
        self._wanted = False
        if self.worker is None:
            if not self._is_asked_for:
                self._pause.stop()
                self._stop_fetching()
            self.restarts.forgive()
            self._seek()
            return False
        with self._unload_waiters.add_waiter() as unloaded:
            if self.state.shown == "loading" and not self._is_asked_for:
                self._unload_on_request()
            elif self.state in (ModelState.READY, ModelState.HELD):
                self._become(ModelState.LEAVING)
                self._unload_or_idle()
            await unloaded
        self.restarts.forgive()
        return True

    def place(self) -> None:
        """Take a process, because there is room now; `begin_load` loads the model."""
        self._become(ModelState.STARTING)
        self._wanted = False
        self._placed_at = asyncio.get_running_loop().time()
        self.worker = self._host.processes.take(self.entry.backend)
        self.worker.name = self.entry.id
        self.worker.on_change = self._follow_process
        self.worker.on_starved = self.requests.starve
        log.info("%s is being loaded", self.entry.id)

    def begin_load(self) -> None:
        """Load it into its process, once that has started."""
        worker, limit = self.worker, self._host.processes.limit
        if self.state is not ModelState.STARTING or not worker or worker.phase != "idle":
            return
        if limit is not None and self.need > limit:
            self.refuse_room(placement.too_large_reason(self.need, limit, {}))
            self._lose_process()
            self._host.processes.give_back(worker)
            return
        options = self.entry.options
        if self.allowance is not None:
            options = replace(options, memory_limit=self.allowance, halvings=self.restarts.reduction.halvings)
        self._host.memory.warn_of_need(self.entry.id, self.need)
        self._become(ModelState.LOADING)
        worker.load(self.entry.id, self.entry.path, options)
        if self.allowance is not None and self._most_bytes != self.allowance:
            worker.limit_memory(self.allowance, self._most_bytes)

    def hold(self, held: bool) -> None:
        """If it is ready, hold new requests while another model waits for its memory; `held` False: go on."""
        if held and self.state is ModelState.READY:
            self._become(ModelState.HELD)
        elif not held and self.state is ModelState.HELD:
            self._become(ModelState.READY)
            self._load_waiters.notify()
            self._send_waiting()

    def evict(self, why: str) -> None:
        """Free its memory. Another model may reuse its process. Requests that are stuck in the process wait again."""
        if self.is_busy:
            self.requests.recall()
            if self.state is ModelState.LEAVING:
                self._become(ModelState.HELD)
        self._free_model("evicted", why, end=False)

    def refuse(self, error: OrchardError) -> None:
        """Fail all that wait for it to load, without counting a failure of the model."""
        self._wanted, self._asked_at = False, None
        self._fail_all(error)
        self._seek()

    def refuse_room(self, reason: str) -> None:
        """Fail all that wait for it to load, because there can never be room for it."""
        self.restarts.reason, self.restarts.lacks_memory = reason, False
        self.refuse(self._load_failure.error())

    def allow(self, memory_bytes: int, most_bytes: int) -> None:
        """Let it take `memory_bytes` from now on; it could take `most_bytes` if it were alone."""
        if (memory_bytes, most_bytes) != (self.allowance, self._most_bytes):
            self.allowance, self._most_bytes = memory_bytes, most_bytes
            if self.worker and self.worker.phase in ("loading", "ready"):
                self.worker.limit_memory(memory_bytes, most_bytes)

    def close(self) -> None:
        """End everything, because the server shuts down."""
        self._wanted = False
        self._idle.stop()
        self._pause.stop()
        self._stop_fetching()
        self.requests.fail_all(failures.SHUTTING_DOWN)
        self._load_waiters.notify(failures.SHUTTING_DOWN.error())
        if self.worker:
            self.worker.close()

    # States

    def _become(self, state: ModelState) -> None:
        if state is not self.state:
            self._before, self.state = self.state, lifecycle.step(self.state, state)

    def _seek(self) -> None:
        """If it is to be loaded, wait for what it needs next: its files, the end of a pause, or room."""
        if self._is_asked_for and self._asked_at is None:
            self._asked_at = asyncio.get_running_loop().time()
        if self.worker is None:
            is_missing = not self.entry.path and self.entry.repo
            if is_missing and self._is_asked_for and not self._pause.is_running and not self._fetch:
                self._fetch = asyncio.create_task(self._host.registry.fetch(self.entry))
                # A callback, because a coroutine that is cancelled before it begins runs no code at its end.
                self._fetch.add_done_callback(self._end_fetch)
            if self._pause.is_running:
                self._become(ModelState.RESTARTING)
            elif self._fetch:
                self._become(ModelState.DOWNLOADING)
            elif self._is_asked_for:
                self._become(ModelState.QUEUED)
            else:
                self._become(ModelState.FAILED if self.restarts.refuses else ModelState.UNLOADED)
        self._host.plan_for(self)

    def _end_fetch(self, task: asyncio.Task[ModelEntry]) -> None:
        self._fetch = None
        try:
            with suppress(asyncio.CancelledError):
                self.entry = task.result()
            self.requests.restart_timeouts()
            self._seek()  # a request may have come after the last one had gone
        except OrchardError as error:
            self.refuse(error)

    def _stop_fetching(self) -> None:
        if self._fetch:
            self._fetch.cancel()

    # Its requests

    def _send_waiting(self) -> None:
        assert self.worker
        for lease in self.requests.take_waiting():
            self._idle.stop()
            lease.meter.note_submission()
            self.worker.send_request(lease.request, lease.stream)

    def _note_release(self, lease: Lease, was_submitted: bool) -> None:
        if lease.stream.finished:
            self.restarts.note_success()
        if was_submitted:
            self.last_used = asyncio.get_running_loop().time()
            self._ttl = lease.request.ttl
        if not self._is_asked_for:
            self._stop_fetching()
        if self.worker is None and not self._is_asked_for:
            self._seek()
        if not self.is_busy:
            self._unload_or_idle()
        self._host.plan_after_release()

    def _timeout_failure(self, starved: Lease | None) -> Failed | None:
        """Return the failure of a request that has waited too long; None: it goes on waiting, as for a download.

        `starved`: the request, if it waits for memory in the process.
        """
        if starved:
            if starved.stream.begun and not starved.has_more_time and self._host.is_next(starved.request.id):
                starved.has_more_time = True
                return None
            return failures.insufficient_memory(self.entry.id, self._settings.queue_timeout)
        if self.state is ModelState.DOWNLOADING:
            return None
        if self.state is ModelState.READY:
            return failures.not_begun(self.entry.id, self._settings.queue_timeout)
        return failures.not_ready(self.entry.id, self._settings.queue_timeout, self._note())

    @property
    def _load_failure(self) -> Failed:
        return failures.not_loadable(self.entry.id, self.restarts.reason, lacks_memory=self.restarts.lacks_memory)

    def _fail_all(self, error: OrchardError) -> None:
        self.requests.fail_waiting(Failed.from_error(error))
        self._load_waiters.notify(error)

    def _note(self) -> str:
        """Return what its requests wait for."""
        return shown_status.note(self, self._host.registry.downloads)

    # Its process

    def _follow_process(self) -> None:
        worker = self.worker
        assert worker
        match worker.phase:
            case "idle" if self.state is ModelState.UNLOADING:
                self._lose_process()
                self._host.processes.give_back(worker)
            case "idle":
                self._host.plan_for(self)  # divides the memory, and calls `begin_load`
            case "ready":
                self._finish_load(worker)
            case "unloading" if self.state is not ModelState.UNLOADING:
                self._become(ModelState.ENDING)
            case "ending":  # its socket is closed; its memory is not free yet
                self._become(ModelState.ENDING)
                if worker.refused:
                    self._metrics.failed_loads += 1
                    now = asyncio.get_running_loop().time()
                    self.restarts.count_failed_load(now, worker.failure or "", lacks_memory=worker.out_of_memory)
                    self._fail_all(self._load_failure.error())
            case "gone":
                self._note_process_end(worker)

    def _finish_load(self, worker: WorkerProcess) -> None:
        self._become(ModelState.READY)
        self._weights_bytes = worker.loaded.weights_bytes
        self.last_used = asyncio.get_running_loop().time()
        self._metrics.load.add(self.last_used - self._placed_at)
        waited = self.last_used - (self._placed_at if self._asked_at is None else self._asked_at)
        self.load_seconds = waited
        reading = worker.loaded.load_seconds
        log.info("%s is ready, loaded in %.2f s (%.2f s of that in its process)", self.entry.id, waited, reading)
        self._asked_at = None
        self.restarts.note_load()
        self._load_waiters.notify()
        self._send_waiting()
        if self._unload_waiters:
            self._become(ModelState.LEAVING)
        self._unload_or_idle()
        self._host.plan_for(self)

    def _unload_or_idle(self) -> None:
        """If it has no requests, unload it if a client has asked for that, else start the clock of its ttl."""
        if self.is_busy:
            return
        if self.state is ModelState.LEAVING:
            self._unload_on_request()
        elif self.state in (ModelState.READY, ModelState.HELD):
            self._idle.start(self.entry.ttl if self._ttl is None else self._ttl)

    def _cancel_unload(self) -> None:
        """If clients have asked to unload it and that has not begun, keep it, because somebody asks for it."""
        if self.state.shown != "unloading":
            self._unload_waiters.notify(failures.in_use(self.entry.id))
        if self.state is ModelState.LEAVING:
            self._become(ModelState.HELD)  # until the next plan, because another model may wait for its memory

    def _unload_on_request(self) -> None:
        self._free_model("asked", "a client asked for that", end=True)

    def _unload_idle(self) -> None:
        # Keep the process, unless a spare one has started, so that the next load need not wait for a start.
        end = self._host.processes.can_load(self.entry.backend)
        self._free_model("idle", "it had no requests for the time set as ttl", end=end)

    def _free_model(self, reason: str, why: str, *, end: bool) -> None:
        """Free the model, and keep its process or end it; count `reason`, and log `why`."""
        assert self.worker
        self._metrics.unloads[(reason,)] += 1
        log.info("%s is unloaded: %s", self.entry.id, why)
        self._idle.stop()
        # Give up memory that it does not need now, unless it must save prompts, which would be dropped.
        if self.allowance is not None and not self.entry.options.saves_files:
            self.allow(min(self.allowance, self.need), self._most_bytes)
        self._become(ModelState.ENDING if end else ModelState.UNLOADING)
        if self.worker.phase == "ready":
            self.worker.unload()  # also if it ends: so it spends less time on saving prompts than at a shutdown
        if end:
            self.worker.close()

    def _note_process_end(self, worker: WorkerProcess) -> None:
        """Count a crash and repeat its requests, then go on without the process, whose memory is free."""
        if worker.has_crashed and not worker.refused:
            now = asyncio.get_running_loop().time()
            self._metrics.crashes += 1
            self._metrics.failed_loads += self._before in (ModelState.STARTING, ModelState.LOADING)
            ran_out = (self.allowance, self.weights_bytes) if worker.out_of_memory and self.allowance else None
            loading = self._before is ModelState.LOADING
            self.restarts.count_crash(now, worker.failure or "", loading=loading, ran_out=ran_out)
            log.warning("%s has crashed: %s", self.entry.id, self.restarts.reason)
            crash = failures.process_crashed(self.entry.id, self.restarts.reason, again=not self.restarts.refuses)
            self.requests.replay(crash)
            if self.restarts.refuses:
                self._fail_all(self._load_failure.error())
            elif not self._unload_waiters and self._before is not ModelState.UNLOADING:
                self._wanted = True
                self._metrics.restarts += 1
                if pause := self.restarts.pause(now):
                    self._pause.start(pause)
        self._lose_process()

    def _lose_process(self) -> None:
        self._idle.stop()
        self.worker = self.allowance = None
        self._unload_waiters.notify()
        self._seek()

    @property
    def _metrics(self) -> ModelMetrics:
        return self._host.metrics.models[self.entry.id]
