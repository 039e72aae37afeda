"""Conversations that are too long, in each dialect: what is asked for, and what is told of a summary."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageDeltaEvent

from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Started, Summary, Text, Usage, collect
from orchard.core.request import Overflow
from orchard.dialects.anthropic.messages import parse as anthropic_messages
from orchard.dialects.openai.chat import parse as openai_chat
from orchard.dialects.openai.responses import parse as openai_responses
from tests.dialects.anthropic.messages.test_encode import make_call as messages_call
from tests.dialects.anthropic.messages.test_encode import stream as messages_stream
from tests.dialects.anthropic.messages.test_encode import whole as messages_whole
from tests.dialects.openai.chat.test_encode import make_call as chat_call
from tests.dialects.openai.chat.test_encode import stream as chat_stream
from tests.dialects.openai.chat.test_encode import whole as chat_whole
from tests.dialects.openai.responses.test_encode import make_call as responses_call
from tests.dialects.openai.responses.test_encode import stream as responses_stream

COMPACT = {"edits": [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]}
THRESHOLD = [{"type": "compaction", "compact_threshold": 100_000}]

SUMMARY = Summary(12, 900, 80)
KNOWN = Summary(12, 0, 0)
USAGE = Usage(5, 7, 0, 3)


def answer(summary: Summary | None) -> Sequence[Event]:
    return Started(5, 3, summary), Text("Yes."), Finished(("stop",), USAGE)


@pytest.mark.parametrize("wanted", ["summarize", "error", None])
def test_every_dialect_has_the_field(wanted: Overflow | None) -> None:
    field = {"context_overflow": wanted}
    assert chat_call(**field).request.overflow == wanted
    assert messages_call(**field).request.overflow == wanted
    assert responses_call(**field).request.overflow == wanted


@pytest.mark.parametrize("parse", [openai_chat.parse, anthropic_messages.parse])
def test_a_wrong_value_is_named(parse: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "context_overflow": "drop"}
    with pytest.raises(OrchardError, match="'summarize'") as caught:
        parse(json.dumps(body).encode(), "req_1")
    assert caught.value.param == "context_overflow"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"context_management": COMPACT}, "summarize"),
        ({"context_management": COMPACT, "context_overflow": "error"}, "error"),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, None),
        ({"context_management": {"edits": "compact_20260112"}}, None),
        ({"context_management": [COMPACT]}, None),
    ],
)
def test_anthropics_own_way_to_ask(fields: dict[str, Any], wanted: Overflow | None) -> None:
    assert messages_call(**fields).request.overflow == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"context_management": THRESHOLD}, "summarize"),
        ({"context_management": THRESHOLD, "truncation": "disabled"}, "summarize"),
        ({"context_management": THRESHOLD, "truncation": "auto"}, "error"),
        ({"context_management": THRESHOLD, "context_overflow": "error"}, "error"),
        ({"context_management": ["compaction"]}, None),
        ({"context_management": {"type": "compaction"}}, None),
        # What is dropped is not summarised, whatever the server's own settings say.
        ({"truncation": "auto"}, "error"),
        ({"truncation": "disabled"}, "error"),
        ({"truncation": "disabled", "context_overflow": "summarize"}, "summarize"),
    ],
)
def test_the_ways_to_ask_for_a_response(fields: dict[str, Any], wanted: Overflow | None) -> None:
    assert responses_call(**fields).request.overflow == wanted


def test_older_messages_are_either_dropped_or_summarised() -> None:
    body = {"model": "m", "input": "Hi", "truncation": "auto", "context_overflow": "summarize"}
    with pytest.raises(OrchardError, match="contradict") as caught:
        openai_responses.parse(json.dumps(body).encode())
    assert caught.value.param == "context_overflow"


@pytest.mark.parametrize("summary", [SUMMARY, KNOWN])
def test_a_chat_tells_of_a_summary(summary: Summary) -> None:
    call = chat_call(stream_options={"include_usage": True})
    body, chunks = chat_whole(call, *answer(summary)), chat_stream(call, [answer(summary)])
    told = {"summarized_messages": 12}
    spent = {"prompt_tokens": summary.prompt_tokens, "completion_tokens": summary.completion_tokens}
    assert body["context_overflow"] == told
    assert [chunk["context_overflow"] for chunk in chunks] == [told] * len(chunks)
    assert body["usage"] == chunks[-1]["usage"]
    assert body["usage"]["summary_tokens_details"] == spent
    assert (body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]) == (5, 12)


@pytest.mark.parametrize("summary", [SUMMARY, KNOWN])
def test_a_message_tells_of_a_summary(summary: Summary) -> None:
    body = messages_whole(messages_call(), *answer(summary))
    events = messages_stream(messages_call(), [answer(summary)])
    edit = {"type": "summarize_messages", "summarized_messages": 12}
    assert body["context_management"] == {"applied_edits": [edit]}
    # As in Anthropic's API, a stream says so at its end.
    assert [event["type"] for event in events if "context_management" in event] == ["message_delta"]
    assert events[-2]["context_management"] == body["context_management"]
    assert "context_management" not in events[0]["message"]
    assert events[-2]["usage"].items() <= body["usage"].items()
    assert body["usage"]["input_tokens"] == 2
    iterations = events[-2]["usage"].get("iterations")
    assert body["usage"].get("iterations") == iterations
    if summary.prompt_tokens:
        known = {"cache_creation_input_tokens": 0}
        assert iterations == [
            {"type": "compaction", "input_tokens": 900, "output_tokens": 80, "cache_read_input_tokens": 0, **known},
            {"type": "message", "input_tokens": 2, "output_tokens": 7, "cache_read_input_tokens": 3, **known},
        ]
    else:
        assert iterations is None
    # The SDK takes edits that it does not know.
    assert BetaMessage.construct(**body).context_management
    assert BetaRawMessageDeltaEvent.construct(**events[-2]).context_management


@pytest.mark.parametrize("summary", [SUMMARY, KNOWN])
def test_a_response_tells_of_a_summary(summary: Summary) -> None:
    events = responses_stream(responses_call(), *answer(summary))
    responses = [event["response"] for event in events if "response" in event]
    assert [response["context_overflow"] for response in responses] == [{"summarized_messages": 12}] * 3
    spent = {"input_tokens": summary.prompt_tokens, "output_tokens": summary.completion_tokens}
    assert responses[-1]["usage"]["summary_tokens_details"] == spent
    assert responses[-1]["usage"]["total_tokens"] == 12


def test_nothing_is_told_where_there_is_none() -> None:
    told = [
        chat_whole(chat_call(), *answer(None)),
        chat_stream(chat_call(stream_options={"include_usage": True}), [answer(None)]),
        messages_whole(messages_call(), *answer(None)),
        messages_stream(messages_call(), [answer(None)]),
        responses_stream(responses_call(), *answer(None)),
    ]
    for body in told:
        assert not any(word in json.dumps(body) for word in ("context_", "summary_tokens", "iterations"))


def test_a_whole_answer_keeps_the_summary() -> None:
    assert collect(answer(SUMMARY)).summary == SUMMARY
    assert collect(answer(None)).summary is None
