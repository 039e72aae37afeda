"""How answers look, streamed and whole."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from orchard.core.errors import OrchardError
from orchard.core.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Reasoning,
    Started,
    Text,
    ToolArgs,
    ToolStart,
    Usage,
    collect,
)
from orchard.dialects.anthropic.messages.encode import MessagesCall, MessagesEncoder, token_count
from orchard.dialects.anthropic.messages.parse import parse
from tests.support.examples import examples
from tests.support.streams import lawful_streams

USAGE = Usage(5, 7, 2, 3)
USAGE_BODY = {
    "input_tokens": 2,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 3,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 2},
}
MESSAGE_USAGE = {
    **USAGE_BODY,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "service_tier": "standard",
}
SIGNATURE = "b3JjaGFyZCByZXFfMTJhYi0zNGNk"
PING = {"type": "ping"}

_event = TypeAdapter[Any](RawMessageStreamEvent)


def make_call(**fields: Any) -> MessagesCall:
    body = {"model": 'my "model"', "messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return parse(json.dumps(body).encode(), "req_12ab-34cd")


def read_stream(data: bytes) -> list[Any]:
    """The events of a stream, each seen to be what Anthropic's SDK expects, and named as its type is."""
    events = []
    for chunk in data.decode().removesuffix("\n\n").split("\n\n"):
        name, line = chunk.splitlines()
        event = json.loads(line.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        if event["type"] not in ("ping", "error"):
            _event.validate_python(event)
        events.append(event)
    return events


def stream(call: MessagesCall, batches: Sequence[Sequence[Event]]) -> list[Any]:
    encoder = MessagesEncoder(call)
    return read_stream(b"".join(encoder.encode(batch) for batch in batches))


def one_by_one(call: MessagesCall, *events: Event) -> list[Any]:
    return stream(call, [[event] for event in events])


def whole(call: MessagesCall, *events: Event) -> Any:
    body = json.loads(call.complete(collect(events)))
    Message.model_validate(body)
    return body


def message(**fields: Any) -> dict[str, Any]:
    about = {"id": "msg_12ab34cd", "type": "message", "role": "assistant", "model": 'my "model"'}
    return {**about, "content": [], "stop_reason": None, "stop_sequence": None, "usage": MESSAGE_USAGE, **fields}


def started() -> list[Any]:
    used = {**MESSAGE_USAGE, "output_tokens": 0, "output_tokens_details": {"thinking_tokens": 0}}
    return [{"type": "message_start", "message": message(usage=used)}, PING]


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[Any]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[Any]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thinking(index: int, *pieces: str) -> list[Any]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed = {"type": "signature_delta", "signature": SIGNATURE}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)


def tool_use(index: int, call_id: str, name: str, *pieces: str) -> list[Any]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas)


def ended(reason: str, sequence: str | None = None) -> list[Any]:
    delta = {"stop_reason": reason, "stop_sequence": sequence}
    return [{"type": "message_delta", "delta": delta, "usage": USAGE_BODY}, {"type": "message_stop"}]


TEXT: list[Event] = [Started(5, 3), Text("Hel"), Text('lo "Ann"\n'), Finished(("stop",), USAGE)]
AGENT: list[Event] = [
    Started(5, 3),
    Reasoning("Hm, "),
    Reasoning("yes."),
    Text("\n\n"),
    Text("Let me see."),
    ToolStart(0, "call_1", "look_up"),
    ToolArgs(0, '{"a"'),
    ToolArgs(0, ": 1}"),
    ToolStart(1, "call_2", "add"),
    ToolArgs(1, "{}"),
    Finished(("tool_calls",), USAGE),
]


def test_a_text_in_events() -> None:
    assert one_by_one(make_call(), *TEXT) == [*started(), *text(0, "Hel", 'lo "Ann"\n'), *ended("end_turn")]


def test_a_text_as_a_whole() -> None:
    content = [{"type": "text", "text": 'Hello "Ann"\n'}]
    assert whole(make_call(), *TEXT) == message(content=content, stop_reason="end_turn")


def test_neighbours_in_a_batch_are_one_delta() -> None:
    assert stream(make_call(), [TEXT]) == [*started(), *text(0, 'Hello "Ann"\n'), *ended("end_turn")]


def test_a_turn_of_an_agent_in_events() -> None:
    assert one_by_one(make_call(), *AGENT) == [
        *started(),
        *thinking(0, "Hm, ", "yes."),
        *text(1, "\n\nLet me see."),
        *tool_use(2, "toolu_1", "look_up", '{"a"', ": 1}"),
        *tool_use(3, "toolu_2", "add", "{}"),
        *ended("tool_use"),
    ]


