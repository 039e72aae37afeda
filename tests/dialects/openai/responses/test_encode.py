"""How responses look, streamed and whole."""

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from orchard.core.errors import FailureKind
from orchard.core.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Logprob,
    Reasoning,
    SettledSampling,
    Started,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolStart,
    Usage,
)
from orchard.core.tasks.generate import generate_task
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.encode import ResponseEncoder
from orchard.dialects.openai.responses.parse import parse as read
from tests.support.examples import examples
from tests.support.streams import lawful_streams

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
USAGE = Usage(5, 7, 2, 3)
FUNCTION = {
    "type": "function",
    "name": "look_up",
    "description": None,
    "parameters": {"type": "object"},
    "strict": False,
}


def make_call(**fields: Any) -> ResponseCall:
    body = {"model": 'my "model"', "input": "Hi", "stream": True, **fields}
    return read(json.dumps(body).encode()).make_call("req_12ab-34cd")


def events_of(told: bytes) -> list[Any]:
    """The events of a stream, each seen to be one that OpenAI's SDK knows, with the right number."""
    blocks = told.decode().split("\n\n")
    assert blocks.pop() == ""
    found = []
    for number, block in enumerate(blocks):
        kind, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        assert event["sequence_number"] == number
        found.append(event)
    return found


def stream(call: ResponseCall, *events: Event) -> list[Any]:
    encoder = ResponseEncoder(call)
    found = events_of(b"".join(encoder.encode([event]) for event in events))
    for event in found:
        EVENT.validate_python(event, strict=True)
    assert found[-1].get("response") in (None, json.loads(encoder.body()))
    return found


def short(events: Sequence[Any]) -> list[Any]:
    """Each event without what all have, and without the responses."""
    return [
        {key: value for key, value in event.items() if key not in ("type", "sequence_number", "response")} | {"": kind}
        for event in events
        for kind in [event["type"].removeprefix("response.")]
    ]


def output(call: ResponseCall, *events: Event) -> Any:
    """The items of the whole answer."""
    encoder = ResponseEncoder(call)
    encoder.encode(events)
    body = json.loads(encoder.body())
    Response.model_validate(body, strict=True)
    return body["output"]


