"""A kind of model as a new one would be added: a task, its result and its options, and the service that answers it."""

import asyncio
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Struct

from orchard.backends.service import Emit, Heartbeat, LoadResult, Progress, Service
from orchard.core.events import Failed, Finished, Output, Started, Usage
from orchard.core.request import LoadOptions, Request, Task
from orchard.core.setting import Positive, setting


class ToyEmbed(Task, frozen=True, tag="toy_embed"):
    """Make a vector of each text."""

    gives: ClassVar[str] = "toy vectors"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/toy/{name}/vectors",)
    unit: ClassVar[str] = "toys"

    texts: tuple[str, ...]


class ToyVector(Struct, frozen=True):
    """What a text becomes."""

    values: tuple[float, ...]


class ToyOptions(LoadOptions, frozen=True, kw_only=True):
    """How long the vectors are."""

    size: Annotated[Positive, setting("limits", "How long the vectors are.")] = 3


class ToyService(Service):
    """Makes vectors of the lengths of texts; the text `crash` ends its process."""

    @staticmethod
    def prepare() -> int:
        return 2**30

    def __init__(self, path: str, options: ToyOptions) -> None:
        self._size = options.size
        self._limit = options.memory_limit

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        self._emit = emit
        await asyncio.sleep(0)
        progress(1.0)
        return LoadResult(1000, {"size": str(self._size)})

    def submit(self, request: Request) -> None:
        task = request.task
        assert isinstance(task, ToyEmbed)
        if "crash" in task.texts:
            os.kill(os.getpid(), signal.SIGKILL)
        if not all(task.texts):
            self._emit([(request.id, [Failed("invalid_request", "a text is empty", "texts")])], 0, 0)
            return
        made = [
            Output.from_struct(ToyVector((float(len(text)),) * self._size), at) for at, text in enumerate(task.texts)
        ]
        tokens = sum(map(len, task.texts))
        self._emit([(request.id, [Started(tokens), *made, Finished((), Usage(tokens, 0, units=len(made) / 2))])], 0, 0)

    def cancel(self, request_id: str) -> None:
        pass

    def heartbeat(self) -> Heartbeat:
        return Heartbeat()

    async def close(self, save_seconds: float) -> None:
        pass


class IsolatedToyService(ToyService):
    """Tells which interpreter runs it and which packages that finds."""

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        loaded = await super().start(emit, progress)
        found = [name for name in ("fastapi", "mlx", "mlx_lm", "msgspec", "psutil") if find_spec(name)]
        return LoadResult(loaded.weights_bytes, {"prefix": Path(sys.prefix).name, "found": " ".join(found)})