def test_a_turn_of_an_agent_as_a_whole() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm, yes.", "signature": SIGNATURE},
        {"type": "text", "text": "\n\nLet me see."},
        {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "add", "input": {}},
    ]
    assert whole(make_call(), *AGENT) == message(content=content, stop_reason="tool_use")


def test_space_alone_is_no_block() -> None:
    events: list[Event] = [
        Started(5, 3),
        Reasoning("Hm."),
        Text("\n"),
        Text("\n"),
        ToolStart(0, "call_1", "add"),
        Text(" "),
        Finished(("tool_calls",), USAGE),
    ]
    expected = [*started(), *thinking(0, "Hm."), *tool_use(1, "toolu_1", "add"), *ended("tool_use")]
    assert one_by_one(make_call(), *events) == expected
    assert [block["type"] for block in whole(make_call(), *events)["content"]] == ["thinking", "tool_use"]


def test_space_before_a_call_is_not_in_the_text_behind_it() -> None:
    events: list[Event] = [Text("\n"), ToolStart(0, "call_1", "add"), Text("So."), Finished(("tool_calls",), USAGE)]
    expected = [*started(), *tool_use(0, "toolu_1", "add"), *text(1, "So."), *ended("tool_use")]
    assert one_by_one(make_call(), Started(5, 3), *events) == expected


def test_space_between_thoughts_does_not_part_them() -> None:
    events: list[Event] = [Reasoning("a"), Text("\n"), Reasoning("b"), Text("c"), Finished(("stop",), USAGE)]
    blocks = whole(make_call(), *events)["content"]
    assert [(block["type"], block.get("thinking", block.get("text"))) for block in blocks] == [
        ("thinking", "ab"),
        ("text", "c"),
    ]
    assert one_by_one(make_call(), Started(5, 3), *events)[-4]["delta"] == {"type": "text_delta", "text": "c"}


def test_an_empty_answer() -> None:
    events: list[Event] = [Started(5, 3), Text(""), Finished(("stop",), USAGE)]
    assert one_by_one(make_call(), *events) == [*started(), *ended("end_turn")]
    assert whole(make_call(), *events) == message(stop_reason="end_turn")


def test_thinking_that_is_not_to_be_shown() -> None:
    call = make_call(thinking={"type": "adaptive", "display": "omitted"})
    events: list[Event] = [Started(5, 3), Reasoning("Hm."), Text("Yes."), Finished(("stop",), USAGE)]
    assert one_by_one(call, *events) == [*started(), *thinking(0), *text(1, "Yes."), *ended("end_turn")]
    assert whole(call, *events)["content"][0] == {"type": "thinking", "thinking": "", "signature": SIGNATURE}


@pytest.mark.parametrize(("reason", "stop"), [("length", None), ("stop", None), ("stop", "x")])
def test_a_prompt_that_is_only_to_be_cached_has_no_answer(reason: FinishReason, stop: str | None) -> None:
    call = make_call(max_tokens=0)
    used = Usage(5, 1, 1, 3)
    events: list[Event] = [
        Started(5, 3),
        Text("x"),
        Reasoning("y"),
        ToolStart(0, "a", "b"),
        Finished((reason,), used, (stop,)),
    ]
    assert [event["type"] for event in one_by_one(call, *events)] == [
        "message_start",
        "ping",
        "message_delta",
        "message_stop",
    ]
    assert (whole(call, *events)["content"], whole(call, *events)["stop_reason"]) == ([], "max_tokens")
    usages = whole(call, *events)["usage"], one_by_one(call, *events)[-2]["usage"]
    assert [(told["output_tokens"], told["output_tokens_details"]) for told in usages] == [
        (0, {"thinking_tokens": 0})
    ] * 2


@pytest.mark.parametrize(
    ("reason", "stops", "limit", "stop_reason"),
    [
        ("stop", (), None, "end_turn"),
        ("stop", (None,), None, "end_turn"),
        ("stop", ("###",), None, "stop_sequence"),
        ("length", (), 7, "max_tokens"),
        ("length", (), 8, "model_context_window_exceeded"),
        ("length", (), None, "model_context_window_exceeded"),
        ("tool_calls", (), None, "tool_use"),
    ],
)
def test_why_it_ended(reason: FinishReason, stops: tuple[str | None, ...], limit: int | None, stop_reason: str) -> None:
    call = make_call(max_tokens=limit)
    events: list[Event] = [Started(5, 3), Text("a"), Finished((reason,), USAGE, stops)]
    sequence = stops[0] if stops else None
    assert one_by_one(call, *events)[-2:] == ended(stop_reason, sequence)
    body = whole(call, *events)
    assert (body["stop_reason"], body["stop_sequence"]) == (stop_reason, sequence)


