"""Several streams as one: whatever comes in whichever order, the law of the stream is kept and nothing is lost."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from orchard.core.events import Event, Failed, Finished, Started, Text, Usage, collect
from orchard.gateway.replies.merge import Merge
from tests.support.examples import examples
from tests.support.streams import lawful_streams


async def drain(merge: Merge) -> list[Event]:
    return await merge.stream.next(0)


def choices_of(events: Sequence[Event]) -> int:
    if isinstance(events[-1], Finished):
        return len(events[-1].reasons)
    return 1 + max(getattr(event, "choice", 0) for event in events)


@examples(200)
@given(st.lists(lawful_streams(), min_size=1, max_size=4), st.data())
async def test_streams_become_one(streams: list[list[Event]], data: st.DataObject) -> None:
    merge = Merge([choices_of(events) for events in streams])
    dropped: list[int] = []
    for place, part in enumerate(merge.parts):
        part.on_drop = lambda place=place: dropped.append(place)
    left = {place: list(events) for place, events in enumerate(streams)}
    seen: list[Event] = []
    failed: int | None = None
    while left:
        place = data.draw(st.sampled_from(sorted(left)))
        count = data.draw(st.integers(1, len(left[place])))
        batch, left[place] = left[place][:count], left[place][count:]
        if failed is None and isinstance(batch[-1], Failed):
            failed = place
        merge.parts[place].push(batch)
        if not left[place]:
            del left[place]
        if data.draw(st.booleans()) and merge.stream._events:
            seen += await drain(merge)
    if merge.stream._events:
        seen += await drain(merge)
    assert merge.stream.ended
    assert all(not isinstance(event, Started) for event in seen[1:])
    assert all(not isinstance(event, Finished | Failed) for event in seen[:-1])
    if failed is not None:
        assert seen[-1] == streams[failed][-1]
        assert failed not in dropped
        return
    assert dropped == []
    assert seen[0] == Started(sum(events[0].prompt_tokens for events in streams if isinstance(events[0], Started)))
    each = [collect(events) for events in streams]
    merged = collect(seen)
    assert merged.choices == [choice for one in each for choice in one.choices]
    usages = [one.usage for one in each]
    assert merged.usage == Usage(
        *(sum(numbers) for numbers in zip(*(_numbers(usage) for usage in usages), strict=True))
    )


def _numbers(usage: Usage) -> tuple[int, ...]:
    return usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens, usage.cached_tokens


async def test_the_start_waits_for_all() -> None:
    merge = Merge([1, 2])
    first, second = merge.parts
    first.push([Started(2, 1), Text("a")])
    assert not merge.stream._events
    second.push([Started(3, 2)])
    second.push([Text("b", 1)])
    assert await drain(merge) == [Started(5, 3), Text("a", 0), Text("b", 2)]
    first.push([Finished(("stop",), Usage(2, 1))])
    second.push([Finished(("length", "stop"), Usage(3, 2), ("x", None))])
    assert await drain(merge) == [Finished(("stop", "length", "stop"), Usage(5, 3), (None, "x", None))]


async def test_one_that_fails_before_the_start_fails_all_before_it() -> None:
    merge = Merge([1, 1, 1])
    dropped: list[str] = []
    for name, part in zip("abc", merge.parts, strict=True):
        part.on_drop = lambda name=name: dropped.append(name)
    merge.parts[0].push([Started(2), Text("a")])
    failed = Failed("invalid_request", "no")
    merge.parts[1].push([failed])
    assert await drain(merge) == [failed]
    assert dropped == ["a", "c"]
    merge.parts[2].push([Started(1)])
    assert not merge.stream._events


def test_closing_closes_all_that_run() -> None:
    merge = Merge([1, 1])
    dropped: list[str] = []
    for name, part in zip("ab", merge.parts, strict=True):
        part.on_drop = lambda name=name: dropped.append(name)
    merge.parts[0].push([Started(1), Finished(("stop",), Usage(1, 1))])
    merge.stream.close()
    merge.stream.close()
    assert dropped == ["b"]


async def test_one_of_them_begins_anew_until_something_was_passed_on() -> None:
    merge = Merge([1, 1])
    first, second = merge.parts
    first.push([Started(1), Text("lost")])
    assert first.restart()
    second.push([Started(2)])
    assert not merge.stream._events
    first.push([Started(1), Text("a")])
    assert await drain(merge) == [Started(3), Text("a", 0)]
    assert not first.restart()


async def test_a_reader_that_can_forget_gets_all_at_the_end_and_each_may_restart_until_then() -> None:
    merge = Merge([1, 1])
    merge.stream.may_restart(lambda: None)
    first, second = merge.parts
    first.push([Started(1), Text("a"), Finished(("stop",), Usage(1, 1))])
    second.push([Started(2), Text("lost")])
    assert second.restart()
    second.push([Started(2), Text("b"), Finished(("stop",), Usage(2, 1))])
    assert await drain(merge) == [Started(3), Text("a", 0), Text("b", 1), Finished(("stop", "stop"), Usage(3, 2))]


def test_the_caller_of_all_sees_what_one_waits_for() -> None:
    merge = Merge([1, 1])
    assert merge.stream.waits_for() == ""
    merge.parts[1].waits_for = lambda: "loading 5%"
    assert merge.stream.waits_for() == "loading 5%"


async def test_who_reads_a_merged_stream_too_slowly_pauses_all_its_requests() -> None:
    merge = Merge([1, 1])
    told: list[tuple[int, bool]] = []
    for place, part in enumerate(merge.parts):
        part.on_lag = lambda lags, place=place: told.append((place, lags))
        part.push([Started(1)])
    merge.parts[0].push([Text("x" * 1_000_000)])
    assert told == [(0, True), (1, True)]
    await merge.stream.next(1)
    assert told[2:] == [(0, False), (1, False)]
