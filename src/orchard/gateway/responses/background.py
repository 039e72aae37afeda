"""Responses that run in the background, whether or not a client waits for them."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.encode import ResponseEncoder
from orchard.gateway.replies.event_stream import EventStream

_WAIT_SECONDS = 60.0
_CANCELLED = Failed("cancelled", "the response was cancelled")
_SEPARATOR = b"\n\n"


class Run:
    """A response that is being generated, with all its events so far.

    Until a client follows the events, the response may restart in another process if the first one dies.
    """

    def __init__(
        self,
        call: ResponseCall,
        begin: Callable[[], Awaitable[EventStream]],
        keep: Callable[[ResponseEncoder, bytes | None], Awaitable[OrchardError | None]],
        user: str | None,
    ) -> None:
        """Prepare a run: `begin` begins it, `keep` stores the response, with its events at the end; `user` owns it.

        `keep` returns the error if storing fails.
        """
        self.user = user
        self._call = call
        self._begin = begin
        self._keep = keep
        self._stream: EventStream | None = None
        self._reason: Failed | None = None
        self._followed = False
        self._over = False
        self._news = asyncio.Event()
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the response is stored for the first time, so that clients can use its id. Raises OrchardError."""
        self.task: asyncio.Task[None]
        """The task that runs `run`."""
        self._restart()

    @property
    def caller(self) -> str:
        """Who has asked for it: see `Sender`."""
        return self._call.request.sender.caller

    async def run(self) -> None:
        """Process events until the response has ended. Begin nothing if it can't be stored."""
        try:
            if error := await self._keep(self.encoder, None):
                self.stored.set_exception(error)
                return
            self.stored.set_result(None)
            await self._open()
            while not self.encoder.ended:
                assert self._stream
                await self._add_events(await self._stream.next(_WAIT_SECONDS))
        finally:
            if not self.stored.done():
                self.stored.set_exception(OrchardError("internal", "the response could not be stored"))
            if self._stream:
                self._stream.close()
            self._over = True
            self._tell([])

    async def stop(self, reason: Failed = _CANCELLED) -> None:
        """End the run, and wait until the response is stored; its events so far are kept."""
        self._reason = reason
        if self._stream:
            self._stream.close(reason)
        await asyncio.wait([self.task])

    async def _open(self) -> None:
        try:
            self._stream = await self._begin()
            self._stream.may_restart(None if self._followed else self._restart)
            failed = self._reason
        except OrchardError as error:
            failed = Failed.from_error(error)
        if failed:
            await self._add_events([failed])

    def _restart(self) -> None:
        self.encoder = ResponseEncoder(self._call)
        self._events = self.encoder.queued_events()

    async def _add_events(self, events: Sequence[Event]) -> None:
        told = self.encoder.encode_list(events)
        # Store it first, because a client that gets the end may continue the response at once.
        if self.encoder.ended and await self._keep(self.encoder, pack_events([*self._events, *told])):
            told[-1:] = [self.encoder.mark_unstored(end) for end in told[-1:]]  # a cancelled response has no last event
        self._tell(told)

    async def follow(self, after: int, keep_alive: float) -> AsyncIterator[bytes]:
        """Yield the events after number `after` as they arrive; empty bytes after `keep_alive` seconds without any."""
        shown = after + 1
        self._followed = True
        if self._stream:
            self._stream.may_restart(None)
        while True:
            if shown < len(self._events):
                told = self._events[shown:]
                shown += len(told)
                yield b"".join(told)
            elif self._over:
                return
            else:
                try:
                    async with asyncio.timeout(keep_alive):
                        await self._news.wait()
                except TimeoutError:
                    yield b""

    def _tell(self, data: list[bytes]) -> None:
        self._events += data
        self._news.set()
        self._news = asyncio.Event()


def pack_events(events: list[bytes]) -> bytes:
    """Return a complete stream in its stored form."""
    return zlib.compress(b"".join(events))


def unpack_events(packed: bytes, after: int) -> bytes:
    """Return a stored stream's events after the number `after`."""
    events = zlib.decompress(packed).removesuffix(_SEPARATOR).split(_SEPARATOR)
    return b"".join(event + _SEPARATOR for event in events[after + 1 :])
