"""The download of one model, for as long as somebody wants it."""

import asyncio
from collections.abc import Callable

from orchard.core.errors import OrchardError
from orchard.gateway.models.registry import ModelEntry, Registry


class Fetch:
    """At most one download at a time."""

    def __init__(self, registry: Registry, done: Callable[[ModelEntry | None], None]) -> None:
        """`done` is called at the end: with the model, unless the download was cancelled or failed."""
        self.note = "downloading"
        """The progress of the download, in a few words."""
        self.failure: OrchardError | None = None
        """Why the last one failed."""
        self._registry = registry
        self._done = done
        self._task: asyncio.Task[ModelEntry] | None = None

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        return self._task is not None

    def begin(self, entry: ModelEntry) -> None:
        """Begin, unless one is under way."""
        if self._task is None:
            self.failure = None
            self._task = asyncio.create_task(self._registry.fetch(entry, self._tell))
            self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """End it, if it is under way."""
        if self._task:
            self._task.cancel()

    def _end(self, task: asyncio.Task[ModelEntry]) -> None:
        # Not the end of a coroutine, which has none where it is cancelled before it has begun.
        self._task = fetched = None
        try:
            fetched = task.result()
        except OrchardError as error:
            self.failure = error
        except asyncio.CancelledError:
            pass
        finally:
            self._done(fetched)

    def _tell(self, note: str) -> None:
        self.note = note
