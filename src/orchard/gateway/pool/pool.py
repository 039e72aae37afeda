"""The pool: all served models, which share the memory and the worker processes of a server."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from orchard.config import Settings
from orchard.core.request import Adapter, Request, Task
from orchard.core.tasks.generate import Generate
from orchard.gateway.memory_status import MemoryStatus
from orchard.gateway.metrics.counters import Metrics
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool import failures, placement
from orchard.gateway.pool.budget import MemoryBudget
from orchard.gateway.pool.placement import MemoryTurn, ResidentModel
from orchard.gateway.pool.processes import Processes
from orchard.gateway.pool.served_model import ServedModel
from orchard.gateway.pool.waiting import Timer
from orchard.gateway.pool.worker_process import Launch
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.replies.merge import Merge
from orchard.kinds import Backend

log = logging.getLogger("orchard.gateway")

_WATCH_SECONDS = 1.5  # between looks at what is free, if no worker reports
_ABSENT = ("unloaded", "failed")
_REFILL_SECONDS = 2.0  # after the last load, and between checks whether anything runs


class Pool:
    """All models that are configured or were requested, some of which are in memory."""

    def __init__(self, registry: Registry, settings: Settings, launched: tuple[Backend, Launch] | None = None) -> None:
        """Take a worker's process that has started already (`launched`), with its backend."""
        self.registry = registry
        self.models: dict[str, ServedModel] = {}
        """Models that the configuration names or that were requested, by id."""
        self.memory = MemoryBudget(settings.memory_limit)
        self.processes = Processes(settings, self._read_memory, launched)
        self.metrics = Metrics()
        self._settings = settings
        self._max_models = settings.max_loaded_models or 1
        self._backend = registry.first_backend
        """The backend that the next load will probably need."""
        self._queue: dict[str, ServedModel] = {}
        self._turn: MemoryTurn | None = None
        self._scheduled_plan: asyncio.Handle | None = None
        self._refilling = Timer(self._refill)
        self._watching = Timer(self._read_memory)
        self._draining = False
        self._may_end = False  # while it is draining: running requests may still end
        self._closing = False

    def start(self) -> None:
        """Begin to load the models that are loaded at startup, as far as there is room."""
        for entry in self.registry.configured_models():
            self._served_model(entry)
        first = self._startup_models()
        if self._settings.max_loaded_models is None:
            self._max_models = 1 + sum(not self.is_bundled(model.entry) for model in first)
        for model in first:
            model.want()
        self._keep_spare()

    @property
    def is_ready(self) -> bool:
        """Whether all models that are loaded at startup are ready, and requests are accepted."""
        first = [model for model in self._startup_models() if not self._is_hidden(model.entry)]
        return not self._draining and all(model.state.shown == "ready" for model in first)

    def is_bundled(self, entry: ModelEntry) -> bool:
        """Whether it is a bundled model that is not configured together with other models."""
        return entry.is_bundled and not (entry.configured and len(self.registry.configured_models()) > 1)

    def visible_entries(self, entries: Sequence[ModelEntry]) -> list[ModelEntry]:
        """Return the models to show to clients: a bundled one only while no other is configured or in memory."""
        return [entry for entry in entries if not self._is_hidden(entry)]

    def _is_hidden(self, entry: ModelEntry) -> bool:
        loaded = [one.entry for one in self.models.values() if one.worker and not self.is_bundled(one.entry)]
        return self.is_bundled(entry) and any(
            one.id != entry.id for one in [*self.registry.configured_models(), *loaded]
        )

    @property
    def memory_status(self) -> MemoryStatus:
        """What is known of the memory; at most a second old."""
        self._refresh_memory()
        return self.memory.status

    def statuses(self) -> Mapping[str, ModelStatus]:
        """Return the status of each model that is on this machine or being downloaded. Other names may not exist."""
        models = self.models.items()
        return {id_: model.status for id_, model in models if model.entry.path or model.state.shown == "queued"}

    def find(self, name: str, adapter: Adapter | None = None) -> ServedModel:
        """Return the model with this name. Raise OrchardError("model_not_found")."""
        return self._served_model(self.registry.find(name, adapter))

    def only_model(self, task: type[Task] = Generate) -> str | None:
        """Return the model for requests that name none: the only one for the task, else the fallback or None."""
        configured = [entry for entry in self.registry.configured_models() if entry.base is None]
        loaded = self.visible_entries(
            [model.entry for model in self.models.values() if model.state.shown in ("loading", "ready")]
        )
        for entries in (configured, loaded):
            fit = [entry for entry in entries if entry.serves(task)]
            if len(fit) == 1:
                return fit[0].id
        return self._settings.fallback_model

    def find_exact(self, name: str) -> ServedModel:
        """Return the model with this name, never the fallback; also a loaded one without files. Raise OrchardError."""
        model = self.models.get(name)
        return model if model and model.worker else self._served_model(self.registry.find_exact(name))

    def stream(self, *requests: Request, goes_on: bool = False) -> EventStream:
        """Begin a request, or several as one, and return the stream of events, which the caller closes.

        `goes_on`: an answer that has begun needs it, so it may begin while running requests may end (`drain`). Raise
        OrchardError if one of them can't begin.
        """
        if self._draining and not (goes_on and self._may_end):
            raise failures.SHUTTING_DOWN.error()
        models = [self.find(request.model, request.adapter) for request in requests]
        for model, request in zip(models, requests, strict=True):
            model.entry.check_task(type(request.task))
        stream = EventStream()
        parts: Sequence[EventStream] = [stream]
        if len(requests) > 1:
            merge = Merge([request.task.choices for request in requests])
            stream, parts = merge.stream, merge.parts
        for model, request, part in zip(models, requests, parts, strict=True):
            model.enqueue(request, part)
        return stream

    async def unload_all(self) -> list[str]:
        """Unload all models that are not pinned, once their requests have ended; return the ids of unloaded models.

        Raise OrchardError("model_in_use") after that if somebody has asked for one of them meanwhile.
        """
        models = [model for model in self.models.values() if model.worker and not model.is_pinned]
        gone = await asyncio.gather(*(model.unload() for model in models), return_exceptions=True)
        for kept in gone:
            if isinstance(kept, BaseException):
                raise kept
        return [model.entry.id for model, was in zip(models, gone, strict=True) if was]

    def drain(self, grace: float) -> None:
        """Reject new requests from now on, and end those that still run after `grace` seconds."""
        self._draining = self._may_end = True
        asyncio.get_running_loop().call_later(grace, self._end_requests)

    def _end_requests(self) -> None:
        self._may_end = False
        for model in self.models.values():
            model.requests.fail_all(failures.SHUTTING_DOWN)

    def stop(self) -> None:
        """End every request and every process at once; prompts that are not saved are lost."""
        self._draining, self._may_end = True, False
        self._close_models()
        self.processes.kill()

    async def close(self) -> None:
        """End every process, and wait for that."""
        self._close_models()
        await self.processes.close()
        await self.registry.downloads.close()

    def _close_models(self) -> None:
        self._closing = True
        self._refilling.stop()
        self._watching.stop()
        for model in self.models.values():
            model.close()

    def plan_for(self, model: ServedModel) -> None:
        """Plan soon, because this model waits or no longer waits, or memory may have become free."""
        if model.is_waiting:
            self._queue.setdefault(model.entry.id, model)
        self._plan_soon()

    def plan_after_release(self) -> None:
        """Plan soon if a model waits, or one has or wants the turn, because a request has ended."""
        if self._queue or self._turn or self._pending_turns:
            self._plan_soon()

    def is_next(self, request_id: str) -> bool:
        """Whether a starved request gets its memory next. Requests that can't run even alone are to end first."""
        self._take_turns()  # others may have just ended
        self._plan_soon()
        turn = placement.next_turn(self._turn, self._pending_turns, self._placed_models, self.memory.bytes)
        return turn is not None and turn.request == request_id

    def _plan_soon(self) -> None:
        if self._scheduled_plan is None:
            self._scheduled_plan = asyncio.get_running_loop().call_soon(self._plan_now)

    def _share_memory(self) -> None:
        """Divide the memory between the loaded models. Lower allowances before raising others."""
        budget, limit = self.memory.bytes, self.processes.limit
        placed = [model for model in self.models.values() if model.worker]
        stay = [model for model in placed if model.state.shown != "unloading"]
        if budget is None or limit is None or not stay:
            return
        if self.memory.elastic or self._is_loading:
            # The system makes room, or a load has begun although little is free, and must finish.
            budget = max(budget, min(limit, sum(model.need for model in placed)))
        budget -= sum(model.need for model in placed if model.state.shown == "unloading")
        shares = placement.shares([self._resident_model(model) for model in stay], budget)
        # Count models that come back after a crash, too, because others could not keep their memory.
        lasting = [one for one in self.models.values() if one.is_pinned and one.state.shown not in _ABSENT]
        for model, share in sorted(zip(stay, shares, strict=True), key=lambda one: one[1] - (one[0].allowance or 0)):
            most = limit - sum(placement.need(one.weights_bytes, limit) for one in lasting if one is not model)
            most = min(max(most, model.need), _max_bytes(model) or limit)
            model.allow(min(share, most), most)

    def _read_memory(self) -> None:
        """Read what is free. Evict idle models if it is too little; share the memory anew if it is more or less."""
        if self._closing:
            return
        placed = [model for model in self.models.values() if model.worker]
        if not placed:
            self.memory.forget()
        now = asyncio.get_running_loop().time()
        changed = self.memory.look(self.processes.limit, self.processes.held_bytes, self.processes.device, now)
        if placed or self._queue:
            # A report comes earlier than this, if a worker's memory changes: then what it holds is known best.
            self._watching.start(_WATCH_SECONDS)
        self._evict_idle()
        if changed or self._turn or self._pending_turns:
            self._plan_soon()

    def _refresh_memory(self) -> None:
        """Read what is free, unless that was done in the last second."""
        if asyncio.get_running_loop().time() - self.memory.looked_at >= 1:
            self._read_memory()

    def _refuse_under_pressure(self) -> None:
        """Load no model while the machine has no memory left."""
        if self.memory.critical and not self._settings.load_under_pressure:
            for model in list(self._queue.values()):
                if model.is_waiting and model.worker is None:
                    failed = failures.short_of_memory(model.entry.id, self._needs, self.memory.status)
                    log.warning("%s", failed.message)
                    model.refuse(failed.error())

    @property
    def _needs(self) -> dict[str, int]:
        """What each model in memory takes at least."""
        return {id_: model.need for id_, model in self.models.items() if model.worker}

    def _evict_idle(self) -> None:
        """Evict idle models if all models may not take what they need."""
        budget = self.memory.bytes
        if budget is None:
            return
        slack = self.processes.limit or 0 if self.memory.elastic else self.memory.slack
        for id_, why in placement.choose_evictions(self._placed_models, budget, slack).items():
            self.models[id_].evict(why)

    def _startup_models(self) -> list[ServedModel]:
        """Return the models that are loaded at startup."""
        entries = [entry for entry in self.registry.configured_models() if not entry.on_demand]
        return [self._served_model(entry) for entry in entries]

    def _served_model(self, entry: ModelEntry) -> ServedModel:
        if entry.id not in self.models:
            # Forget names of models that may not exist.
            self.models = {id_: model for id_, model in self.models.items() if not model.is_forgettable}
            self.models[entry.id] = ServedModel(entry, self._settings, self)
        model = self.models[entry.id]
        if model.worker is None:
            model.entry = entry  # its files may have changed
        return model

    def _resident_model(self, model: ServedModel) -> ResidentModel:
        """Return placement's view of a model."""
        entry, bundled, turn = model.entry, self.is_bundled(model.entry), self._turn
        return ResidentModel(
            id=entry.id,
            need=model.need,
            weights=model.weights_bytes,
            running_bytes=_running_bytes(model),
            turn_bytes=turn.bytes if turn and turn.model == entry.id else 0,
            max_bytes=_max_bytes(model),
            state=model.state.shown,
            # In another's turn, those whose requests are all stuck may go.
            busy=model.is_busy and not (turn and turn.model != entry.id and model.requests.is_stuck),
            has_begun_starved=model.requests.has_begun_starved,
            pinned=model.is_pinned,
            last_used=model.last_used,
            modest=bundled or not model.is_awaited,
            bundled=bundled,
            resident=entry.configured and not entry.on_demand,
        )

    @property
    def _placed_models(self) -> list[ResidentModel]:
        """The models that take memory."""
        return [self._resident_model(model) for model in self.models.values() if model.worker]

    def _plan_now(self) -> None:
        """Load the waiting models for which there is room, and make room for others."""
        self._scheduled_plan = None
        if self._closing:
            return
        self._refresh_memory()
        self._refuse_under_pressure()
        self._take_turns()
        self._queue = {id_: model for id_, model in self._queue.items() if model.is_waiting}
        waiting = [self._resident_model(model) for model in self._queue.values() if model.worker is None]
        plan = placement.make_plan(
            waiting, self._placed_models, self._max_models, self.processes.limit, self.memory.bytes
        )
        for id_, reason in plan.refuse.items():
            self.models[id_].refuse_room(reason)
        for id_ in plan.drop:
            self.models[id_].refuse(failures.no_room(id_, self._needs).error())
        for model in self.models.values():
            model.hold(model.entry.id in plan.hold)
        for id_, other in plan.evict.items():
            self.models[id_].evict(f"it makes room for {other}")
        for id_ in plan.load:
            self.models[id_].place()
            self._backend = self.models[id_].entry.backend
        self._share_memory()
        for model in self.models.values():
            model.begin_load()
        self._queue = {id_: model for id_, model in self._queue.items() if model.is_waiting}
        self._keep_spare()

    @property
    def _pending_turns(self) -> list[MemoryTurn]:
        """The turns for which models wait."""
        wanted = [
            (model, model.requests.starved_leases[0], _wanted_bytes(model))
            for model in self.models.values()
            if _wanted_bytes(model)
        ]
        return [MemoryTurn(model.entry.id, one.request.id, most, one.queued_at) for model, one, most in wanted]

    def _take_turns(self) -> None:
        """End a turn whose request has ended, and begin the next one."""
        starved, turn = self._pending_turns, self._turn
        if turn and not ((model := self.models.get(turn.model)) and model.requests.is_submitted(turn.request)):
            turn = None
        if turn:  # its request may have grown
            turn = next((one for one in starved if one.request == turn.request), turn)
        self._turn = chosen = placement.choose_turn(turn, starved, self._placed_models, self.memory.bytes)
        if chosen and chosen != turn:
            log.info("%s gets %s bytes until a request that waits for them ends", chosen.model, f"{chosen.bytes:,}")

    def _keep_spare(self) -> None:
        """Keep one spare process for the next load."""
        if self._queue or self._is_loading:
            return
        self.processes.trim()
        if not self._refilling.is_running and not self.processes.spare:
            self._refilling.start(_REFILL_SECONDS)

    @property
    def _is_loading(self) -> bool:
        return any(model.state.shown == "loading" for model in self.models.values())

    def _refill(self) -> None:
        """Start a spare process once no load and no request runs, because it would slow them down."""
        if self._is_loading or any(model.is_busy for model in self.models.values()):
            self._refilling.start(_REFILL_SECONDS)
        else:
            self.processes.refill(self._backend)


def _wanted_bytes(model: ServedModel) -> int:
    """Return the bytes with which the model's oldest starved request would run, if it may not take as much now."""
    wanted = model.worker.memory.wanted_bytes if model.worker and model.requests.starved_leases else 0
    return wanted if wanted > (model.allowance or 0) else 0


def _max_bytes(model: ServedModel) -> int | None:
    """Return the most bytes that the model may take, if that is less than its share may be."""
    return min(filter(None, (model.entry.options.memory_limit, model.restarts.reduction.limit)), default=None)


def _running_bytes(model: ServedModel) -> int:
    """Return the bytes of the model's weights and of the rows that run."""
    return model.worker.memory.weights_bytes + model.worker.memory.rows_bytes if model.worker else 0
