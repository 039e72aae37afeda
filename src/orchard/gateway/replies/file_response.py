"""Turn an event stream into an HTTP response whose body is a file, streamed while it is made."""

from typing import Protocol, runtime_checkable

from starlette.types import Receive, Scope, Send

from orchard.core.events import Event, Failed, Finished, Output
from orchard.gateway.replies.errors import error_response
from orchard.gateway.replies.event_response import Encoder, EventResponse, started_headers


@runtime_checkable
class WritesFile(Encoder, Protocol):
    """A dialect's encoder whose bytes are a file of this type."""

    media_type: str


class FileResponse(EventResponse):
    """Answers with the pieces of a file as they arrive. If the client disconnects, the request ends.

    The status waits for the first piece, because nothing may precede it. If the request fails later, the connection is
    closed before the end of the body, so that no client takes the file for a complete one.
    """

    async def _send_stream(self, encoder: Encoder, scope: Scope, receive: Receive, send: Send) -> None:
        assert isinstance(encoder, WritesFile)
        events: list[Event] = []
        while not any(isinstance(event, Output | Finished | Failed) for event in events):
            events += await self._stream.next(self._keep_alive)
        if isinstance(events[-1], Failed):
            await error_response(scope, events[-1].error())(scope, receive, send)
            return
        headers = [(b"content-type", encoder.media_type.encode()), (b"cache-control", b"no-cache")]
        headers += started_headers(events)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while not (events and isinstance(events[-1], Failed)):
            more = not (events and isinstance(events[-1], Finished))
            if body := encoder.encode(events):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if not more:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            events = await self._stream.next(self._keep_alive)
