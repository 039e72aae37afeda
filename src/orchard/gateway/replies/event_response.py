"""Turn an event stream into an HTTP response, streamed or whole."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Event, Failed, Finished, Started, Summary
from orchard.gateway.replies.errors import error_response
from orchard.gateway.replies.event_stream import EventStream, collect_events
from orchard.gateway.replies.warnings import warning_header

VOICE_HEADER = "x-voice"
SUMMARY_HEADER = "x-orchard-summarized-messages"
DROP_HEADER = "x-orchard-dropped-messages"

_KEEP_ALIVE = b": keep-alive\n\n"
_GONE = Failed("cancelled", "the client closed the connection")
_SSE_TYPE = "text/event-stream; charset=utf-8"


class Encoder(Protocol):
    """A dialect's streaming form of one response."""

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the server-sent events, or what else the stream consists of, for these events."""
        ...


@runtime_checkable
class KeepsAlive(Protocol):
    """An encoder of a dialect that has its own keep-alive event."""

    def keep_alive(self) -> bytes:
        """Return the keep-alive event."""
        ...


@runtime_checkable
class WritesLines(Protocol):
    """An encoder whose stream is lines of a media type, such as JSON, and not server-sent events."""

    line_type: str

    def keep_alive(self) -> bytes:
        """Return what may stand before a line without changing it."""
        ...


class EventResponse(Response):
    """Answers with the events of `stream`. If the client disconnects, the request ends.

    The status waits for the first events, so that a request that fails before it has begun gets an error status. While
    there are no events, a streamed response gets a comment or the encoder's keep-alive event every `keep_alive`
    seconds; the first of these sends the status.
    """

    def __init__(
        self,
        stream: EventStream,
        answer: Encoder | Callable[[Collected], bytes],
        keep_alive: float,
        media_type: str = "application/json",
    ) -> None:
        """`media_type` is the content type of a non-streamed response."""
        super().__init__()
        self._whole_type = media_type
        self._stream = stream
        self._answer = answer
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        watch = asyncio.create_task(self._watch(receive))
        try:
            if callable(self._answer):
                try:
                    response = await self._complete_response(self._answer)
                except OrchardError as error:
                    response = error_response(scope, error)
                await response(scope, receive, send)
            else:
                await self._send_stream(self._answer, scope, receive, send)
        finally:
            watch.cancel()
            self._stream.close()

    async def _watch(self, receive: Receive) -> None:
        await wait_for_disconnect(receive)
        self._stream.close(_GONE)

    async def _complete_response(self, answer: Callable[[Collected], bytes]) -> Response:
        """Return the non-streamed response. Raise OrchardError if the request fails."""
        collected = await collect_events(self._stream)
        return Response(answer(collected), headers=summary_header(collected.summary), media_type=self._whole_type)

    async def _send_stream(self, encoder: Encoder, scope: Scope, receive: Receive, send: Send) -> None:
        events = await self._stream.next(self._wait_seconds())
        if events and isinstance(events[0], Failed):
            await error_response(scope, events[0].error())(scope, receive, send)
            return
        kind = encoder.line_type if isinstance(encoder, WritesLines) else _SSE_TYPE
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache"), *started_headers(events)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        more = True
        while more:
            body = encoder.encode(events) if events else await self._pause_body(encoder)
            more = not (events and isinstance(events[-1], Finished | Failed))
            if not more:
                body = await self._finish_body(body)
            await send({"type": "http.response.body", "body": body, "more_body": more})
            if more:
                events = await self._stream.next(self._wait_seconds())

    def _wait_seconds(self) -> float:
        """Return how long a stream waits for events before it sends something else."""
        return self._keep_alive

    async def _pause_body(self, encoder: Encoder) -> bytes:
        """Return the bytes that a stream sends while there are no events."""
        return _keep_alive_bytes(encoder, self._stream.waits_for())

    async def _finish_body(self, body: bytes) -> bytes:
        """Return the bytes of the end of a stream; subclasses first do what must precede the end."""
        return body


async def wait_for_disconnect(receive: Receive) -> None:
    """Return once the client has disconnected. The body of its request must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def summary_header(summary: Summary | None) -> dict[str, str]:
    """Return the header with the number of messages that a summary replaced, or that were dropped, if any."""
    return {DROP_HEADER if summary.dropped else SUMMARY_HEADER: str(summary.messages)} if summary else {}


def started_headers(events: Sequence[Event]) -> list[tuple[bytes, bytes]]:
    """Return the headers for a stream's first events: what a summary replaced, and the voice, percent-encoded."""
    if not events or not isinstance(started := events[0], Started):
        return []
    told = summary_header(started.summary) | ({VOICE_HEADER: quote(started.voice)} if started.voice else {})
    return [(name.encode(), value.encode()) for name, value in told.items()]


def not_stored_header(error: OrchardError) -> dict[str, str]:
    """Return the header that warns that an answer could not be stored."""
    return warning_header(f"not stored: {error.message}")


def _keep_alive_bytes(encoder: Encoder, note: str) -> bytes:
    """Return keep-alive bytes. In server-sent events, a comment says what the caller waits for."""
    if isinstance(encoder, WritesLines):
        return encoder.keep_alive()
    comment = f": {note}\n\n".encode() if note else b""
    return comment + encoder.keep_alive() if isinstance(encoder, KeepsAlive) else comment or _KEEP_ALIVE
