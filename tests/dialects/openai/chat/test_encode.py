"""How answers look, streamed and whole."""

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from orchard import __version__
from orchard.core.errors import OrchardError
from orchard.core.events import (
    Event,
    Failed,
    Finished,
    Logprob,
    Output,
    Reasoning,
    Started,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolStart,
    Usage,
    collect,
)
from orchard.core.tasks.speak import Sound
from orchard.dialects.openai.chat.encode import ChatCall, ChatEncoder
from orchard.dialects.openai.chat.parse import parse
from tests.support.examples import examples
from tests.support.streams import lawful_streams

USAGE = Usage(5, 7, 2, 3)
USAGE_BODY = {
    "prompt_tokens": 5,
    "completion_tokens": 7,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 2,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
ROLE = {"role": "assistant", "content": "", "refusal": None}
NO_TEXT = ROLE | {"content": None}
BACKEND = {"service_tier": "default", "system_fingerprint": f"fp_orchard_{__version__}"}


def make_call(**fields: Any) -> ChatCall:
    body = {"model": 'my "model"', "messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return parse(json.dumps(body).encode(), "req_12ab-34cd")


def read_stream(data: bytes) -> list[Any]:
    """The chunks of a finished stream, each seen to be what OpenAI's SDK expects; errors are left as they are."""
    assert data.endswith(b"\n\ndata: [DONE]\n\n")
    lines = data.decode().splitlines()
    assert not any(lines[1::2])
    assert all(line.startswith("data: ") for line in lines[::2])
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2:2]]
    for chunk in chunks:
        if "error" not in chunk:
            ChatCompletionChunk.model_validate(chunk, strict=True)
            assert all("finish_reason" in choice for choice in chunk["choices"])
    return chunks


def stream(call: ChatCall, batches: Sequence[Sequence[Event]]) -> list[Any]:
    encoder = ChatEncoder(call)
    return read_stream(b"".join(encoder.encode(batch) for batch in batches))


def one_by_one(call: ChatCall, *events: Event) -> list[Any]:
    return stream(call, [[event] for event in events])


def deltas(chunks: list[Any]) -> list[Any]:
    return [(c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in chunks if c["choices"]]


def whole(call: ChatCall, *events: Event) -> Any:
    body = json.loads(call.complete(collect(events)))
    ChatCompletion.model_validate(body, strict=True)
    return body


def token(text: str, logprob: float) -> TokenLogprob:
    return TokenLogprob(text, text.encode(), logprob)


TEXT: list[Event] = [Started(5), Text("Hel"), Text('lo "Ann"\n'), Finished(("stop",), USAGE)]
CALLS: list[Event] = [
    Started(5),
    ToolStart(0, "call_1", "look_up"),
    ToolArgs(0, '{"a"'),
    ToolArgs(0, ": 1}"),
    ToolStart(1, "call_2", "add"),
    ToolArgs(1, "{}"),
    Finished(("tool_calls",), USAGE),
]


def test_a_text_in_chunks() -> None:
    before = int(time.time())
    chunks = one_by_one(make_call(), *TEXT)
    created = chunks[0]["created"]
    assert before <= created <= time.time()
    about = {"id": "chatcmpl-12ab34cd", "object": "chat.completion.chunk", "created": created, "model": 'my "model"'}
    about |= BACKEND
    expected: list[tuple[dict[str, Any], str | None]] = [
        (ROLE, None),
        ({"content": "Hel"}, None),
        ({"content": 'lo "Ann"\n'}, None),
        ({}, "stop"),
    ]
    assert chunks == [
        {**about, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}
        for delta, reason in expected
    ]


def test_a_text_as_a_whole() -> None:
    body = whole(make_call(), *TEXT)
    assert body.pop("created") <= time.time()
    assert body == {
        "id": "chatcmpl-12ab34cd",
        "object": "chat.completion",
        "model": 'my "model"',
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": 'Hello "Ann"\n', "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE_BODY,
        **BACKEND,
    }


def test_usage_comes_last_and_only_when_asked_for() -> None:
    chunks = one_by_one(make_call(stream_options={"include_usage": True}), *TEXT)
    assert [chunk["usage"] for chunk in chunks] == [None] * 4 + [USAGE_BODY]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["id"] == chunks[0]["id"]
    assert all("usage" not in chunk for chunk in one_by_one(make_call(), *TEXT))


def test_usage_tells_of_a_prediction() -> None:
    used = Usage(5, 7, 2, 3, accepted_prediction_tokens=4, rejected_prediction_tokens=9)
    found = whole(make_call(), Started(5), Text("Hi"), Finished(("stop",), used))["usage"]
    details = found["completion_tokens_details"]
    assert (details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]) == (4, 9)
    assert (found["completion_tokens"], found["total_tokens"]) == (7, 12)


