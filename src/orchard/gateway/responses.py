"""Making responses, and keeping them: in the caller's presence, or in the background."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Scope

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Failed
from orchard.core.request import Count, Request
from orchard.dialects.openai_responses import Draft, ResponseCall, ResponseEncoder
from orchard.gateway import asking
from orchard.gateway.answer import EventResponse, summary_header
from orchard.gateway.failures import failure
from orchard.gateway.overflow import Overflow
from orchard.gateway.pool import Pool
from orchard.gateway.responses_background import Run, Runs
from orchard.gateway.store import Fields, Past, Record, Store
from orchard.gateway.store_owner import Owner
from orchard.gateway.stream import EventStream

P = ParamSpec("P")
T = TypeVar("T")

_SWEEP_SECONDS = 30.0
_LOST = "the server that ran this response ended before it was done, or could not store it"


class Responses:
    """One server's responses: those it makes, and those that are kept."""

    def __init__(self, pool: Pool, settings: Settings, overflow: Overflow) -> None:
        self._pool = pool
        self._settings = settings
        self._overflow = overflow
        path = os.path.expanduser(settings.responses_path)
        self._store = Store(
            path,
            ttl=settings.responses_ttl,
            max_bytes=settings.responses_max_bytes,
            archive=settings.responses_archive_dir,
        )
        self._owner = Owner(path)
        self._runs = Runs(settings.responses_max_background)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to throw away what expires."""
        self._sweeper = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """End what runs in the background, and close the store."""
        if self._sweeper:
            self._sweeper.cancel()
        await self._runs.close(Failed("shutting_down", "the server was shut down before this response was done"))
        await self._work(self._store.close)
        self._thread.shutdown()
        self._owner.release()

    async def kept(self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the store, in its thread. Raises OrchardError."""
        return await self._work(partial(method, self._store, *args, **kwargs))

    async def prepare(self, draft: Draft, request_id: str, priority: str | None) -> ResponseCall:
        """Look up what a request builds upon, and make the call. Raises OrchardError."""
        past = await self._past(draft)
        call = draft.call(request_id, priority, past.items, past.referenced)
        self._pool.find(call.request.model, call.request.adapter)
        return call

    async def count(self, draft: Draft, request_id: str) -> int:
        """Give the number of tokens that a request's input has. Raises OrchardError."""
        past = await self._past(draft)
        return await asking.count(self._pool, draft.count(request_id, past.items, past.referenced))

    async def answer(self, call: ResponseCall) -> Response:
        """Make a response in the caller's presence. Raises OrchardError if it can't begin."""
        request = await self._fitted(call)
        stream = self._overflow.open(request)
        return _Answer(self, self._pool, stream, call, self._settings.keep_alive_interval)

    async def begin(self, call: ResponseCall) -> Run:
        """Make a response in the background. Raises OrchardError if it can't begin."""
        await self._work(self._owner.hold)
        run = Run(self._pool, partial(ResponseEncoder, call), partial(self._begun, call), partial(self.keep, call))
        self._runs.start(call.id, run)
        return run

    async def stop(self, id_: str) -> None:
        """End the run of a response, where this server makes it, and wait until it is stored."""
        if self.run(id_):
            await self._runs.stop(id_)

    async def keep(self, call: ResponseCall, encoder: ResponseEncoder, events: bytes | None = None) -> None:
        """Store a response as it stands, unless its caller minds. Raises OrchardError."""
        if call.stored:
            owner = None if encoder.ended else self._owner.token
            record = Record(encoder.response(), call.input, owner, events)
            if await self.kept(Store.save, record):
                await self.kept(Store.sweep)

    def run(self, id_: str) -> Run | None:
        """Give the run of a response that this server makes in the background."""
        return self._runs.get(id_)

    async def settled(self, id_: str) -> Fields:
        """Give a stored response that this server does not run.

        It has failed where it still seems to run: the server that ran it is gone, or could not store its end.
        """
        found = await self.kept(Store.load, id_)
        owner = found.owner or self._owner.token
        if found.running and (owner == self._owner.token or not await self._work(partial(self._owner.lives, owner))):
            await self.kept(Store.fail, id_, _LOST)
            found = await self.kept(Store.load, id_)
        return found.response

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _past(self, draft: Draft) -> Past:
        if not (draft.previous or draft.conversation or draft.references):
            return Past([], {})
        return await self.kept(Store.past, draft.previous, draft.conversation, draft.references)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, self._settings.responses_ttl))
            with contextlib.suppress(OrchardError):
                await self.kept(Store.sweep)

    async def _begun(self, call: ResponseCall) -> EventStream:
        return self._overflow.open(await self._fitted(call))

    async def _fitted(self, call: ResponseCall) -> Request:
        """Drop as few of the oldest messages as it takes, where the caller allows that."""
        most = call.droppable()
        if not most or await self._fits(call, 0):
            return call.request
        least = 1
        while least < most:
            middle = (least + most) // 2
            if await self._fits(call, middle):
                most = middle
            else:
                least = middle + 1
        return call.without_oldest(most)

    async def _fits(self, call: ResponseCall, dropped: int) -> bool:
        request = call.without_oldest(dropped)
        window = self._pool.find(request.model, request.adapter).entry.context_window
        counted = replace(request, id=f"{request.id}-{dropped}", task=Count(request.generate))
        try:
            tokens = await asking.count(self._pool, counted)
        except OrchardError as error:
            if error.kind == "context_length_exceeded":
                return False
            raise
        return window is None or tokens < window


class _Answer(EventResponse):
    """A response that is made while its caller waits; it is stored before the caller sees its end."""

    def __init__(
        self, responses: Responses, pool: Pool, stream: EventStream, call: ResponseCall, keep_alive: float
    ) -> None:
        self._responses = responses
        self._call = call
        self._encoder = ResponseEncoder(call)
        super().__init__(pool, stream, self._encoder if call.body.stream else self._body, keep_alive)

    def _body(self, _: Collected) -> bytes:
        return self._encoder.body()

    async def _whole(self, answer: Callable[[Collected], bytes], scope: Scope) -> Response:
        # Written as a stream would be, so that its items stand in the order in which they came.
        turn = self._stream.turn
        while not self._encoder.ended:
            events = await self._stream.next(self._keep_alive)
            if turn != self._stream.turn:
                self._encoder, turn = ResponseEncoder(self._call), self._stream.turn
            self._encoder.each(events)
        if self._encoder.error:
            return failure(scope, self._encoder.error)
        await self._ending()
        headers = summary_header(self._encoder.summary)
        return Response(self._encoder.body(), headers=headers, media_type="application/json")

    async def _ending(self) -> None:
        gone = self._encoder.error and self._encoder.error.kind == "cancelled"
        if not gone:
            with contextlib.suppress(OrchardError):  # the answer is whole all the same; the log says what is wrong
                await self._responses.keep(self._call, self._encoder)
