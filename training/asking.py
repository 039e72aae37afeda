"""Ask the model in a folder many questions at once, in this process, with the service that would serve it."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from orchard.backends.text.service import TextService
from orchard.core.events import Event, Failed, Finished, collect
from orchard.core.request import Request
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.text_options import TextOptions

_AT_ONCE = 16


class _Caller:
    """Sends tasks to a service, several at once."""

    def __init__(self, service: TextService) -> None:
        self._service = service
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._ended: dict[str, asyncio.Future[None]] = {}
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._count = 0

    def emit(self, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        """Take what the service emits."""
        for name, found in events:
            self._events[name] += found
            if isinstance(found[-1], Finished | Failed):
                self._ended[name].set_result(None)

    async def ask(self, name: str, task: Generate) -> str:
        """Return the answer's text. Raise OrchardError if there is none."""
        async with self._free:
            self._ended[name] = asyncio.get_running_loop().create_future()
            self._service.submit(Request(name, "demo", task))
            await self._ended[name]
        self._count += 1
        if self._count % 100 == 0:
            print(f"{self._count} questions answered", file=sys.stderr, flush=True)
        return collect(self._events.pop(name)).choices[0].text


async def answers(kind: type[TextService], folder: Path, tasks: Sequence[Generate]) -> list[str]:
    """Load a folder with a kind of service, and return its answers' texts."""
    kind.prepare()
    service = kind(str(folder), TextOptions())
    caller = _Caller(service)
    try:
        await service.start(caller.emit, lambda fraction: None)
        return list(await asyncio.gather(*(caller.ask(str(i), task) for i, task in enumerate(tasks))))
    finally:
        await service.close(1.0)
