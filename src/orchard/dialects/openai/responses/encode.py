"""Encode Responses: turn events into the events of the API, and into the response itself."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from orchard.core import events
from orchard.core.errors import FailureKind, OrchardError
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.output import Fields, overflow_fields
from orchard.dialects.openai.responses import output
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.errors import rename_param
from orchard.dialects.openai.responses.seal import seal
from orchard.dialects.openai.responses.tools import ServedTool

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

_ENCRYPTED_CONTENT = "reasoning.encrypted_content"
# OpenAI's codes for failed responses; all other failures are "server_error".
_CODES: dict[FailureKind, str] = {
    "context_length_exceeded": "context_length_exceeded",
    "invalid_request": "invalid_prompt",
    "overloaded": "rate_limit_exceeded",
}
# A compaction keeps messages of these roles; its summary covers everything.
_KEPT_ROLES = ("user", "system", "developer")
_json = msgspec.json.Encoder().encode


class ResponseEncoder:
    """Encodes one stream of events as the events of the API, and keeps the response up to date.

    An item is done before the next one is added, so only the last one is incomplete. The arguments of a call follow
    its start, with nothing in between.

    `ended` and `error` say whether and how the response ended; `summary` describes the summary of older messages. If
    the work is cancelled, the response becomes cancelled, but there is no event for that.
    """

    def __init__(self, call: ResponseCall) -> None:
        self._call = call
        self._status: ResponseStatus = "queued" if call.body.background else "in_progress"
        self._summarises = bool(call.fixed_fields["reasoning"]["summary"])
        self._sealed = _ENCRYPTED_CONTENT in (call.body.include or ())
        self._sequence = 0
        self._begun = False
        self._items: list[output.OutputItem] = []
        self._done: list[Fields] = []
        self._end: Fields = {}
        # The request's sampling parameters. The model's defaults are known only once the request has started.
        asked = {name: getattr(call.body, name) for name in events.SettledSampling.__struct_fields__}
        self._sampling = events.SettledSampling(**{name: value for name, value in asked.items() if value is not None})
        self._last = b""
        self.summary: events.Summary | None = None
        self.error: OrchardError | None = None
        self.ended = False

    def encode(self, new: Sequence[events.Event]) -> bytes:
        """Return the server-sent events for the next events; empty if there are none."""
        return b"".join(self.encode_list(new))

    def encode_list(self, new: Sequence[events.Event]) -> list[bytes]:
        """Return the server-sent events for the next events, as a list."""
        return [told for event in events.merge(new) for told in self._encode_event(event)]

    def queued_events(self) -> list[bytes]:
        """Return the events of a response that waits in the background."""
        return [*self._encode_creation(), self._encode_lifecycle("queued")]

    def response(self) -> Fields:
        """Return the response in its current state."""
        items = [*self._done, *(item.snapshot() for item in self._items[len(self._done) :])]
        rest = {"completed_at": None, "error": None, "incomplete_details": None, "usage": None}
        told = {**asdict(self._sampling), **rest, **overflow_fields(self.summary), **self._end}
        return {**self._call.fixed_fields, "status": self._status, **told, "output": items}

    def body(self) -> bytes:
        """Return the response in its current state as JSON."""
        return _json(self.response())

    def mark_unstored(self, told: bytes) -> bytes:
        """Return the end of the stream, in place of `told`, for a response that could not be stored."""
        self._end["store"] = False
        self._sequence -= 1
        return told.removesuffix(self._last) + self._encode_lifecycle(self._status)

    def _encode_event(self, event: events.Event) -> Iterator[bytes]:
        if isinstance(event, events.Started):
            self.summary, self._sampling = event.summary, event.sampling
        yield from self._encode_creation()
        if not self._begun and not (isinstance(event, events.Failed) and event.kind == "cancelled"):
            self._begun, self._status = True, "in_progress"
            yield self._encode_lifecycle("in_progress")
        match event:
            case events.Finished():
                yield from self._encode_finish(event)
            case events.Failed():
                yield from self._encode_failure(event)
            case _ if not self._call.body.warms_up:
                yield from self._encode_content(event)

    def _encode_creation(self) -> Iterator[bytes]:
        if not self._sequence:
            yield self._encode_lifecycle("created")

    def _encode_content(self, event: events.Event) -> Iterator[bytes]:
        item = self._items[-1] if self._items else None
        match event:
            case events.Text() if event.text or event.logprobs:
                if not isinstance(item, output.MessageItem):
                    item = output.MessageItem(self._new_id("msg"))
                    yield from self._open_item(item)
                yield from self._encode_item_events(item.add(event.text, event.logprobs))
            case events.Reasoning() if event.text:
                if not isinstance(item, output.ReasoningItem):
                    item = output.ReasoningItem(self._new_id("rs"), summary=self._summarises, sealed=self._sealed)
                    yield from self._open_item(item)
                yield from self._encode_item_events(item.add(event.text))
            case events.ToolStart():
                served = self._call.served_tools.get(event.name) or ServedTool("function", event.name)
                id_ = self._new_id("ctc" if served.kind == "custom" else "fc")
                yield from self._open_item(output.CallItem(id_, event.id, served))
            case events.ToolArgs() if event.json:
                assert isinstance(item, output.CallItem)
                yield from self._encode_item_events(item.add(event.json))

    def _encode_finish(self, event: events.Finished) -> Iterator[bytes]:
        cut, used = event.reasons == ("length",), event.usage
        if self._call.body.warms_up:
            # An empty answer is complete, and the single token that was generated doesn't count.
            cut, used = False, replace(used, completion_tokens=0, reasoning_tokens=0)
        else:
            said = any(not isinstance(item, output.ReasoningItem) for item in self._items)
            # A response without calls has a message, even an empty one, unless it was cut off during the reasoning.
            if not said and not (cut and self._items):
                yield from self._open_item(output.MessageItem(self._new_id("msg")))
            yield from self._close_item("incomplete" if cut else "completed")
        self._status = "incomplete" if cut else "completed"
        self._end = {"usage": output.response_usage(used, self.summary)}
        if cut:
            self._end["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self._end["completed_at"] = int(time.time())
        self.ended = True
        yield self._encode_lifecycle(self._status)

    def _encode_failure(self, event: events.Failed) -> Iterator[bytes]:
        self.error, self.ended = rename_param(event.error()), True
        if len(self._done) < len(self._items):
            self._items[-1].status = "incomplete"
        if event.kind == "cancelled":
            self._status = "cancelled"
            return
        self._status = "failed"
        told = openai_errors.openai_error_body(self.error)["error"]
        self._end = {"error": {"code": _CODES.get(event.kind, "server_error"), "message": told["message"]}}
        yield self._encode_sse("error", {"code": told["code"], "message": told["message"], "param": told["param"]})
        yield self._encode_lifecycle("failed")

    def _open_item(self, item: output.OutputItem) -> Iterator[bytes]:
        """Complete the current item, and begin the next one."""
        if self._items:
            yield from self._close_item("completed")
        place = len(self._items)
        self._items.append(item)
        yield self._encode_sse("response.output_item.added", {"output_index": place, "item": item.snapshot()})
        yield from self._encode_item_events(item.begin())

    def _close_item(self, status: Literal["completed", "incomplete"]) -> Iterator[bytes]:
        """End the current item. The last item of an answer that was cut off is incomplete."""
        place, item = len(self._items) - 1, self._items[-1]
        yield from self._encode_item_events(item.end())
        item.status = status
        self._done.append(item.snapshot())
        yield self._encode_sse("response.output_item.done", {"output_index": place, "item": self._done[-1]})

    def _encode_item_events(self, told: output.ItemEvents) -> Iterator[bytes]:
        about = {"item_id": self._items[-1].id, "output_index": len(self._items) - 1}
        for kind, fields in told:
            yield self._encode_sse(f"response.{kind}", about | fields)

    def _encode_lifecycle(self, kind: str) -> bytes:
        self._last = self._encode_sse(f"response.{kind}", {"response": self.response()})
        return self._last

    def _encode_sse(self, kind: str, fields: Fields) -> bytes:
        data = _json({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return escape_line_ends(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{self._call.hex}{len(self._items):02x}"


def token_count_body(tokens: int) -> bytes:
    """Return the response body with the number of tokens of an input."""
    return _json({"object": "response.input_tokens", "input_tokens": tokens})


def compaction_body(call: ResponseCall, past: Iterable[bytes], summary: str, used: events.Usage, key: bytes) -> bytes:
    """Return the body of a compaction: all messages except the assistant's, and one item with a summary of everything.

    `past` are the items before the request's input, `used` the tokens of the summary, `key` the key that signs it.
    https://platform.openai.com/docs/api-reference/responses/compact
    """
    items = [*map(msgspec.json.decode, past), *call.input]
    kept = [item for item in items if item["type"] == "message" and item["role"] in _KEPT_ROLES]
    compaction = {"id": f"cmp_{call.hex}00", "type": "compaction", "encrypted_content": seal(summary, key)}
    answer = {
        "id": call.id,
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*kept, compaction],
        "usage": output.response_usage(used),
    }
    return _json(answer)
