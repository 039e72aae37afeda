from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.events import (
    Collected,
    Collector,
    Event,
    Failed,
    Finished,
    Logprob,
    Output,
    Reasoning,
    Started,
    Summary,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolCall,
    ToolStart,
    Usage,
    collect,
    merge,
)
from tests.support.streams import lawful_streams

DONE = Finished(("stop",), Usage(1, 1))


def test_collect_joins_the_pieces_of_each_choice() -> None:
    logprob = Logprob(TokenLogprob("b", b"b", -0.5))
    result = collect(
        [
            Started(3),
            Reasoning("hm"),
            Text("a"),
            Text("x", 1),
            Text("b", logprobs=(logprob,)),
            ToolStart(0, "call_1", "add"),
            ToolArgs(0, '{"a":'),
            ToolArgs(0, "1}"),
            Finished(("tool_calls", "length"), Usage(3, 9, 2)),
        ]
    )
    first, second = result.choices
    assert (first.text, first.reasoning, first.reason) == ("ab", "hm", "tool_calls")
    assert first.tool_calls == [ToolCall("call_1", "add", '{"a":1}')]
    assert first.logprobs == [logprob]
    assert (second.text, second.reason) == ("x", "length")
    assert result.usage == Usage(3, 9, 2)


def test_collect_keeps_the_order() -> None:
    events: list[Event] = [
        Text("a"),
        Reasoning("b"),
        Text(""),
        Reasoning("c"),
        ToolStart(0, "call_1", "add"),
        ToolStart(1, "call_2", "add"),
        ToolArgs(1, "{}"),
        Text("d"),
    ]
    (choice,) = collect([*events, DONE]).choices
    calls = [ToolCall("call_1", "add"), ToolCall("call_2", "add", "{}")]
    assert choice.parts == [Text("a"), Reasoning("bc"), *calls, Text("d")]
    assert (choice.text, choice.reasoning, choice.tool_calls) == ("ad", "bc", calls)


def test_an_empty_answer_is_an_answer() -> None:
    assert collect([Started(1), DONE]).choices[0].text == ""


def test_nothing_of_what_was_cleared_is_collected() -> None:
    first: list[Event] = [Started(9, 9, summary=Summary(1, 2, 3)), Text("a"), Output(b"a")]
    second: list[Event] = [Started(2, 0), Text("b"), Output(b"b"), Finished(("stop",), Usage(2, 1))]
    collector = Collector()
    collector.add(first)
    collector.clear()
    collector.add(second)
    assert collector.result == collect(second)


def test_collect_raises_what_the_stream_failed_with() -> None:
    error = OrchardError("context_length_exceeded", "too long", param="messages", retry_after=3)
    with pytest.raises(OrchardError) as raised:
        collect([Started(1), Text("a"), Failed.from_error(error)])
    assert vars(raised.value) == vars(error)


def test_collect_refuses_a_stream_without_an_end() -> None:
    with pytest.raises(ValueError, match="Finished"):
        collect([Started(1), Text("a")])


@given(lawful_streams())
def test_merging_changes_nothing_that_is_collected(events: list[Event]) -> None:
    merged = merge(events)
    assert _outcome(merged) == _outcome(events)
    for left, right in pairwise(merged):
        assert not (isinstance(left, Text) and isinstance(right, Text) and left.choice == right.choice)


def _outcome(events: list[Event]) -> Collected | str:
    try:
        return collect(events)
    except OrchardError as error:
        return error.message


@given(st.lists(st.text(), min_size=1))
def test_neighbouring_texts_become_one(texts: list[str]) -> None:
    assert merge([Text(text) for text in texts]) == [Text("".join(texts))]
