"""Events of LM Studio's stateful chats."""

import json
from typing import Any

import pytest

from orchard.core.events import Event, Failed, Finished, Reasoning, Started, Text, Usage
from orchard.dialects.lmstudio.chat.encode import ChatProgress, LMStudioChatEncoder

END = Finished(("stop",), Usage(7, 8, 3), first_token_seconds={"decode": 1.0}, later_seconds=3.0)


def progress(load: float | None = None, *shares: float | None) -> ChatProgress:
    """Return the progress of an answer; `load`: the seconds of its load; `shares` are reported one after the other."""
    left = iter(shares)

    async def prompt_share() -> float | None:
        return next(left)

    return ChatProgress(None if load is None else lambda: load, lambda: next(left), prompt_share)


def decode(written: bytes) -> list[dict[str, Any]]:
    found = []
    for event in written.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def encode(*events: Event, load: float | None = None, response_id: str | None = "resp_1") -> list[dict[str, Any]]:
    """Encode the events one by one."""
    encoder = LMStudioChatEncoder("demo", 0.0, progress(load))
    return decode(b"".join(encoder.encode([event]) for event in events) + encoder.finish(response_id))


def test_a_stream_ends_with_the_whole_answer() -> None:
    told = encode(Started(7), Reasoning("Let "), Reasoning("me"), Text("Hel"), Text("lo"), END)
    assert [event["type"] for event in told] == [
        "chat.start",
        "prompt_processing.start",
        "prompt_processing.end",
        *("reasoning.start", "reasoning.delta", "reasoning.delta", "reasoning.end"),
        *("message.start", "message.delta", "message.delta", "message.end"),
        "chat.end",
    ]
    assert told[0] == {"type": "chat.start", "model_instance_id": "demo"}
    assert told[4] == {"type": "reasoning.delta", "content": "Let "}
    result = told[-1]["result"]
    first = result["stats"].pop("time_to_first_token_seconds")
    assert first > 0
    assert result == {
        "model_instance_id": "demo",
        "output": [{"type": "reasoning", "content": "Let me"}, {"type": "message", "content": "Hello"}],
        "stats": {
            "input_tokens": 7,
            "total_output_tokens": 8,
            "reasoning_output_tokens": 3,
            "tokens_per_second": 2.0,
        },
        "response_id": "resp_1",
    }


def test_a_load_is_said() -> None:
    told = encode(Started(7), Text("a"), END, load=2.5, response_id=None)
    assert told[1:3] == [
        {"type": "model_load.start", "model_instance_id": "demo"},
        {"type": "model_load.end", "model_instance_id": "demo", "load_time_seconds": 2.5},
    ]
    assert told[-1]["result"]["stats"]["model_load_time_seconds"] == 2.5
    assert "response_id" not in told[-1]["result"]


async def test_the_progress_of_a_load_and_of_a_prompt() -> None:
    encoder = LMStudioChatEncoder("demo", 0.0, progress(2.5, None, 0.25, 0.25, 0.25, 0.75))
    written = [await encoder.report_progress() for _ in range(3)]
    written.append(encoder.encode([Started(7)]))
    written += [await encoder.report_progress() for _ in range(2)]
    written.append(encoder.encode([Text("a")]))
    assert encoder.progress_seconds is None
    assert await encoder.report_progress() == b""
    named = {"model_instance_id": "demo"}
    assert decode(b"".join(written))[:-2] == [
        {"type": "chat.start", **named},
        {"type": "model_load.start", **named},
        {"type": "model_load.progress", **named, "progress": 0.25},
        {"type": "model_load.end", **named, "load_time_seconds": 2.5},
        {"type": "prompt_processing.start"},
        {"type": "prompt_processing.progress", "progress": 0.25},
        {"type": "prompt_processing.progress", "progress": 0.75},
        {"type": "prompt_processing.end"},
    ]


def test_a_model_that_is_loaded_has_no_progress_before_the_answer_begins() -> None:
    assert LMStudioChatEncoder("demo", 0.0, progress()).progress_seconds is None


def test_an_empty_answer() -> None:
    told = encode(Started(7), END)
    assert [event["type"] for event in told] == [
        "chat.start",
        "prompt_processing.start",
        "prompt_processing.end",
        "chat.end",
    ]
    assert told[-1]["result"]["output"] == []


@pytest.mark.parametrize(("kind", "type_"), [("worker_crashed", "internal_error"), ("timeout", "unknown")])
def test_a_failure_comes_before_what_was_generated(kind: Any, type_: str) -> None:
    *_, ended, failed, last = encode(Started(7), Text("Hel"), Failed(kind, "It broke."))
    assert ended == {"type": "message.end"}
    assert failed == {"type": "error", "error": {"type": type_, "message": "It broke.", "code": kind}}
    assert last["result"]["output"] == [{"type": "message", "content": "Hel"}]
    assert last["result"]["stats"]["total_output_tokens"] == 0


def test_a_stream_that_fails_before_it_has_begun_has_its_first_event_too() -> None:
    told = encode(Failed("overloaded", "Too many."), response_id=None)
    assert [event["type"] for event in told] == ["chat.start", "error", "chat.end"]
    told = encode(Started(7), Failed("internal", "It broke."), response_id=None)
    types = ["chat.start", "prompt_processing.start", "prompt_processing.end", "error", "chat.end"]
    assert [event["type"] for event in told] == types


def test_a_failures_field_has_this_apis_name() -> None:
    *_, failed, _ = encode(Started(7), Failed("invalid_request", "Too long.", "messages"))
    assert failed["error"]["param"] == "input"


def test_line_ends_of_unicode_are_escaped() -> None:
    encoder = LMStudioChatEncoder("demo", 0.0, progress())
    assert "\u2028" not in encoder.encode([Text("a\u2028b")]).decode()
