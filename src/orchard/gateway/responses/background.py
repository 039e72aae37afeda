"""Responses that run in the background, whether or not anybody waits for them."""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set

from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed
from orchard.dialects.openai.responses.encode import ResponseEncoder
from orchard.gateway.replies.event_stream import EventStream

log = logging.getLogger("orchard.gateway.responses.service")

_WAIT_SECONDS = 60.0
_CANCELLED = Failed("cancelled", "the response was cancelled")
_SEPARATOR = b"\n\n"


class Run:
    """One response that is being made, with all its events so far.

    Until somebody follows them it may begin again, in another process, if the first one dies.
    """

    def __init__(
        self,
        encoder: Callable[[], ResponseEncoder],
        begin: Callable[[], Awaitable[EventStream]],
        keep: Callable[[ResponseEncoder, bytes | None], Awaitable[None]],
        user: str | None,
    ) -> None:
        """Prepare a run: `begin` begins it, `keep` stores the response, with its events at the end; `user` owns it."""
        self.user = user
        self.encoder = encoder()
        self._make_encoder = encoder
        self._begin = begin
        self._keep = keep
        self._stream: EventStream | None = None
        self._reason: Failed | None = None
        self._events = self.encoder.queued()
        self._followed = False
        self._over = False
        self._news = asyncio.Event()
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the response is stored for the first time: only then its id is known. Raises OrchardError."""

    async def make(self) -> None:
        """Take events until the response has ended; begin nothing if it can't be stored."""
        try:
            if not await self._begin_stored():
                return
            await self._open()
            while not self.encoder.ended:
                assert self._stream
                await self._go_on(await self._stream.next(_WAIT_SECONDS))
        finally:
            if self._stream:
                self._stream.close()
            self._over = True
            self._tell([])

    def stop(self, reason: Failed = _CANCELLED) -> None:
        """End it; its events so far stay."""
        self._reason = reason
        if self._stream:
            self._stream.close(reason)

    async def _begin_stored(self) -> bool:
        try:
            await self._keep(self.encoder, None)
        except OrchardError as error:
            self.stored.set_exception(error)
            return False
        except Exception:
            self.stored.set_exception(OrchardError("internal", "the response could not be stored"))
            raise
        self.stored.set_result(None)
        return True

    async def _open(self) -> None:
        try:
            self._stream = await self._begin()
            self._stream.may_restart(None if self._followed else self._begin_anew)
            if self._reason is None:
                return
            failed = self._reason
        except OrchardError as error:
            failed = Failed.of(error)
        await self._go_on([failed])

    def _begin_anew(self) -> None:
        self.encoder = self._make_encoder()
        self._events = self.encoder.queued()

    async def _go_on(self, events: Sequence[Event]) -> None:
        told = self.encoder.each(events)
        if self.encoder.ended:
            # Stored first: a client that sees the end may continue from the response at once.
            try:
                await self._keep(self.encoder, pack([*self._events, *told]))
            except OrchardError:  # logged by the store
                told[-1:] = [self.encoder.unstored(end) for end in told[-1:]]  # a cancelled one has no last event
        self._tell(told)

    async def follow(self, after: int, keep_alive: float) -> AsyncIterator[bytes]:
        """Yield the events after that number, as they come; empty bytes if there is none for `keep_alive` seconds."""
        shown = after + 1
        self._followed = True
        if self._stream:
            self._stream.may_restart(None)
        while True:
            news = self._news
            if shown < len(self._events):
                told = self._events[shown:]
                shown += len(told)
                yield b"".join(told)
            elif self._over:
                return
            else:
                try:
                    async with asyncio.timeout(keep_alive):
                        await news.wait()
                except TimeoutError:
                    yield b""

    def _tell(self, told: list[bytes]) -> None:
        self._events += told
        self._news.set()
        self._news = asyncio.Event()


class Runs:
    """All responses that this server runs in the background, by id."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[str, tuple[Run, asyncio.Task[None]]] = {}

    def start(self, id_: str, run: Run) -> None:
        """Begin a run. Raise OrchardError ("overloaded") if there are too many."""
        if len(self._runs) >= self._most:
            message = f"{self._most} responses run in the background already"
            raise OrchardError("overloaded", message, param="background", retry_after=5)
        task = asyncio.create_task(run.make())
        self._runs[id_] = run, task
        task.add_done_callback(lambda done: self._end(id_, done))

    @property
    def ids(self) -> Set[str]:
        """The ids of all."""
        return self._runs.keys()

    def get(self, id_: str) -> Run | None:
        """Return a run that has not ended; None if there is none."""
        run, _ = self._runs.get(id_, (None, None))
        return run

    async def stop(self, id_: str) -> None:
        """End a run, and wait until it is stored."""
        run, task = self._runs[id_]
        run.stop()
        await asyncio.wait([task])

    async def close(self, reason: Failed) -> None:
        """End all of them, and wait until they are stored."""
        tasks = [task for _, task in self._runs.values()]
        for run, _ in list(self._runs.values()):
            run.stop(reason)
        if tasks:
            await asyncio.wait(tasks)

    def _end(self, id_: str, task: asyncio.Task[None]) -> None:
        del self._runs[id_]
        if not task.cancelled() and (error := task.exception()):
            log.error("response %s broke", id_, exc_info=error)


def pack(events: list[bytes]) -> bytes:
    """Return a whole stream in the form in which it is stored."""
    return zlib.compress(b"".join(events))


def unpack(packed: bytes, after: int) -> bytes:
    """Return a stored stream's events after that number."""
    events = zlib.decompress(packed).removesuffix(_SEPARATOR).split(_SEPARATOR)
    return b"".join(event + _SEPARATOR for event in events[after + 1 :])