def test_ids_have_only_characters_that_clients_take() -> None:
    events: list[Event] = [Started(5, 3), ToolStart(0, "functions.add:0", "add"), Finished(("tool_calls",), USAGE)]
    assert one_by_one(make_call(), *events)[2:-2] == tool_use(0, "functions_add_0", "add")
    assert whole(make_call(), *events)["content"][0]["id"] == "functions_add_0"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("", {}),
        (' {"a": 36893488147419103232}', {"a": 2**65}),
        ('{"a": "b', {"INVALID_JSON": '{"a": "b'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
    ],
)
def test_arguments_as_a_whole(arguments: str, wanted: dict[str, Any]) -> None:
    events: list[Event] = [ToolStart(0, "c", "f"), ToolArgs(0, arguments), Finished(("length",), USAGE)]
    assert json.loads(make_call().complete(collect(events)))["content"][0]["input"] == wanted


@pytest.mark.parametrize("before", [[], [Started(5, 3), Text("Hel")]])
def test_a_failure_in_the_stream_is_an_error_event(before: list[Event]) -> None:
    failed = Failed.from_error(OrchardError("worker_crashed", 'The model "died".'))
    events = one_by_one(make_call(), *before, failed)
    error = {"type": "api_error", "message": 'The model "died".'}
    assert events[-1] == {"type": "error", "error": error, "request_id": "req_12ab-34cd"}
    assert len(events) == (5 if before else 1)


def test_no_event_comes_before_the_message() -> None:
    encoder = MessagesEncoder(make_call())
    assert encoder.keep_alive().startswith(b":")
    encoder.encode([Started(5)])
    assert read_stream(encoder.keep_alive()) == [PING]


def test_the_message_starts_even_without_a_start() -> None:
    kinds = [event["type"] for event in one_by_one(make_call(), Text("a"), Finished(("stop",), USAGE))]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]


def test_no_character_of_a_text_ends_a_line() -> None:
    strange = "a\x85b\u2028c\u2029d\x0be\x1cf\r\ng\ud7ff\U0001f600h"
    events = one_by_one(make_call(), Started(5, 3), Text(strange), ToolStart(0, "c", "f"), ToolArgs(0, strange))
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert (deltas[0]["text"], deltas[1]["partial_json"]) == (strange, strange)


def test_counting() -> None:
    answer = json.loads(token_count(collect([Started(5), Finished((), Usage(5, 0))])))
    assert answer == {"input_tokens": 5}
    MessageTokensCount.model_validate(answer)


def lawful_turn(events: list[Event]) -> list[Event]:
    """Make a stream of several choices, in which calls are interrupted, one of a single choice as models write them."""
    kept: list[Event] = []
    calls = 0
    for event in events:
        match event:
            case Text() | Reasoning() if event.choice == 0:
                kept.append(event)
            case ToolStart() if event.choice == 0:
                kept += [event, ToolArgs(calls, '{"a": '), ToolArgs(calls, f"{calls}}}")]
                calls += 1
            case Finished():
                kept.append(Finished(event.reasons[:1], event.usage))
            case Started() | Failed():
                kept.append(event)
    return kept


@examples(300)
@given(lawful_streams().map(lawful_turn), st.sets(st.integers(1, 20), max_size=4))
def test_a_stream_says_what_the_whole_answer_says(events: list[Event], cuts: set[int]) -> None:
    call = make_call()
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    streamed = stream(call, [events[start:end] for start, end in pairwise(edges)])
    if isinstance(events[-1], Failed):
        assert streamed[-1]["error"]["message"] == events[-1].message
        return
    check_blocks(streamed)
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in streamed:
        if event["type"] != "ping":
            snapshot = accumulate_event(
                event=_event.validate_python(event), current_snapshot=snapshot, json_bufs=buffers
            )
    gathered, body = snapshot.to_dict(), whole(call, *events)
    for field in ("id", "model", "role", "content", "stop_reason", "stop_sequence", "usage"):
        assert gathered[field] == body[field]


def check_blocks(events: list[Any]) -> None:
    """Blocks rise, never overlap, and are closed before the message ends."""
    open_, last = None, -1
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert (open_, event["index"]) == (None, last + 1)
                open_ = last = event["index"]
            case "content_block_delta":
                assert event["index"] == open_
            case "content_block_stop":
                assert event["index"] == open_
                open_ = None
            case "message_delta":
                assert open_ is None
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
