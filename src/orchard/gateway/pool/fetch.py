"""The download of one model, for as long as somebody wants it."""

import asyncio
from collections.abc import Callable

from orchard.core.errors import OrchardError
from orchard.gateway.models.registry import ModelEntry, Registry


class Fetch:
    """At most one download at a time."""

    def __init__(self, registry: Registry, told: Callable[[], None], done: Callable[[ModelEntry | None], None]) -> None:
        """`told` is called when the note has changed, `done` at the end: with the model, unless it was cancelled."""
        self.note = "downloading"
        """How far it is."""
        self.failure: OrchardError | None = None
        """Why the last one failed."""
        self._registry = registry
        self._told = told
        self._done = done
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        return self._task is not None

    def begin(self, entry: ModelEntry) -> None:
        """Begin, unless one is under way."""
        if self._task is None:
            self.failure = None
            self._task = asyncio.create_task(self._run(entry))

    def cancel(self) -> None:
        """Nobody wants it any more."""
        if self._task:
            self._task.cancel()

    async def _run(self, entry: ModelEntry) -> None:
        fetched = None
        try:
            fetched = await self._registry.fetch(entry, self._tell)
        except OrchardError as error:
            self.failure = error
        finally:
            self._task = None
            self._done(fetched)

    def _tell(self, note: str) -> None:
        self.note = note
        self._told()
