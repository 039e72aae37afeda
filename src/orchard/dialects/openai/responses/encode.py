"""OpenAI's Responses: a body becomes a `Request`, events become those of the API, and the response itself."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from orchard.core.errors import FailureKind, OrchardError
from orchard.core.events import (
    Event,
    Failed,
    Finished,
    Reasoning,
    Started,
    Summary,
    Text,
    ToolArgs,
    ToolStart,
    merge,
)
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, generation
from orchard.dialects.common.fields import PRIORITY_HEADER, decode_for
from orchard.dialects.common.json_body import decode
from orchard.dialects.common.output import escape_line_ends, overflow
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.errors import in_own_words
from orchard.dialects.openai.responses.output import (
    CallItem,
    Fields,
    MessageItem,
    OutputItem,
    ReasoningItem,
    Told,
    response_usage,
)
from orchard.dialects.openai.responses.parse import (
    SEALED,
    assumed_sampling,
    check,
    droppable,
    items_of,
    references,
    settings_of,
    translate,
    warms_up,
    without_oldest,
)
from orchard.dialects.openai.responses.schema import DeploymentBody, body_schema
from orchard.dialects.openai.responses.seal import Unseal, unknown
from orchard.dialects.openai.responses.stored import normalised
from orchard.dialects.openai.responses.tools import Served

__all__ = [
    "PRIORITY_HEADER",
    "DeploymentBody",
    "Draft",
    "ResponseCall",
    "ResponseEncoder",
    "body_schema",
    "counted",
    "draft_of",
    "read",
]

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

# OpenAI's words for why a response failed; all others are "server_error".
_CODES: dict[FailureKind, str] = {
    "context_length_exceeded": "context_length_exceeded",
    "invalid_request": "invalid_prompt",
    "overloaded": "rate_limit_exceeded",
}
_NULL = Raw(b"null")
# What the API has in each tool and each form of a text of a type, and callers may leave out.
_REQUIRED: dict[str, Fields] = {
    "function": {"description": None, "parameters": None, "strict": False},
    "json_schema": {"description": None, "strict": False},
}


class _RawText(Struct):
    format: dict[str, Raw] | None = None


class _RawBody(Struct):
    """What a response repeats as it came."""

    input: str | list[Fields] | None = None
    tools: list[dict[str, Raw]] | None = None
    tool_choice: Raw = _NULL
    text: _RawText | None = None


_decoder = msgspec.json.Decoder(wire.Body)
_deployment_decoder = msgspec.json.Decoder(wire.DeploymentBody)
_tools_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_raw_decoder = msgspec.json.Decoder(_RawBody)
_items_decoder = msgspec.json.Decoder(list[wire.Item])
_item_decoder = msgspec.json.Decoder(wire.Item)
_json = msgspec.json.Encoder().encode


def read(body: bytes, model: str | None = None, default: str | None = None) -> "Draft":
    """Read the body of a request; `model` goes before the body's, and `default` stands in where neither is given.

    Raises OrchardError (invalid_request), its `param` naming the field to blame.
    """
    return draft_of(decode_for(model, body, _decoder, _deployment_decoder, default), body)


def draft_of(decoded: wire.Body, body: bytes) -> "Draft":
    """Check a decoded body, and keep what a response repeats of it. Raises OrchardError (invalid_request)."""
    check(decoded)
    return Draft(decoded, decode(_raw_decoder, body), references(items_of(decoded)))


class Draft(Struct, frozen=True):
    """A decoded body. What it builds upon must be looked up before it can be a call.

    `references`: the ids of the stored items that the input refers to.
    """

    body: wire.Body
    raw: _RawBody
    references: list[str]

    @property
    def previous(self) -> str | None:
        """The id of the response that this one goes on from."""
        return self.body.previous_response_id

    @property
    def conversation(self) -> str | None:
        """The id of the conversation that this response belongs to."""
        return _conversation(self.body)

    @property
    def compacted(self) -> bool:
        """Whether the input holds a compaction item."""
        return any(item.type == "compaction" for item in items_of(self.body))

    def call(
        self,
        request_id: str,
        header: str | None = None,
        past: Sequence[bytes] = (),
        referenced: Mapping[str, bytes] | None = None,
        unseal: Unseal = unknown,
    ) -> "ResponseCall":
        """Make the call. `past`: the items of the conversation so far, as JSON; `referenced`: those referred to, by id.

        `header`: the priority that the request's header gives. `unseal` reads compaction items. Raises OrchardError
        (invalid_request).
        """
        found = {id_: _item_decoder.decode(item) for id_, item in (referenced or {}).items()}
        past_items = _items_decoder.decode(b"[" + b",".join(past) + b"]")
        request, box = translate(self.body, past_items, found, request_id, header=header, unseal=unseal)
        hex_id = request_id.removeprefix("req_").replace("-", "")
        return ResponseCall(
            request=request,
            body=self.body,
            hex=hex_id,
            served=box.served,
            about=self._about(f"resp_{hex_id}"),
            input=normalised(self.raw.input, hex_id, referenced or {}, past_items),
        )

    def _about(self, response_id: str) -> Fields:
        text = self.raw.text or _RawText()
        verbosity = self.body.text.verbosity if self.body.text else None
        form = _repeated(text.format) if text.format else {"type": "text"}
        return {
            "id": response_id,
            "object": "response",
            "created_at": int(time.time()),
            "model": self.body.model,
            "conversation": {"id": self.conversation} if self.conversation else None,
            "text": {"format": form, "verbosity": verbosity or "medium"},
            "tool_choice": _given(self.raw.tool_choice, "auto"),
            "tools": [_repeated_tool(tool) for tool in self.raw.tools or ()],
            **settings_of(self.body),
        }


def _conversation(body: wire.Body) -> str | None:
    named = body.conversation
    return named.id if isinstance(named, wire.ConversationName) else named


def _given(raw: Raw, otherwise: Any) -> Any:
    """Repeat what was given, on one line: a line's end would cut an event."""
    return otherwise if bytes(raw) == b"null" else Raw(msgspec.json.format(bytes(raw), indent=-1))


