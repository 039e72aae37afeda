import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orchard.backends.text.service import TextService
from orchard.core.events import Collected, Event, Failed, Finished, Started, collect
from orchard.core.request import Request, Sender, Task
from orchard.core.tasks.text_options import TextOptions
from tests.support.engine_driver import wait_until_warm


class Caller:
    """Submits requests and waits for what is emitted."""

    def __init__(self, service: TextService) -> None:
        self.service = service
        self.events: dict[str, list[Event]] = {}
        self.numbers: list[tuple[int, int]] = [(0, 0)]
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def emit(self, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        for request_id, found in events:
            assert found, "nothing to tell is not told"
            self.events.setdefault(request_id, []).extend(found)
        self.numbers.append((running, waiting))
        task = asyncio.create_task(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, test: Any) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(test), 60)

    def submit(self, request_id: str, task: Task, caller: str = "") -> None:
        self.events[request_id] = []
        self.service.submit(Request(request_id, "tiny", task, sender=Sender(caller)))

    async def stream(self, request_id: str, task: Task) -> list[Event]:
        self.submit(request_id, task)
        await self.until(lambda: self.ended(request_id))
        events = self.events[request_id]
        assert not any(isinstance(event, Finished | Failed | Started) for event in events[1:-1])
        return events

    def ended(self, request_id: str) -> bool:
        events = self.events[request_id]
        return bool(events) and isinstance(events[-1], Finished | Failed)

    async def ask(self, request_id: str, task: Task) -> Collected:
        events = await self.stream(request_id, task)
        assert isinstance(events[0], Started | Failed)
        return collect(events)

    async def failure(self, request_id: str, task: Task) -> Failed:
        last = (await self.stream(request_id, task))[-1]
        assert isinstance(last, Failed)
        return last

    async def until_free(self) -> None:
        await self.until(lambda: self.numbers[-1] == (0, 0))


@asynccontextmanager
async def serving(
    folder: Path, kind: type[TextService] = TextService, *, warm: bool = False, **options: Any
) -> AsyncIterator[Caller]:
    """Serve the model in a folder. `warm`: once it is calibrated, so that rows share passes and tokens are proposed."""
    service = kind(str(folder), TextOptions(**options))
    caller = Caller(service)
    await service.start(caller.emit, lambda fraction: None)
    try:
        if warm:
            await asyncio.to_thread(wait_until_warm, service._engine)
        yield caller
    finally:
        await service.close(60.0)  # all of a cache is on disk then, however busy the machine is
