"""How answers look, streamed and whole."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given

from orchard.core.events import (
    Event,
    Failed,
    Finished,
    Logprob,
    Reasoning,
    Started,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolStart,
    Usage,
    collect,
)
from orchard.dialects.ollama.chat.encode import OllamaChatEncoder
from tests.dialects.ollama.chat.test_parse import make_call
from tests.support.examples import examples
from tests.support.streams import lawful_streams

END = Finished(("stop",), Usage(5, 7), (), {"queue": 0.5, "prefill": 0.25, "decode": 0.125}, 2.0)
TOKEN = TokenLogprob("a", b"a", -0.5)


def stream(events: Sequence[Event], **fields: Any) -> list[Any]:
    encoder = OllamaChatEncoder(make_call(**fields))
    data = b"".join(encoder.encode([event]) for event in events)
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().splitlines()]


def whole(events: Sequence[Event], **fields: Any) -> Any:
    return json.loads(make_call(stream=False, **fields).complete(collect(events)))


def test_a_whole_answer() -> None:
    found = whole([Started(5), Reasoning("Hm."), Text("Yes."), END])
    assert found["message"] == {"role": "assistant", "content": "Yes.", "thinking": "Hm."}
    assert (found["model"], found["done"], found["done_reason"]) == ("demo", True, "stop")
    assert (found["prompt_eval_count"], found["eval_count"]) == (5, 7)
    assert found["prompt_eval_duration"] == 250_000_000
    assert found["eval_duration"] == 2_125_000_000
    assert found["total_duration"] > 0
    assert found["load_duration"] == 0  # all of the time, and more, was for other things
    assert "logprobs" not in found


def test_a_streamed_answer() -> None:
    *pieces, last = stream([Started(5), Reasoning("Hm."), Text("Y"), Text("es."), END])
    assert [piece["message"].get("thinking", "") for piece in pieces] == ["Hm.", "", ""]
    assert [piece["message"]["content"] for piece in pieces] == ["", "Y", "es."]
    assert not any(piece["done"] for piece in pieces)
    assert last["message"] == {"role": "assistant", "content": ""}
    assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "stop", 7)


def test_calls_are_whole_objects() -> None:
    events: list[Event] = [
        Started(5),
        ToolStart(0, "call_1", "add"),
        ToolArgs(0, '{"a":'),
        ToolArgs(0, " 1}"),
        ToolStart(1, "call_2", "now"),
        Finished(("tool_calls",), Usage(5, 7)),
    ]
    calls = [
        {"id": "call_1", "function": {"index": 0, "name": "add", "arguments": {"a": 1}}},
        {"id": "call_2", "function": {"index": 1, "name": "now", "arguments": {}}},
    ]
    first, second, last = stream(events)
    assert [first["message"]["tool_calls"], second["message"]["tool_calls"]] == [calls[:1], calls[1:]]
    assert last["done_reason"] == "stop"
    assert whole(events)["message"]["tool_calls"] == calls


def test_arguments_that_are_no_object_are_wrapped() -> None:
    events: list[Event] = [Started(5), ToolStart(0, "call_1", "add"), ToolArgs(0, "[1"), END]
    assert stream(events)[0]["message"]["tool_calls"][0]["function"]["arguments"] == {"INVALID_JSON": "[1"}


def test_log_probabilities() -> None:
    events: list[Event] = [Started(5), Text("a", 0, (Logprob(TOKEN, (TOKEN,)),)), END]
    one = {"token": "a", "logprob": -0.5, "bytes": [97]}
    expected = [{**one, "top_logprobs": [one]}]
    assert stream(events, logprobs=True)[0]["logprobs"] == expected
    assert whole(events, logprobs=True)["logprobs"] == expected


def test_a_failure_is_the_last_line() -> None:
    assert stream([Started(5), Text("a"), Failed("internal", "It broke.")])[-1] == {"error": "It broke."}


@examples(200)
@given(lawful_streams())
def test_any_stream(events: list[Event]) -> None:
    lines = stream([event for event in events if getattr(event, "choice", 0) == 0])
    assert ("error" in lines[-1]) == isinstance(events[-1], Failed)
    assert [line["done"] for line in lines[:-1]] == [False] * (len(lines) - 1)
    texts = [event.text for event in events if isinstance(event, Text) and event.choice == 0]
    assert "".join(line["message"]["content"] for line in lines if "message" in line) == "".join(texts)
