"""Make and store responses, while the caller waits or in the background."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec.structs import replace
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Event, Failed, Usage
from orchard.core.fair_queue import has_place
from orchard.core.tasks.generate import Count, count_droppable_messages, generate_task
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.encode import ResponseEncoder, compaction_body
from orchard.dialects.openai.responses.parse import Draft
from orchard.dialects.openai.responses.seal import Unseal, unseal, unseal_nothing
from orchard.gateway.caller import Caller
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_response import Encoder, EventResponse, not_stored_header, summary_header
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.responses.background import Run, unpack_events
from orchard.gateway.responses.stored import StoredCompletions, StoredConversations
from orchard.gateway.store import responses as store_responses
from orchard.gateway.store.database import DAMAGE
from orchard.gateway.store.items import Extent, Fields, Page, PageQuery
from orchard.gateway.store.media import KnownMedia, restore_item
from orchard.gateway.store.responses import RUNNING, Past, ResponseRecord
from orchard.gateway.store.side_files import Owner, SealKey
from orchard.gateway.store.store import ResponseStore, Transaction
from orchard.gateway.summarize import internal_request
from orchard.gateway.summarize.dropping import count_messages_to_drop, drop_messages
from orchard.gateway.summarize.overflow import Overflow
from orchard.gateway.voice.hearing import Hearing

log = logging.getLogger("orchard.gateway.responses.service")

P = ParamSpec("P")
T = TypeVar("T")

_SWEEP_SECONDS = 30.0
_COMPACTION = b'"compaction"'
_JSON = "application/json"
_SSE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_KEEP_ALIVE = b": keep-alive\n\n"
_LOST = "the server that ran this response ended before it was done, or could not store it"


class Responses:
    """The responses of one server: those that it makes, and those that it stores.

    Routes reach the store only through this.
    """

    def __init__(self, pool: Pool, settings: Settings, overflow: Overflow, hearing: Hearing) -> None:
        self.pool = pool
        self._hearing = hearing
        self.settings = settings
        self._overflow = overflow
        self._store = ResponseStore(settings)
        self._owner = Owner(self._store.file.path)
        self.conversations = StoredConversations(self.transact)
        self.completions = StoredCompletions(self.transact)
        self._seal_key = SealKey(self._store.file.path)
        self._runs: dict[str, Run] = {}
        self._gone_on_from: Counter[str] = Counter()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to delete expired responses."""
        self._sweeper = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """End background responses, and close the store."""
        if self._sweeper:
            self._sweeper.cancel()
        reason = Failed("shutting_down", "the server was shut down before this response was done")
        await asyncio.gather(*(run.stop(reason) for run in self._runs.values()))
        await self._call_store(self._store.file.close)
        self._thread.shutdown()
        self._owner.release()

    async def transact(
        self, function: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function of the store, in its thread and in a transaction. Raise OrchardError if it fails."""
        return await self._call_store(partial(self._store.run, function, *args, **kwargs))

    async def try_transact(
        self, function: Callable[Concatenate[Transaction, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> OrchardError | None:
        """Store an answer. Return the error if that fails, because the answer can still be sent."""
        try:
            await self.transact(function, *args, **kwargs)
        except OrchardError as error:
            return error
        return None

    @contextlib.contextmanager
    def hold_past(self, call: ResponseCall) -> Iterator[None]:
        """Keep the response or the conversation that a call continues in the store while the context lasts."""
        used = Counter(filter(None, [call.body.previous_response_id or call.body.conversation_id]))
        self._gone_on_from += used
        try:
            yield
        finally:
            self._gone_on_from -= used

    async def prepare(
        self, caller: Caller, draft: Draft, request_id: str, priority: str | None, past: Past | None = None
    ) -> ResponseCall:
        """Return the call with its media. `past` is what it continues; None: look it up. Raise OrchardError."""
        past = past or await self.load_past(caller, draft)
        # Count an item once for each reference, because each one makes a copy.
        referred = [past.referenced[id_] for id_ in draft.references if id_ in past.referenced]
        extent = Extent(len(referred), sum(map(len, referred)), 0)
        extent.check("what the request refers to", self.settings.max_body_bytes)
        given = any(item.type == "compaction" for item in draft.body.items)
        needed = given or any(_COMPACTION in item for item in past.items)
        unseal_item = await self.unsealer(needed)
        try:
            call = draft.make_call(request_id, priority, past.items, past.referenced, unseal_item)
        except DAMAGE as error:  # the request's own input has been checked
            message = "what this request continues is damaged and can't be read"
            raise OrchardError("unavailable", message) from error
        call = replace(call, request=caller.sign(call.request))
        if past.items:
            what = "what this request continues, with its input,"
            past.extent.plus(call.input).check(what, self.settings.max_body_bytes)
        heard = await self._hearing.resolve(call.request, caller, past.media)
        return replace(
            call,
            request=heard.request,
            transcriber=heard.transcriber,
            fetched_media=heard.fetched,
            stored_media=past.media,
        )

    async def count(self, caller: Caller, draft: Draft, request_id: str) -> int:
        """Return the number of tokens of a request's input. Raise OrchardError if it can't be counted."""
        call = await self.prepare(caller, draft, request_id, None)
        request = replace(call.request, task=Count(generate_task(call.request)))
        may_drop = call.may_drop and count_droppable_messages(generate_task(call.request))
        if not may_drop:  # otherwise an answer would drop messages, so the input may be too long
            request = self._overflow.limit_count(request)
        return await internal_request.count_tokens(self.pool, request)

    async def compact(self, caller: Caller, draft: Draft, request_id: str, priority: str | None) -> bytes:
        """Return a conversation with a summary in place of the assistant's items, as JSON. Raise OrchardError."""
        past = await self.load_past(caller, draft)
        call = await self.prepare(caller, draft, request_id, priority, past)
        if not any(message.role != "system" for message in generate_task(call.request).messages):
            raise OrchardError("invalid_request", "`input` is required: there is nothing to compact.", param="input")
        key = await self._call_store(self._seal_key.load)
        with self.hold_past(call):
            made = await self._overflow.summarise(call.request)
        used = Usage(made.prompt_tokens, made.completion_tokens)
        before = [restore_item(item, past.media) for item in past.items]
        if past.media:
            given = [msgspec.json.decode(restore_item(msgspec.json.encode(item), past.media)) for item in call.input]
            call = replace(call, input=given)
        return compaction_body(call, before, made.text, used, key)

    async def unsealer(self, needed: bool) -> Unseal:
        """Return the function that reads compaction items, if one is `needed`. Raise OrchardError."""
        return partial(unseal, key=await self._call_store(self._seal_key.load)) if needed else unseal_nothing

    async def answer(self, caller: Caller, call: ResponseCall, begin_form: "BeginForm | None" = None) -> Response:
        """Make a response, while the caller waits or in the background. Raise OrchardError if it can't begin.

        `begin_form` returns another dialect's form of a response for which the caller waits.
        """
        if call.body.background:
            run = await self._begin(caller, call)
            return self._follow(run) if call.body.stream else Response(run.encoder.body(), media_type=_JSON)
        with self.hold_past(call):
            stream = await self.open(call)
        if begin_form:
            return _AnswerInAnotherForm(self, stream, caller, call, begin_form)
        return _Answer(self, stream, caller, call)

    async def open(self, call: ResponseCall) -> EventStream:
        """Begin a response, and return its stream of events, which the caller closes. Raise OrchardError.

        If the caller allows it, drop the oldest messages, as few as possible, so that the request fits.
        """
        request = call.request
        if call.may_drop:
            request = drop_messages(request, await count_messages_to_drop(self.pool, request))
        return self._overflow.wrap(request, self.pool.stream(request))

    async def _begin(self, caller: Caller, call: ResponseCall) -> Run:
        """Make a response in the background. Raise OrchardError if it can't begin, or can't be stored."""
        await self._call_store(self._owner.hold)
        most = self.settings.responses_max_background
        if not has_place(most, [run.caller for run in self._runs.values()], caller.name):
            message = f"{most} responses run in the background already"
            raise OrchardError("overloaded", message, param="background", retry_after=5)
        begin, keep = partial(self.open, call), partial(self.keep, caller, call)
        run = Run(call, begin, keep, caller.user)
        with self.hold_past(call):
            self._runs[call.id] = run
            run.task = asyncio.create_task(run.run())
            run.task.add_done_callback(partial(self._end, call.id))
            await run.stored
        return run

    def _end(self, id_: str, task: asyncio.Task[None]) -> None:
        del self._runs[id_]
        if not task.cancelled() and (error := task.exception()):
            log.error("response %s broke", id_, exc_info=error)

    async def _stop(self, caller: Caller, id_: str) -> None:
        """End a background response if this server runs it, and wait until it is stored."""
        if run := self._find_run(caller, id_):
            await run.stop()

    async def keep(
        self, caller: Caller, call: ResponseCall, encoder: ResponseEncoder, events: bytes | None = None
    ) -> OrchardError | None:
        """Store a response in its current state, unless `store` is false, or the waiting caller has disconnected.

        Return the error if storing fails.
        """
        gone = encoder.error and encoder.error.kind == "cancelled" and not call.body.background
        if gone or call.body.store is False:
            return None
        owner = None if encoder.ended else self._owner.token
        media = KnownMedia(call.fetched_media, call.stored_media)
        record = ResponseRecord(encoder.response(), call.input, caller.user, owner, events, media)
        return await self.try_transact(store_responses.save_response, record)

    def _find_run(self, caller: Caller, id_: str) -> Run | None:
        """Return the run of a background response if this server runs it and the caller may see it."""
        run = self._runs.get(id_)
        return run if run and caller.can_see(run.user) else None

    async def load(self, caller: Caller, id_: str) -> bytes:
        """Return a response as JSON: the state of one that this server runs, else what is stored."""
        run = self._find_run(caller, id_)
        return run.encoder.body() if run else msgspec.json.encode(await self._load_ended(caller, id_))

    async def stream(self, caller: Caller, id_: str, after: int) -> Response:
        """Return the events after number `after` of a response that runs, or has run, in the background."""
        if run := self._find_run(caller, id_):
            return self._follow(run, after)
        packed = await self.transact(store_responses.load_events, caller, id_)
        if packed is None:
            message = f"response '{id_}' has no stream: only what runs in the background can be streamed later"
            raise OrchardError("invalid_request", message, param="stream")
        return Response(unpack_events(packed, after), headers=_SSE)

    def _follow(self, run: Run, after: int = -1) -> Response:
        events = run.follow(after, self.settings.keep_alive_interval)
        return StreamingResponse((told or _KEEP_ALIVE async for told in events), headers=_SSE)

    async def input_items(self, caller: Caller, id_: str, wanted: PageQuery) -> Page:
        """Return a page of the input items of a response, including those of the responses that it continues."""
        return await self.transact(store_responses.load_input_items, caller, id_, wanted)

    async def delete(self, caller: Caller, id_: str) -> None:
        """Delete a response; cancel it if it is running."""
        await self._stop(caller, id_)
        await self.transact(store_responses.delete_response, caller, id_)

    async def cancel(self, caller: Caller, id_: str) -> bytes:
        """Cancel a background response, and return it as JSON. One that has ended does not change."""
        await self._stop(caller, id_)
        found = await self._load_ended(caller, id_)
        if not found["background"]:
            message = f"response '{id_}' does not run in the background; only such responses can be cancelled"
            raise OrchardError("invalid_request", message)
        if found["status"] in RUNNING:
            message = f"response '{id_}' runs in another server, which can cancel it"
            raise OrchardError("invalid_request", message)
        return msgspec.json.encode(found)

    async def _load_ended(self, caller: Caller, id_: str) -> Fields:
        """Return a stored response that this server does not run.

        If it is stored as running, but its server has ended or could not store its end, mark it as failed.
        """
        found, owner = await self.transact(store_responses.load_response, caller, id_)
        if found["status"] in RUNNING:
            owner = owner or self._owner.token
            if owner == self._owner.token or not await self._call_store(partial(self._owner.lives, owner)):
                await self.transact(store_responses.fail_response, caller, id_, _LOST)
                found, _ = await self.transact(store_responses.load_response, caller, id_)
        return found

    async def _call_store(self, work: Callable[[], T]) -> T:
        self._store.in_use = frozenset(self._gone_on_from) | self._runs.keys()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def load_past(self, caller: Caller, draft: Draft) -> Past:
        """Return what a request continues. Raise OrchardError if it can't be read."""
        previous, conversation = draft.body.previous_response_id, draft.body.conversation_id
        if not (previous or conversation or draft.references):
            return Past([], {})
        return await self.transact(store_responses.load_past, caller, previous, conversation, draft.references)

    async def _sweep(self) -> None:
        while True:
            # Often enough to renew threads in use before they expire.
            await asyncio.sleep(min(_SWEEP_SECONDS, self.settings.responses_ttl / 2))
            with contextlib.suppress(OrchardError):
                await self._call_store(self._store.sweep)


class ResponseForm(Protocol):
    """Another dialect's form of a response, which is stored in OpenAI's. `response_id` is None if it is not stored."""

    def encode(self, new: Sequence[Event], /) -> bytes:
        """Return the server-sent events for the next events, without the last one of the stream."""
        ...

    def finish(self, response_id: str | None, /) -> bytes:
        """Return the last event of the stream."""
        ...

    def complete(self, response_id: str | None, /) -> bytes:
        """Return the body of a response that is not streamed."""
        ...

    @property
    def progress_seconds(self) -> float | None:
        """After so many seconds without events, the stream says how far it is; None: there is nothing to say."""
        ...

    async def report_progress(self) -> bytes:
        """Return the server-sent events that say how far the response is; empty if there is nothing new."""
        ...


BeginForm = Callable[[], ResponseForm]


class _Answer(EventResponse):
    """A response that is made while its caller waits. It is stored before its end is sent."""

    def __init__(self, responses: Responses, stream: EventStream, caller: Caller, call: ResponseCall) -> None:
        self._responses = responses
        self._caller = caller
        self._call = call
        self._encoder = ResponseEncoder(call)
        answer = self._encoder if call.body.stream else lambda _: self._encoder.body()
        super().__init__(stream, answer, responses.settings.keep_alive_interval)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        with self._responses.hold_past(self._call):
            await super().__call__(scope, receive, send)

    async def _complete_response(self, answer: Callable[[Collected], bytes]) -> Response:
        # Encode it like a stream, so that its items keep their order.
        self._stream.may_restart(self._restart)
        while not self._encoder.ended:
            self._encode(await self._stream.next(self._keep_alive))  # a restart replaces the encoder meanwhile
        if self._encoder.error:
            raise self._encoder.error
        headers = summary_header(self._encoder.summary)
        if error := await self._responses.keep(self._caller, self._call, self._encoder):
            self._encoder.mark_unstored(b"")
            headers |= not_stored_header(error)
        body = self._body(stored=not error and self._call.body.store is not False)
        return Response(body, headers=headers, media_type=_JSON)

    def _encode(self, new: Sequence[Event]) -> None:
        self._encoder.encode_list(new)

    def _body(self, *, stored: bool) -> bytes:
        return self._encoder.body()

    def _restart(self) -> None:
        self._encoder = ResponseEncoder(self._call)

    async def _finish_body(self, body: bytes) -> bytes:
        unkept = await self._responses.keep(self._caller, self._call, self._encoder)
        return self._encoder.mark_unstored(body) if unkept else body


class _AnswerInAnotherForm(_Answer):
    """The same, but its caller gets the response in another dialect's form."""

    def __init__(
        self, responses: Responses, stream: EventStream, caller: Caller, call: ResponseCall, begin_form: BeginForm
    ) -> None:
        super().__init__(responses, stream, caller, call)
        self._begin_form = begin_form
        self._form = begin_form()
        if call.body.stream:
            self._answer = _BothForms(self._encoder, self._form)

    def _encode(self, new: Sequence[Event]) -> None:
        super()._encode(new)
        self._form.encode(new)

    def _body(self, *, stored: bool) -> bytes:
        return self._form.complete(self._call.id if stored else None)

    def _restart(self) -> None:
        super()._restart()
        self._form = self._begin_form()

    def _wait_seconds(self) -> float:
        return min(self._keep_alive, self._form.progress_seconds or self._keep_alive)

    async def _pause_body(self, encoder: Encoder) -> bytes:
        return await self._form.report_progress() or await super()._pause_body(encoder)

    async def _finish_body(self, body: bytes) -> bytes:
        unkept = await self._responses.keep(self._caller, self._call, self._encoder)
        # Nothing goes on from a response that has failed.
        is_stored = not (unkept or self._encoder.error) and self._call.body.store is not False
        return body + self._form.finish(self._call.id if is_stored else None)


class _BothForms:
    """Encodes the events of a response in two forms, of which the caller gets the second."""

    def __init__(self, kept: ResponseEncoder, form: ResponseForm) -> None:
        self._kept = kept
        self._form = form

    def encode(self, new: Sequence[Event]) -> bytes:
        """Return the server-sent events of the second form."""
        self._kept.encode_list(new)
        return self._form.encode(new)