def test_neighbours_in_a_batch_are_one_chunk() -> None:
    assert deltas(stream(make_call(), [TEXT])) == [(ROLE, None), ({"content": 'Hello "Ann"\n'}, None), ({}, "stop")]


def test_tool_calls_in_chunks() -> None:
    def start(index: int, call_id: str, name: str) -> dict[str, Any]:
        call = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        return {"tool_calls": [call]}

    def args(index: int, text: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}

    assert deltas(one_by_one(make_call(), *CALLS)) == [
        (NO_TEXT, None),
        (start(0, "call_1", "look_up"), None),
        (args(0, '{"a"'), None),
        (args(0, ": 1}"), None),
        (start(1, "call_2", "add"), None),
        (args(1, "{}"), None),
        ({}, "tool_calls"),
    ]


def test_tool_calls_as_a_whole() -> None:
    choice = whole(make_call(), *CALLS)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a": 1}'}},
            {"id": "call_2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        ],
    }
    with_text = whole(make_call(), Text("Let me see."), *CALLS[1:])
    assert with_text["choices"][0]["message"]["content"] == "Let me see."


def test_a_caller_of_the_old_functions_gets_a_function_call() -> None:
    call = make_call(functions=[{"name": "look_up"}])
    assert deltas(one_by_one(call, *CALLS)) == [
        (NO_TEXT, None),
        ({"function_call": {"name": "look_up", "arguments": ""}}, None),
        ({"function_call": {"arguments": '{"a"'}}, None),
        ({"function_call": {"arguments": ": 1}"}}, None),
        ({}, "function_call"),
    ]
    choice = whole(call, *CALLS)["choices"][0]
    assert choice["message"]["function_call"] == {"name": "look_up", "arguments": '{"a": 1}'}
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "function_call"


def test_calls_of_custom_tools_hold_their_text() -> None:
    tool = {"type": "custom", "custom": {"name": "run"}}
    call = make_call(tools=[tool, {"type": "function", "function": {"name": "add"}}])
    events: list[Event] = [
        ToolStart(0, "call_1", "run"),
        ToolArgs(0, '{"input": "ls'),
        ToolArgs(0, ' \\"x\\""}'),
        ToolStart(1, "call_2", "add"),
        ToolArgs(1, "{}"),
        ToolStart(2, "call_3", "run"),
        ToolArgs(2, "broken"),
        Finished(("tool_calls",), USAGE),
    ]
    message = whole(call, *events)["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"id": "call_1", "type": "custom", "custom": {"name": "run", "input": 'ls "x"'}},
        {"id": "call_2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        {"id": "call_3", "type": "custom", "custom": {"name": "run", "input": "broken"}},
    ]
    encoder = ChatEncoder(call)
    lines = b"".join(encoder.encode([event]) for event in events).decode().splitlines()[:-2:2]
    found = [json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("tool_calls") for line in lines]
    assert [calls[0] for calls in found if calls] == [
        {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "run", "input": ""}},
        {"index": 0, "custom": {"input": 'ls "x"'}},
        {"index": 1, "id": "call_2", "type": "function", "function": {"name": "add", "arguments": ""}},
        {"index": 1, "function": {"arguments": "{}"}},
        {"index": 2, "id": "call_3", "type": "custom", "custom": {"name": "run", "input": ""}},
        {"index": 2, "custom": {"input": "broken"}},
    ]


def test_reasoning_has_its_own_field() -> None:
    events: list[Event] = [Started(5), Reasoning("Hm, "), Reasoning("yes."), Text("Yes."), Finished(("length",), USAGE)]
    assert deltas(one_by_one(make_call(), *events)) == [
        (NO_TEXT, None),
        ({"reasoning_content": "Hm, ", "reasoning": "Hm, "}, None),
        ({"reasoning_content": "yes.", "reasoning": "yes."}, None),
        ({"content": "Yes."}, None),
        ({}, "length"),
    ]
    message = whole(make_call(), *events)["choices"][0]["message"]
    assert (message["reasoning_content"], message["reasoning"], message["content"]) == ("Hm, yes.", "Hm, yes.", "Yes.")


def test_content_is_empty_where_there_was_only_thinking() -> None:
    events: list[Event] = [Started(5), Reasoning("Hm"), Text(""), Finished(("length",), USAGE)]
    assert deltas(one_by_one(make_call(), *events))[2:] == [({"content": ""}, "length")]
    assert whole(make_call(), *events)["choices"][0]["message"]["content"] == ""