def test_a_text() -> None:
    events = stream(make_call(), Started(5), Text("Hel"), Text('lo "Ann"\n'), Finished(("stop",), USAGE))
    item = {"id": "msg_12ab34cd00", "type": "message", "role": "assistant"}
    place = {"item_id": "msg_12ab34cd00", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": 'Hello "Ann"\n'}
    done = {**item, "status": "completed", "content": [part]}
    assert short(events) == [
        {"": "created"},
        {"": "in_progress"},
        {"": "output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        {"": "content_part.added", **place, "part": {**part, "text": ""}},
        {"": "output_text.delta", **place, "delta": "Hel", "logprobs": []},
        {"": "output_text.delta", **place, "delta": 'lo "Ann"\n', "logprobs": []},
        {"": "output_text.done", **place, "text": 'Hello "Ann"\n', "logprobs": []},
        {"": "content_part.done", **place, "part": part},
        {"": "output_item.done", "output_index": 0, "item": done},
        {"": "completed"},
    ]
    final = events[-1]["response"]
    assert final["output"] == [done]
    assert (final["status"], final["error"], final["incomplete_details"]) == ("completed", None, None)
    assert final["completed_at"] <= time.time()
    assert final["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    }
    for event in events[:2]:
        assert event["response"] == {
            **final,
            "status": "in_progress",
            "output": [],
            "usage": None,
            "completed_at": None,
        }


def test_calls() -> None:
    events = stream(
        make_call(tools=[FUNCTION]),
        Started(5),
        ToolStart(0, "call_1", "look_up"),
        ToolArgs(0, '{"a"'),
        ToolArgs(0, ": 1}"),
        ToolStart(1, "call_2", "look_up"),
        ToolArgs(1, "{}"),
        Finished(("tool_calls",), USAGE),
    )
    item = {"id": "fc_12ab34cd00", "type": "function_call", "call_id": "call_1", "name": "look_up"}
    place = {"item_id": "fc_12ab34cd00", "output_index": 0}
    assert short(events)[2:7] == [
        {"": "output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "arguments": ""}},
        {"": "function_call_arguments.delta", **place, "delta": '{"a"'},
        {"": "function_call_arguments.delta", **place, "delta": ": 1}"},
        {"": "function_call_arguments.done", **place, "name": "look_up", "arguments": '{"a": 1}'},
        {
            "": "output_item.done",
            "output_index": 0,
            "item": {**item, "status": "completed", "arguments": '{"a": 1}'},
        },
    ]
    assert [event["output_index"] for event in short(events)[7:-1]] == [1, 1, 1, 1]
    assert events[-1]["response"]["status"] == "completed"
    assert [(call["call_id"], call["arguments"]) for call in events[-1]["response"]["output"]] == [
        ("call_1", '{"a": 1}'),
        ("call_2", "{}"),
    ]


@pytest.mark.parametrize("after", [Text("Now I wait."), Reasoning("Hm.")])
def test_a_call_is_done_before_what_follows_it(after: Event) -> None:
    events = stream(
        make_call(tools=[FUNCTION]),
        Started(5),
        ToolStart(0, "call_1", "look_up"),
        ToolArgs(0, "{}"),
        after,
        Finished(("tool_calls",), USAGE),
    )
    assert [(event[""], event["output_index"]) for event in short(events)[2:7]] == [
        ("output_item.added", 0),
        ("function_call_arguments.delta", 0),
        ("function_call_arguments.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
    ]
    assert_one_after_the_other(events)


def assert_one_after_the_other(events: Sequence[Any]) -> None:
    """An item is done before the next is added, and nothing is told of one that is not open."""
    open_, last = None, -1
    for event in events:
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert (open_, event["output_index"]) == (None, last + 1)
                open_ = last = event["output_index"]
            case "output_item.done":
                assert event["output_index"] == open_
                open_ = None
            case _:
                assert event.get("output_index", open_) == open_
    assert open_ is None


@pytest.mark.parametrize("summary", [{}, {"summary": "auto"}, {"generate_summary": "detailed"}])
def test_reasoning(summary: dict[str, str]) -> None:
    call = make_call(reasoning=summary)
    events = stream(call, Started(5), Reasoning("Hm"), Reasoning("."), Text("Hi"), Finished(("stop",), USAGE))
    place = {"item_id": "rs_12ab34cd00", "output_index": 0}
    text = [event for event in short(events) if event.get("content_index") == 0 and event["output_index"] == 0]
    part = {"type": "reasoning_text", "text": "Hm."}
    assert text == [
        {"": "content_part.added", **place, "content_index": 0, "part": {**part, "text": ""}},
        {"": "reasoning_text.delta", **place, "content_index": 0, "delta": "Hm"},
        {"": "reasoning_text.delta", **place, "content_index": 0, "delta": "."},
        {"": "reasoning_text.done", **place, "content_index": 0, "text": "Hm."},
        {"": "content_part.done", **place, "content_index": 0, "part": part},
    ]
    short_part = {"type": "summary_text", "text": "Hm."}
    shown = [event for event in short(events) if "summary_index" in event]
    assert shown == (
        [
            {"": "reasoning_summary_part.added", **place, "summary_index": 0, "part": {**short_part, "text": ""}},
            {"": "reasoning_summary_text.delta", **place, "summary_index": 0, "delta": "Hm"},
            {"": "reasoning_summary_text.delta", **place, "summary_index": 0, "delta": "."},
            {"": "reasoning_summary_text.done", **place, "summary_index": 0, "text": "Hm."},
            {"": "reasoning_summary_part.done", **place, "summary_index": 0, "part": short_part},
        ]
        if summary
        else []
    )
    thought, message = events[-1]["response"]["output"]
    assert thought == {
        "id": "rs_12ab34cd00",
        "type": "reasoning",
        "status": "completed",
        "summary": [short_part] if summary else [],
        "content": [part],
    }
    assert message["content"][0]["text"] == "Hi"
    kinds = [event[""] for event in short(events)]
    assert kinds.index("output_item.done") < kinds.index("output_item.added", 3)  # the thought ends, the text begins


def test_sealed_reasoning_can_be_sent_back() -> None:
    call = make_call(include=["reasoning.encrypted_content"])
    thought, _ = output(call, Started(5), Reasoning("Hm."), Text("Hi"), Finished(("stop",), USAGE))
    assert "Hm." not in thought["encrypted_content"]
    del thought["content"]
    again = make_call(input=[thought, {"role": "assistant", "content": "Hi"}])
    first, second = generate_task(again.request).messages[0].parts
    assert (first.text, second.text) == ("Hm.", "Hi")  # type: ignore[union-attr]


def test_a_custom_tools_call() -> None:
    tool = {"type": "custom", "name": "patch", "format": {"type": "text"}}
    events = stream(
        make_call(tools=[tool]),
        Started(5),
        ToolStart(0, "call_1", "patch"),
        ToolArgs(0, '{"input": "a'),
        ToolArgs(0, '\\nb"}'),
        Finished(("tool_calls",), USAGE),
    )
    item = {"id": "ctc_12ab34cd00", "type": "custom_tool_call", "call_id": "call_1", "name": "patch"}
    place = {"item_id": "ctc_12ab34cd00", "output_index": 0}
    assert short(events)[2:-1] == [
        {"": "output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "input": ""}},
        {"": "custom_tool_call_input.delta", **place, "delta": "a"},
        {"": "custom_tool_call_input.delta", **place, "delta": "\nb"},
        {"": "custom_tool_call_input.done", **place, "input": "a\nb"},
        {"": "output_item.done", "output_index": 0, "item": {**item, "status": "completed", "input": "a\nb"}},
    ]


@examples(200)
@given(st.text(), st.booleans(), st.integers(0, 2), st.lists(st.integers(0, 60), max_size=6))
def test_a_custom_tools_input_is_told_as_it_comes(text: str, escaped: bool, gaps: int, cuts: list[int]) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=escaped, indent=gaps or None)
    places = sorted({0, len(arguments), *(cut for cut in cuts if cut < len(arguments))})
    pieces = [arguments[a:b] for a, b in pairwise(places)]
    encoder = ResponseEncoder(make_call(tools=[{"type": "custom", "name": "run"}]))
    told = encoder.encode([ToolStart(0, "c", "run")])
    told += b"".join(encoder.encode([ToolArgs(0, piece)]) for piece in pieces)
    events = events_of(told + encoder.encode([Finished(("tool_calls",), USAGE)]))
    deltas = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == text
    assert "" not in deltas
    assert events[-1]["response"]["output"][0]["input"] == text


@pytest.mark.parametrize("arguments", ["no JSON", '{"other": 1}', '{"input": 1}', "[1]"])
def test_a_custom_tools_input_that_is_no_input_is_kept(arguments: str) -> None:
    call = make_call(tools=[{"type": "custom", "name": "patch"}])
    (item,) = output(call, ToolStart(0, "call_1", "patch"), ToolArgs(0, arguments), Finished(("tool_calls",), USAGE))
    assert item["input"] == arguments


@pytest.mark.parametrize("end", ["", "\\", "\\ud83d", '"'])
def test_a_custom_tools_input_that_is_cut_off_is_what_there_is_of_it(end: str) -> None:
    call = make_call(tools=[{"type": "custom", "name": "patch"}])
    (item,) = output(
        call, ToolStart(0, "call_1", "patch"), ToolArgs(0, '{"input": "half' + end), Finished(("length",), USAGE)
    )
    assert (item["input"], item["status"]) == ("half", "incomplete")


def test_a_call_of_a_tool_in_a_namespace() -> None:
    space = {"type": "namespace", "name": "files", "description": "Files.", "tools": [FUNCTION]}
    for tools, seen in (([space], "look_up"), ([space, FUNCTION], "files__look_up")):
        call = make_call(tools=tools)
        assert seen in [tool.name for tool in generate_task(call.request).tools]
        (item,) = output(call, ToolStart(0, "call_1", seen), Finished(("tool_calls",), USAGE))
        assert (item["name"], item["namespace"]) == ("look_up", "files")


def test_what_is_cut_off_is_incomplete() -> None:
    events = stream(make_call(), Started(5), Reasoning("Hm"), Text("Hel"), Finished(("length",), USAGE))
    assert events[-1]["type"] == "response.incomplete"
    final = events[-1]["response"]
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert final["completed_at"] is None
    assert [item["status"] for item in final["output"]] == ["completed", "incomplete"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([Finished(("stop",), USAGE)], ["message"]),
        ([Finished(("length",), USAGE)], ["message"]),
        ([Reasoning("Hm"), Finished(("stop",), USAGE)], ["reasoning", "message"]),
        ([Reasoning("Hm"), Finished(("length",), USAGE)], ["reasoning"]),
        ([ToolStart(0, "call_1", "look_up"), Finished(("tool_calls",), USAGE)], ["function_call"]),
    ],
)
def test_a_response_says_something(events: list[Event], expected: list[str]) -> None:
    items = output(make_call(tools=[FUNCTION]), Started(5), *events)
    assert [item["type"] for item in items] == expected


@pytest.mark.parametrize("reason", ["length", "stop", "tool_calls"])
def test_a_prompt_that_is_only_to_be_cached_has_no_answer(reason: FinishReason) -> None:
    call = make_call(prompt_cache_options={"prewarm": True}, tools=[FUNCTION])
    said: list[Event] = [Text("x"), Reasoning("y"), ToolStart(0, "a", "look_up"), ToolArgs(0, "{}")]
    all_events: list[Event] = [Started(5, 3), *said, Finished((reason,), Usage(5, 1, 1, 3))]
    events = stream(call, *all_events)
    assert [event["type"].removeprefix("response.") for event in events] == ["created", "in_progress", "completed"]
    final = events[-1]["response"]
    assert (final["status"], final["output"], final["incomplete_details"]) == ("completed", [], None)
    assert final["completed_at"] <= time.time()
    assert final["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }
    assert output(call, *all_events) == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("worker_crashed", "server_error"),
        ("overloaded", "rate_limit_exceeded"),
        ("invalid_request", "invalid_prompt"),
        ("context_length_exceeded", "context_length_exceeded"),
    ],
)
def test_a_failure(kind: FailureKind, code: str) -> None:
    encoder = ResponseEncoder(make_call())
    told = encoder.encode([Started(5), Text("Hel")]) + encoder.encode([Failed(kind, "It broke.")])
    *_, error, failed = events_of(told)
    EVENT.validate_python(error, strict=True)
    assert (error["type"], error["message"]) == ("error", "It broke.")
    assert failed["type"] == "response.failed"
    response = failed["response"]
    assert (response["status"], response["error"]) == ("failed", {"code": code, "message": "It broke."})
    assert [item["status"] for item in response["output"]] == ["incomplete"]
    assert encoder.error
    assert encoder.ended


def test_a_stream_that_fails_before_anything_else_begins_all_the_same() -> None:
    kinds = [event["type"] for event in stream(make_call(), Failed("internal", "It broke."))]
    assert kinds == ["response.created", "response.in_progress", "error", "response.failed"]


def test_a_response_that_is_cancelled_before_it_began() -> None:
    encoder = ResponseEncoder(make_call())
    told = events_of(encoder.encode([Failed("cancelled", "Gone.")]))
    assert [event["type"] for event in told] == ["response.created"]


def test_a_cancelled_response() -> None:
    encoder = ResponseEncoder(make_call(background=True))
    told = b"".join(encoder.queued_events()) + encoder.encode([Started(5), Text("Hel")])
    assert encoder.encode([Failed("cancelled", "Gone.")]) == b""
    assert [event["type"].removeprefix("response.") for event in events_of(told)][:3] == [
        "created",
        "queued",
        "in_progress",
    ]
    statuses = [event["response"]["status"] for event in events_of(told)[:3]]
    assert statuses == ["queued", "queued", "in_progress"]
    response = json.loads(encoder.body())
    assert (response["status"], response["error"]) == ("cancelled", None)
    assert response["output"][0]["content"][0]["text"] == "Hel"


def test_a_response_in_progress_can_be_looked_at() -> None:
    encoder = ResponseEncoder(make_call(tools=[FUNCTION]))
    encoder.encode([Started(5), Text("Hel"), Text("lo"), ToolStart(0, "call_1", "look_up"), ToolArgs(0, "{")])
    response = json.loads(encoder.body())
    Response.model_validate(response, strict=True)
    message, call = response["output"]
    assert (message["status"], message["content"][0]["text"]) == ("completed", "Hello")
    assert (call["status"], call["arguments"]) == ("in_progress", "{")


def test_log_probabilities() -> None:
    logprobs = (Logprob(TokenLogprob("é", "é".encode(), -0.5), (TokenLogprob("e", b"e", float("-inf")),)),)
    call = make_call(include=["message.output_text.logprobs"], top_logprobs=1)
    events = stream(call, Started(5), Text("é", 0, logprobs), Finished(("stop",), USAGE))
    told = [{"token": "é", "logprob": -0.5, "top_logprobs": [{"token": "e", "logprob": -9999.0}]}]
    assert [event["logprobs"] for event in events if "logprobs" in event] == [told, told]
    part = events[-1]["response"]["output"][0]["content"][0]
    top = [{"token": "e", "bytes": [101], "logprob": -9999.0}]
    assert part["logprobs"] == [{"token": "é", "bytes": [195, 169], "logprob": -0.5, "top_logprobs": top}]


def test_line_ends_of_other_kinds_do_not_cut_the_stream() -> None:
    told = ResponseEncoder(make_call()).encode([Text("a\u2028b\u2029c\u0085d")])
    assert len(told.decode().splitlines()) == len(told.decode().split("\n")) - 1
    assert events_of(told)[-1]["delta"] == "a\u2028b\u2029c\u0085d"


def test_a_body_over_several_lines_does_not_cut_the_stream() -> None:
    body = {"model": "m", "input": "Hi", "tools": [FUNCTION], "tool_choice": {"type": "function", "name": "look_up"}}
    call = read(json.dumps(body | {"text": {"format": {"type": "text"}}}, indent=1).encode()).make_call("req_1")
    created, _ = events_of(ResponseEncoder(call).encode([Started(1)]))
    assert created["response"]["tools"] == [FUNCTION]


def test_a_response_repeats_what_was_asked() -> None:
    form = {"type": "json_schema", "name": "a", "description": "b", "schema": {"type": "object"}, "strict": True}
    text = {"format": form, "verbosity": "low"}
    asked = {
        "instructions": "Be brief.",
        "max_output_tokens": 50,
        "max_tool_calls": 2,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "previous_response_id": "resp_1",
        "prompt_cache_key": "key",
        "safety_identifier": "me",
        "store": False,
        "temperature": 0.5,
        "text": text,
        "tool_choice": {"type": "function", "name": "look_up"},
        "tools": [FUNCTION, {"type": "web_search"}],
        "top_logprobs": 2,
        "top_p": 0.9,
        "truncation": "auto",
        "user": "you",
    }
    encoder = ResponseEncoder(make_call(**asked, service_tier="flex", reasoning={"effort": "low", "summary": "auto"}))
    response = json.loads(encoder.body())
    Response.model_validate(response, strict=True)
    assert {key: response[key] for key in asked} == asked
    assert (response["id"], response["object"], response["model"]) == ("resp_12ab34cd", "response", 'my "model"')
    assert (response["service_tier"], response["reasoning"]) == ("default", {"effort": "low", "summary": "auto"})
    assert response["background"] is False


def test_a_response_to_a_bare_request() -> None:
    response = json.loads(ResponseEncoder(make_call(tools=None, text=None, tool_choice=None, metadata=None)).body())
    Response.model_validate(response, strict=True)
    assert (response["tools"], response["tool_choice"], response["metadata"]) == ([], "auto", {})
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert response["store"] is True


def test_a_response_says_how_its_tokens_are_drawn() -> None:
    names = SettledSampling.__struct_fields__
    call = make_call(temperature=0.3)
    encoder = ResponseEncoder(call)
    assert [encoder.response()[name] for name in names] == [0.3, 1.0, 0.0, 0.0]
    told = encoder.encode([Started(1, sampling=SettledSampling(0.3, 0.8, 1.5, -0.5)), Finished(("stop",), USAGE)])
    for response in [event["response"] for event in events_of(told) if "response" in event]:
        assert [response[name] for name in names] == [0.3, 0.8, 1.5, -0.5]


def test_what_the_api_requires_of_a_tool_is_filled_in() -> None:
    bare = {"type": "function", "name": "look_up"}
    filled = {**bare, "description": None, "parameters": None, "strict": False}
    tools: list[dict[str, Any]] = [
        {**bare, "strict": None},
        {**bare, "name": "b", "strict": True, "parameters": {"type": "object", "x": [1.0, "a\nb"]}},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{**bare, "name": "c", "tools": 5}]},
        {"type": "custom", "name": "e"},
        {"type": "web_search", "strict": None},
    ]
    response = json.loads(ResponseEncoder(make_call(tools=tools)).body())
    assert response["tools"] == [
        filled,
        {**filled, **tools[1]},
        {**tools[2], "tools": [{**filled, "name": "c", "tools": 5}]},
        *tools[3:],
    ]
    Response.model_validate({**response, "tools": response["tools"][:2]}, strict=True)


def test_what_the_api_requires_of_a_schema_is_filled_in() -> None:
    form = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
    response = json.loads(ResponseEncoder(make_call(text={"format": form})).body())
    assert response["text"]["format"] == {**form, "description": None, "strict": False}


@examples(200)
@given(lawful_streams().filter(lambda events: len(getattr(events[-1], "reasons", "x")) == 1), st.data())
def test_any_stream_comes_out_whole(events: list[Event], data: st.DataObject) -> None:
    events = [event for event in events if getattr(event, "choice", 0) == 0]
    if not isinstance(events[-1], Finished):
        return
    call = make_call(reasoning={"summary": "auto"})
    cut = data.draw(st.integers(0, len(events)))
    encoder = ResponseEncoder(call)
    told = events_of(encoder.encode(events[:cut]) + encoder.encode(events[cut:]))
    for event in told:
        EVENT.validate_python(event, strict=True)
    assert_one_after_the_other(told)
    response = json.loads(encoder.body())
    Response.model_validate(response, strict=True)
    assert told[-1]["response"] == response
    done = {event["output_index"]: event["item"] for event in told if event["type"] == "response.output_item.done"}
    assert [done[place]["id"] for place in sorted(done)] == [item["id"] for item in response["output"]]

    def said(kind: str) -> str:
        return "".join(event["delta"] for event in told if event["type"] == f"response.{kind}.delta")

    assert said("output_text") == "".join(event.text for event in events if isinstance(event, Text))
    thoughts = "".join(event.text for event in events if isinstance(event, Reasoning))
    assert said("reasoning_text") == said("reasoning_summary_text") == thoughts
    assert said("function_call_arguments") == "".join(event.json for event in events if isinstance(event, ToolArgs))
    items = response["output"]
    assert "".join(item["content"][0]["text"] for item in items if item["type"] == "message") == said("output_text")
    assert "".join(item["arguments"] for item in items if item["type"] == "function_call") == said(
        "function_call_arguments"
    )