def _repeated(raw: Mapping[str, Raw]) -> Fields:
    """Repeat a tool, or the form of a text, as it was given; what the API requires of it is filled in."""
    filled = _REQUIRED.get(msgspec.json.decode(raw.get("type", _NULL)), {})
    return filled | {name: _given(value, filled.get(name)) for name, value in raw.items()}


def _repeated_tool(raw: Mapping[str, Raw]) -> Fields:
    """Repeat a tool; a namespace holds others."""
    told = _repeated(raw)
    if told.get("tools"):
        told["tools"] = [_repeated(tool) for tool in _tools_decoder.decode(raw["tools"])]
    return told


class ResponseCall(Struct, frozen=True):
    """A request to create a response. `about`: what stays the same of it; `input`: its input's items, to be stored."""

    request: Request
    body: wire.Body
    hex: str
    served: Mapping[str, Served]
    about: Fields
    input: list[Fields]

    @property
    def id(self) -> str:
        """The id of the response."""
        response_id: str = self.about["id"]
        return response_id

    @property
    def goes_on_from(self) -> str | None:
        """The id of the response or the conversation that this response goes on from."""
        return self.body.previous_response_id or _conversation(self.body)

    @property
    def count(self) -> Request:
        """The request that counts the tokens of the input."""
        return replace(self.request, task=Count(generation(self.request)))

    @property
    def stored(self) -> bool:
        """Whether the response is to be kept."""
        return self.body.store is not False

    @property
    def warms_up(self) -> bool:
        """Whether only the prompt is to be cached: the answer is empty."""
        return warms_up(self.body)

    def droppable(self) -> int:
        """Give how many of the oldest messages may be dropped where the input doesn't fit."""
        return droppable(generation(self.request)) if self.body.truncation == "auto" else 0

    def without_oldest(self, count: int) -> Request:
        """Give the request without so many of its oldest messages."""
        return without_oldest(self.request, count)


