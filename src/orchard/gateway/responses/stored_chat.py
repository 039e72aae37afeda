"""Chat completions that are stored before their end is sent."""

from collections.abc import Callable, Sequence

import msgspec
from starlette.responses import Response

from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Collector, Event, Failed
from orchard.dialects.openai.chat.encode import ChatCall, ChatEncoder
from orchard.dialects.openai.chat.stored import StoredRequest
from orchard.gateway.caller import Caller
from orchard.gateway.replies.event_response import EventResponse, not_stored_header, summary_header
from orchard.gateway.replies.event_stream import EventStream, collect_events
from orchard.gateway.responses.service import Responses
from orchard.gateway.store import completions as store_completions


class StoredChat(EventResponse):
    """Answers like any chat completion, and stores the answer with its request."""

    def __init__(
        self, responses: Responses, stream: EventStream, caller: Caller, call: ChatCall, asked: StoredRequest
    ) -> None:
        self._responses = responses
        self._caller = caller
        self._call = call
        self._asked = asked
        self._gathering = _GatheringEncoder(call)
        answer = self._gathering if call.stream else call.complete
        super().__init__(stream, answer, responses.settings.keep_alive_interval)

    async def _complete_response(self, answer: Callable[[Collected], bytes]) -> Response:
        collected = await collect_events(self._stream)
        completion = self._call.completion(collected) | {"metadata": self._asked.metadata}
        headers = summary_header(collected.summary)
        if unkept := await self._store_completion(completion):
            completion["store"] = False
            headers |= not_stored_header(unkept)
        return Response(msgspec.json.encode(completion), headers=headers, media_type="application/json")

    async def _finish_body(self, body: bytes) -> bytes:
        completion = self._gathering.completion()
        return (
            self._gathering.encoder.mark_unstored(body)
            if completion and await self._store_completion(completion)
            else body
        )

    async def _store_completion(self, completion: dict[str, object]) -> OrchardError | None:
        """Store the answer; return the error if that fails."""
        stored = self._asked.stored_completion(completion, self._call.request.id)
        messages = self._asked.message_list(self._call.completion_id)
        return await self._responses.try_transact(store_completions.save_completion, self._caller, stored, messages)


class _GatheringEncoder:
    """Encodes a stream, and collects its events."""

    def __init__(self, call: ChatCall) -> None:
        self.encoder = ChatEncoder(call)
        self._call = call
        self._collector = Collector()

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the server-sent events for the next events."""
        if not isinstance(events[-1], Failed):
            self._collector.add(events)
        return self.encoder.encode(events)

    def completion(self) -> dict[str, object] | None:
        """Return the whole answer; None unless the stream has finished."""
        result = self._collector.result
        return self._call.completion(result, self.encoder.created) if result else None