def test_two_answers_at_once() -> None:
    events: list[Event] = [Started(5), Text("a", 1), Text("b", 0), Text("c", 1), Finished(("length", "stop"), USAGE)]
    chunks = one_by_one(make_call(n=2, stream_options={"include_usage": True}), *events)
    seen = [(c["index"], c["delta"], c["finish_reason"]) for chunk in chunks for c in chunk["choices"]]
    assert seen == [
        (1, ROLE, None),
        (1, {"content": "a"}, None),
        (0, ROLE, None),
        (0, {"content": "b"}, None),
        (1, {"content": "c"}, None),
        (0, {}, "length"),
        (1, {}, "stop"),
    ]
    choices = whole(make_call(n=2), *events)["choices"]
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in choices] == [
        (0, "b", "length"),
        (1, "ac", "stop"),
    ]


def test_log_probabilities() -> None:
    drawn = Logprob(token("é", -0.5), (token("é", -0.5), token("x", float("-inf"))))
    entry = {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [
            {"token": "é", "logprob": -0.5, "bytes": [195, 169]},
            {"token": "x", "logprob": -9999.0, "bytes": [120]},
        ],
    }
    call = make_call(logprobs=True, top_logprobs=2)
    events: list[Event] = [Started(5), Text("", logprobs=(drawn,)), Text("é"), Text("", 0), Finished(("stop",), USAGE)]
    chunks = one_by_one(call, *events)
    assert [(chunk["choices"][0]["delta"], chunk["choices"][0]["logprobs"]) for chunk in chunks] == [
        (ROLE, None),
        ({"content": ""}, {"content": [entry], "refusal": None}),
        ({"content": "é"}, None),
        ({}, None),
    ]
    assert whole(call, *events)["choices"][0]["logprobs"] == {"content": [entry], "refusal": None}
    assert whole(call, *TEXT)["choices"][0]["logprobs"] == {"content": [], "refusal": None}


def test_a_logprob_that_is_no_number_is_still_json() -> None:
    call = make_call(logprobs=True)
    chunks = one_by_one(call, Text("x", logprobs=(Logprob(token("x", float("nan"))),)), Finished(("stop",), USAGE))
    assert chunks[1]["choices"][0]["logprobs"]["content"][0]["logprob"] == -9999.0


def test_the_role_comes_even_without_a_start() -> None:
    assert deltas(one_by_one(make_call(), Finished(("stop",), USAGE))) == [(ROLE, None), ({}, "stop")]


@pytest.mark.parametrize("before", [[], [Started(5), Text("Hel")]])
def test_a_failure_in_the_stream_is_an_error_object(before: list[Event]) -> None:
    failed = Failed.from_error(OrchardError("worker_crashed", 'The model "died".'))
    chunks = one_by_one(make_call(), *before, failed)
    assert len(chunks) == (3 if before else 1)
    error = {"message": 'The model "died".', "type": "server_error", "param": None, "code": "worker_crashed"}
    assert chunks[-1] == {"error": error}


def test_no_character_of_a_text_ends_a_line() -> None:
    text = "a\x85b\u2028c\u2029d\x0be\x1cf\r\ng\ud7ff\U0001f600h"
    events: list[Event] = [Text(text), ToolStart(0, "c", "f"), ToolArgs(0, text), Finished(("stop",), USAGE)]
    chunks = one_by_one(make_call(), *events)
    assert chunks[1]["choices"][0]["delta"]["content"] == text
    assert chunks[3]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] == text


def gather(chunks: list[Any], n: int) -> dict[str, Any]:
    """Put a stream together as a client does, into what an unstreamed answer holds."""
    messages: list[dict[str, Any]] = [{} for _ in range(n)]
    choices: list[dict[str, Any]] = [{"index": i, "message": messages[i], "logprobs": None} for i in range(n)]
    for chunk in chunks[:-1]:
        (piece,) = chunk["choices"]
        choice, message, delta = choices[piece["index"]], messages[piece["index"]], piece["delta"]
        assert "finish_reason" not in choice, "nothing follows the finish_reason of a choice"
        assert ("role" in delta) == (not message), "the role comes first, once"
        for name in ("role", "refusal"):
            if name in delta:
                message[name] = delta[name]
        for name in ("content", "reasoning_content", "reasoning"):
            if name in delta:
                message[name] = (message.get(name) or "") + delta[name] if delta[name] is not None else None
        for call in delta.get("tool_calls", ()):
            add_call(message.setdefault("tool_calls", []), call)
        if piece.get("logprobs"):
            choice["logprobs"] = choice["logprobs"] or {"content": [], "refusal": None}
            choice["logprobs"]["content"] += piece["logprobs"]["content"]
        if piece["finish_reason"]:
            choice["finish_reason"] = piece["finish_reason"]
    for message in messages:
        if not message["content"]:
            message["content"] = None if message.get("tool_calls") else ""
    return {"choices": choices, "usage": chunks[-1]["usage"]}


