"""The base of services whose models do one piece of work at a time, in their own thread."""

import asyncio
import contextlib
import logging
import traceback
from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from orchard.backends.service import Emit, Heartbeat, Progress, Service
from orchard.core.errors import OrchardError
from orchard.core.events import Event
from orchard.core.fair_queue import FairQueue, has_place
from orchard.core.request import Request
from orchard.device.memory import limit_device, recommended_bytes
from orchard.device.mlx_thread import MlxThread

log = logging.getLogger("orchard.worker")

T = TypeVar("T")


async def load_in_thread(thread: MlxThread, load: Callable[[Progress], T], progress: Progress) -> T:
    """Load a model in its thread and return it; each report of progress by `load` ends a piece of work.

    Raise OrchardError("model_failed", ...) with the reason.
    """
    loop = asyncio.get_running_loop()

    def advance(fraction: float) -> None:
        thread.advance()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(progress, fraction)

    def work() -> T:
        try:
            return load(advance)
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # the frames would keep the model alive
            raise

    try:
        return await thread.do(work)
    except OrchardError:
        raise
    except Exception as error:
        log.exception("loading failed")
        raise OrchardError("model_failed", f"the model can't be run: {type(error).__name__}: {error}") from error


class TurnRequest(Protocol):
    """A request that has not ended: whether it has begun, and whether it is paused for a slow reader."""

    request: Request
    begun: bool
    paused: bool


R = TypeVar("R", bound=TurnRequest)


class Turns:
    """Gives requests their turns, one after the other, in the order of `FairQueue`."""

    def __init__(self) -> None:
        self._waiting: FairQueue[tuple[str, asyncio.Future[None]]] = FairQueue()
        self._taken = False

    async def take(self, request: Request) -> None:
        """Wait for a request's turn; a request can't wait for two. The caller must call `give_back` after the turn."""
        if not self._taken:
            self._taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(request.id, (request.id, turn), request.priority, request.sender)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise
        finally:
            self._waiting.remove(request.id)

    def give_back(self) -> None:
        """Let the next request begin, after the request whose turn has ended could ask for another turn."""
        asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        for request_id, turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
                self._waiting.charge(request_id, 1)
                return
        self._taken = False


class TurnService(Service, Generic[R]):
    """Serves one model, whose requests take turns in the order of `FairQueue`."""

    _emit: Emit

    @staticmethod
    def prepare() -> int:
        """Return the bytes that the device lets models use. Importing the service has imported what a load needs."""
        return recommended_bytes()

    def __init__(self, memory_limit: int | None) -> None:
        """`memory_limit`: the bytes that the model and its requests may take; None: what is recommended."""
        self._memory_limit = memory_limit
        self._thread = MlxThread()
        self._live: dict[str, R] = {}
        self._queue: FairQueue[R] = FairQueue()
        """The requests that are not paused."""
        self._work: asyncio.Task[None] | None = None

    async def _load_model(self, load: Callable[[Progress], T], progress: Progress) -> T:
        """Load the model within the memory limit and return it; see `load_in_thread`. Raise OrchardError."""
        limit_device(self._memory_limit or recommended_bytes())
        return await load_in_thread(self._thread, load, progress)

    def pause(self, request_id: str) -> None:
        """Begin no further piece of a request until it is resumed. Unknown ids are ignored."""
        if request := self._live.get(request_id):
            request.paused = True
            self._queue.remove(request_id)

    def resume(self, request_id: str) -> None:
        """Continue a paused request. Unknown ids are ignored."""
        if request := self._live.get(request_id):
            if request.paused:
                request.paused = False
                self._wait(request)
            self._start_work()

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Limit MLX to `memory_bytes`."""
        limit_device(memory_bytes)

    def heartbeat(self) -> Heartbeat:
        """Return the signs of life; each call in the thread, and each sign that it gives, ends a piece of work."""
        return Heartbeat(self._thread.silent_seconds, self._thread.mlx_bytes)

    async def _cancel_work(self) -> None:
        """Work on no further piece, and wait for the end of the current one."""
        if self._work:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _free(self) -> None:
        """Free MLX's unused memory."""
        await self._thread.close()

    def _has_place(self, most: int, request: Request) -> bool:
        """Return whether a request may wait beside the others; see `has_place`."""
        callers = [live.request.sender.caller for live in self._live.values()]
        return has_place(most, callers, request.sender.caller)

    def _add(self, request: R) -> None:
        """Let a new request wait for its turns."""
        self._live[request.request.id] = request
        self._wait(request)

    def _wait(self, request: R) -> None:
        self._queue.add(request.request.id, request, request.request.priority, request.request.sender)

    def _forget(self, request_id: str) -> R | None:
        self._queue.remove(request_id)
        return self._live.pop(request_id, None)

    def _start_work(self) -> None:
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())

    @abstractmethod
    async def _run(self) -> None:
        """Work until no request has anything left to do."""

    def _tell(self, *events: tuple[str, list[Event]]) -> None:
        """Emit the events of requests, and how many requests have begun and how many wait."""
        running = sum(request.begun for request in self._live.values())
        self._emit([one for one in events if one[1]], running, len(self._live) - running)