class ResponseEncoder:
    """Turns one stream of events into those of the API, and keeps the response up to date.

    An item is done before the next one is added, so the last is the one that is being written. The arguments of a call
    follow its start, with nothing in between.

    `ended` and `error` tell how it stands, `summary` what took the place of older messages. Where the work was
    cancelled, so is the response, and no event tells of it.
    """

    def __init__(self, call: ResponseCall) -> None:
        self._call = call
        self._status: ResponseStatus = "queued" if call.body.background else "in_progress"
        self._summarises = bool(call.about["reasoning"]["summary"])
        self._sealed = SEALED in (call.body.include or ())
        self._sequence = 0
        self._told: Literal["nothing", "created", "in_progress"] = "nothing"
        self._items: list[OutputItem] = []
        self._done: dict[int, Fields] = {}
        self._end: Fields = {}
        self._sampling = assumed_sampling(call.body)
        self._last = b""
        self.summary: Summary | None = None
        self.error: OrchardError | None = None
        self.ended = False

    def encode(self, events: Sequence[Event]) -> bytes:
        """Write the next events of the stream as server-sent events; empty where they show nothing."""
        return b"".join(self.each(events))

    def each(self, events: Sequence[Event]) -> list[bytes]:
        """Write the next events of the stream, each server-sent event for itself."""
        return [told for event in (events if len(events) == 1 else merge(events)) for told in self._event(event)]

    def queued(self) -> list[bytes]:
        """Tell of a response that waits in the background."""
        return [*self._created(), self._lifecycle("queued")]

    def response(self) -> Fields:
        """Give the response as it stands."""
        output = [self._done.get(i) or item.snapshot("in_progress") for i, item in enumerate(self._items)]
        rest = {"completed_at": None, "error": None, "incomplete_details": None, "usage": None}
        told = {**asdict(self._sampling), **rest, **overflow(self.summary), **self._end}
        return {**self._call.about, "status": self._status, **told, "output": output}

    def body(self) -> bytes:
        """Give the response as JSON."""
        return _json(self.response())

    def unstored(self, told: bytes) -> bytes:
        """Return the end of the stream anew, `told` so far: the response was to be stored and could not be."""
        self._end["store"] = False
        self._sequence -= 1
        return told.removesuffix(self._last) + self._lifecycle(self._status)

    def _event(self, event: Event) -> Iterator[bytes]:
        if isinstance(event, Started):
            self.summary, self._sampling = event.summary, event.sampling
        yield from self._created()
        if self._told == "created" and not (isinstance(event, Failed) and event.kind == "cancelled"):
            self._told, self._status = "in_progress", "in_progress"
            yield self._lifecycle("in_progress")
        match event:
            case Text() | Reasoning() | ToolStart() | ToolArgs() if self._call.warms_up:
                pass
            case Text() if event.text or event.logprobs:
                yield from self._text(event)
            case Reasoning() if event.text:
                yield from self._reasoning(event)
            case ToolStart():
                yield from self._tool_start(event)
            case ToolArgs() if event.json:
                yield from self._tool_args(event)
            case Finished():
                yield from self._finished(event)
            case Failed():
                yield from self._failed(event)

    def _created(self) -> Iterator[bytes]:
        if self._told == "nothing":
            self._told = "created"
            yield self._lifecycle("created")

    def _text(self, event: Text) -> Iterator[bytes]:
        item = self._items[-1] if self._items else None
        if not isinstance(item, MessageItem):
            item = MessageItem(self._id("msg"))
            yield from self._open(item)
        yield from self._of_last(item.add(event.text, event.logprobs))

    def _reasoning(self, event: Reasoning) -> Iterator[bytes]:
        item = self._items[-1] if self._items else None
        if not isinstance(item, ReasoningItem):
            item = ReasoningItem(self._id("rs"), summary=self._summarises, sealed=self._sealed)
            yield from self._open(item)
        yield from self._of_last(item.add(event.text))

    def _tool_start(self, event: ToolStart) -> Iterator[bytes]:
        served = self._call.served.get(event.name) or Served("function", event.name)
        yield from self._open(CallItem(self._id("ctc" if served.kind == "custom" else "fc"), event.id, served))

    def _tool_args(self, event: ToolArgs) -> Iterator[bytes]:
        item = self._items[-1]
        assert isinstance(item, CallItem)
        yield from self._of_last(item.add(event.json))

    def _finished(self, event: Finished) -> Iterator[bytes]:
        cut, used = event.reasons == ("length",), event.usage
        if self._call.warms_up:
            # Nothing was asked for, so nothing is missing, and the token that it took is nobody's.
            cut, used = False, replace(used, completion_tokens=0, reasoning_tokens=0)
        else:
            yield from self._end_output(cut)
        self._status = "incomplete" if cut else "completed"
        self._end = {"usage": response_usage(used, self.summary)}
        if cut:
            self._end["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self._end["completed_at"] = int(time.time())
        self.ended = True
        yield self._lifecycle(self._status)

    def _end_output(self, cut: bool) -> Iterator[bytes]:
        said = any(not isinstance(item, ReasoningItem) for item in self._items)
        # A response says something, be it nothing; but one that was cut off may have come to its thoughts only.
        if not said and not (cut and self._items):
            yield from self._open(MessageItem(self._id("msg")))
        yield from self._close("incomplete" if cut else "completed")

    def _failed(self, event: Failed) -> Iterator[bytes]:
        self.error, self.ended = in_own_words(event.error()), True
        for place, item in enumerate(self._items):
            self._done.setdefault(place, item.snapshot("incomplete"))
        if event.kind == "cancelled":
            self._status = "cancelled"
            return
        self._status = "failed"
        told = openai_errors.error_body(self.error)["error"]
        self._end = {"error": {"code": _CODES.get(event.kind, "server_error"), "message": told["message"]}}
        yield self._write("error", {"code": told["code"], "message": told["message"], "param": told["param"]})
        yield self._lifecycle("failed")

    def _open(self, item: OutputItem) -> Iterator[bytes]:
        """End the item that is being written, and begin the next."""
        if self._items:
            yield from self._close("completed")
        place = len(self._items)
        self._items.append(item)
        yield self._write("response.output_item.added", {"output_index": place, "item": item.snapshot("in_progress")})
        yield from self._of_last(item.begin())

    def _close(self, status: Literal["completed", "incomplete"]) -> Iterator[bytes]:
        """End the item that is being written; the last one of an answer that was cut off is incomplete."""
        place, item = len(self._items) - 1, self._items[-1]
        yield from self._of_last(item.end())
        self._done[place] = item.snapshot(status)
        yield self._write("response.output_item.done", {"output_index": place, "item": self._done[place]})

    def _of_last(self, told: Told) -> Iterator[bytes]:
        about = {"item_id": self._items[-1].id, "output_index": len(self._items) - 1}
        for kind, fields in told:
            yield self._write(f"response.{kind}", about | fields)

    def _lifecycle(self, kind: str) -> bytes:
        self._last = self._write(f"response.{kind}", {"response": self.response()})
        return self._last

    def _write(self, kind: str, fields: Fields) -> bytes:
        data = _json({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return escape_line_ends(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._call.hex}{len(self._items):02x}"


def counted(tokens: int) -> bytes:
    """Give the body that says how many tokens an input has."""
    return _json({"object": "response.input_tokens", "input_tokens": tokens})