def add_call(calls: list[Any], delta: dict[str, Any]) -> None:
    if "id" in delta:
        assert delta["index"] == len(calls)
        calls.append({"id": delta["id"], "type": delta["type"], "function": dict(delta["function"])})
    else:
        assert set(delta["function"]) == {"arguments"}
        calls[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]


@examples(300)
@given(lawful_streams(), st.sets(st.integers(1, 12), max_size=4), st.booleans())
def test_a_stream_says_what_the_whole_answer_says(events: list[Event], cuts: set[int], asked: bool) -> None:
    n = 1 + max([getattr(event, "choice", 0) for event in events[:-1]])
    if isinstance(events[-1], Finished):
        n = len(events[-1].reasons)
    call = make_call(n=n, logprobs=asked, stream_options={"include_usage": True})
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    chunks = stream(call, [events[start:end] for start, end in pairwise(edges)])
    if isinstance(events[-1], Failed):
        assert chunks[-1]["error"]["message"] == events[-1].message
        return
    body = whole(call, *events)
    for choice in body["choices"]:
        if choice["logprobs"] == {"content": [], "refusal": None}:
            choice["logprobs"] = None
    assert gather(chunks, n) == {"choices": body["choices"], "usage": body["usage"]}
    assert {chunk["id"] for chunk in chunks} == {body["id"]}
    assert len({chunk["created"] for chunk in chunks}) == 1


SPOKEN: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"voice": "ryan", "format": "pcm16"}}
SOUNDS = [Output.from_struct(Sound(data)) for data in (b"\x01\x02", b"\x03\x04")]
SPOKEN_TEXT: list[Event] = [
    Started(5),
    Reasoning("Hm."),
    Text("Six. "),
    SOUNDS[0],
    Text("Sure."),
    SOUNDS[1],
    Finished(("stop",), Usage(5, 7, audio_tokens=20)),
]


def test_a_spoken_answer_in_chunks() -> None:
    chunks = one_by_one(make_call(**SPOKEN, stream_options={"include_usage": True}), *SPOKEN_TEXT)
    assert deltas(chunks) == [
        (NO_TEXT, None),
        ({"reasoning_content": "Hm.", "reasoning": "Hm."}, None),
        ({"audio": {"id": "audio_12ab34cd", "transcript": "Six. "}}, None),
        ({"audio": {"data": "AQI="}}, None),
        ({"audio": {"transcript": "Sure."}}, None),
        ({"audio": {"data": "AwQ="}}, None),
        ({"audio": {"expires_at": chunks[0]["created"] + 3600}}, None),
        ({}, "stop"),
    ]
    usage = chunks[-1]["usage"]
    assert (usage["completion_tokens"], usage["total_tokens"]) == (27, 32)
    assert usage["completion_tokens_details"]["audio_tokens"] == 20


def test_log_probabilities_of_a_spoken_answer() -> None:
    chosen = Logprob(token("Six", -0.5))
    events: list[Event] = [Started(5), Text("Six", 0, (chosen,)), Text("", 0, (chosen,)), *TEXT[-1:]]
    chunks = one_by_one(make_call(**SPOKEN, logprobs=True), *events)
    assert [delta for delta, _ in deltas(chunks)][1:3] == [
        {"audio": {"id": "audio_12ab34cd", "transcript": "Six"}},
        {"audio": {"transcript": ""}},
    ]
    assert all(chunk["choices"][0]["logprobs"]["content"] for chunk in chunks[1:3])


def test_a_spoken_answer_as_a_whole() -> None:
    body = whole(make_call(**SPOKEN), *SPOKEN_TEXT)
    (choice,) = body["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "Hm.",
        "reasoning": "Hm.",
        "audio": {
            "id": "audio_12ab34cd",
            "data": "AQIDBA==",
            "expires_at": body["created"] + 3600,
            "transcript": "Six. Sure.",
        },
    }


def test_an_answer_without_a_text_has_no_sound() -> None:
    for events in (CALLS, [Started(5), Reasoning("Hm."), Finished(("length",), USAGE)]):
        message = whole(make_call(**SPOKEN), *events)["choices"][0]["message"]
        assert (message["content"], message["audio"]) == (None, None)
        told = [delta for delta, _ in deltas(one_by_one(make_call(**SPOKEN), *events))]
        assert not any("audio" in delta or delta.get("content") is not None for delta in told)
