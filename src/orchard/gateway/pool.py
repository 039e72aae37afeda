"""Which model runs where: one worker a model, started with the server; one that died is started by the next request."""

import asyncio
import contextvars
import logging
from collections.abc import Sequence
from typing import Any, Literal

from orchard.config import Settings
from orchard.core.cache import CacheState
from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.core.request import Request
from orchard.gateway.merge import Merge
from orchard.gateway.registry import ModelEntry
from orchard.gateway.stream import EventStream
from orchard.gateway.worker import Worker

log = logging.getLogger("orchard.gateway.pool")

State = Literal["loading", "ready", "failed", "stopped"]


class Model:
    """A served model: its worker, if it has one, and the requests that wait for it to load."""

    def __init__(self, entry: ModelEntry, settings: Settings) -> None:
        self.entry = entry
        self.failure: str | None = None
        self._settings = settings
        self._worker: Worker | None = None
        self._run: asyncio.Task[None] | None = None
        self._pending: dict[str, tuple[Request, EventStream]] = {}
        self._closing = False

    @property
    def state(self) -> State:
        """`failed` and `stopped` models are loaded again by the next request."""
        if self._worker:
            return "ready" if self._worker.ready else "loading"
        return "failed" if self.failure else "stopped"

    def health(self) -> dict[str, Any]:
        """What GET /health says of this model."""
        worker = self._worker
        return {
            "state": self.state,
            "reason": self.failure,
            "pid": worker.pid if worker else None,
            "running": worker.running if worker else 0,
            "waiting": (worker.waiting if worker else 0) + len(self._pending),
        }

    async def cache(self, request_id: str | None = None) -> CacheState:
        """What the worker has cached, or its report on one request; nothing where none is ready.

        Raises OrchardError("unavailable") where it does not say so in time.
        """
        if self._worker and self._worker.ready:
            return await self._worker.cache(request_id)
        return CacheState()

    def start(self) -> None:
        """Begin to load, unless that is done or under way."""
        if self._worker is None:
            self._worker = Worker(self.entry, self._settings, self._changed)
            # A context of its own: what the worker's end logs belongs to no request.
            self._run = asyncio.create_task(self._worker.run(), context=contextvars.Context())

    def submit(self, request: Request, stream: EventStream) -> None:
        """Give the request to the worker, now or as soon as it is ready."""
        self.start()
        assert self._worker
        if self._worker.ready:
            self._worker.submit(request, stream)
            return
        self._pending[request.id] = (request, stream)
        stream.on_drop = lambda: self._forget(request.id)

    async def close(self) -> None:
        """End the worker and wait until it is gone."""
        self._closing = True
        if self._worker:
            self._worker.close()
        if self._run:
            await self._run

    def _changed(self, worker: Worker) -> None:
        if worker.ready:
            self.failure = None
            for request, stream in self._take_pending():
                worker.submit(request, stream)
            return
        self._worker = None
        if self._closing:
            return
        if worker.loaded:
            if self._pending:  # requests that came while the dead process was being seen off
                self.start()
            return
        self.failure = worker.failure or "the process died while it loaded the model"
        log.error("%s can't be loaded: %s", self.entry.id, self.failure)
        for _, stream in self._take_pending():
            stream.push([Failed("model_failed", f"model '{self.entry.id}' can't be loaded: {self.failure}")])

    def _forget(self, request_id: str) -> None:
        # Of requests that are merged, one that fails drops the others, which may have been taken out already.
        self._pending.pop(request_id, None)

    def _take_pending(self) -> list[tuple[Request, EventStream]]:
        pending, self._pending = self._pending, {}
        return list(pending.values())


class Pool:
    """All served models, by id."""

    def __init__(self, entries: Sequence[ModelEntry], settings: Settings) -> None:
        self.models = {entry.id: Model(entry, settings) for entry in entries}
        self._open: set[EventStream] = set()
        self._draining = False

    def start(self) -> None:
        """Begin to load every model."""
        for model in self.models.values():
            model.start()

    def find(self, name: str) -> Model:
        """Give the model of that name. Raises OrchardError("model_not_found")."""
        try:
            return self.models[name]
        except KeyError:
            names = ", ".join(f"'{known}'" for known in self.models)
            message = f"no model '{name}' here; this server has {names}"
            raise OrchardError("model_not_found", message, param="model") from None

    def open(self, *requests: Request) -> EventStream:
        """Begin a request, or several as one, and give the events; the caller closes the stream.

        Raises OrchardError if one of them can't begin.
        """
        if self._draining:
            raise OrchardError("shutting_down", "the server is shutting down", retry_after=5)
        models = [self.find(request.model) for request in requests]
        stream = EventStream()
        parts: Sequence[EventStream] = [stream]
        if len(requests) > 1:
            merge = Merge([request.generate.n for request in requests])
            stream, parts = merge.stream, merge.parts
        for model, request, part in zip(models, requests, parts, strict=True):
            model.submit(request, part)
        self._open.add(stream)
        return stream

    def release(self, stream: EventStream) -> None:
        """Close a stream that `open` gave."""
        stream.close()
        self._open.discard(stream)

    def drain(self, grace: float) -> None:
        """Refuse new requests from now on, and end those that still run after `grace` seconds."""
        self._draining = True
        asyncio.get_running_loop().call_later(grace, self._cut)

    def _cut(self) -> None:
        for stream in list(self._open):
            stream.close(Failed("shutting_down", "the server is shutting down", None, 5))

    async def close(self) -> None:
        """End every worker."""
        await asyncio.gather(*(model.close() for model in self.models.values()))
