import asyncio

import pytest

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
    Usage,
)
from orchard.gateway.replies import event_stream as module
from orchard.gateway.replies.event_stream import EventStream, collect_events

DONE = Finished(("stop",), Usage(1, 1))
GONE = Failed("cancelled", "gone")


async def test_a_reader_gets_all_that_has_come() -> None:
    stream = EventStream()
    stream.push([Started(1)])
    stream.push([Text("a"), Text("b")])
    assert await stream.next(1) == [Started(1), Text("a"), Text("b")]


async def test_a_waiting_reader_is_woken() -> None:
    stream = EventStream()
    reader = asyncio.create_task(stream.next(10))
    await asyncio.sleep(0)
    stream.push([Text("a")])
    assert await reader == [Text("a")]


async def test_nothing_comes_in_time() -> None:
    assert await EventStream().next(0.01) == []


async def test_nothing_follows_the_end() -> None:
    stream = EventStream()
    stream.push([DONE])
    stream.push([Text("late")])
    stream.close(GONE)
    assert await stream.next(1) == [DONE]


async def test_closing_before_the_end_drops_the_work_once_and_tells_the_reader() -> None:
    drops: list[int] = []
    stream = EventStream()
    stream.on_drop = lambda: drops.append(1)
    stream.close(GONE)
    stream.close(GONE)
    assert await stream.next(1) == [GONE]
    assert drops == [1]


async def test_closing_after_the_end_drops_nothing() -> None:
    drops: list[int] = []
    stream = EventStream()
    stream.on_drop = lambda: drops.append(1)
    stream.push([DONE])
    stream.close()
    assert not drops


async def test_the_end_is_told_of_once_however_it_comes() -> None:
    ends: list[str] = []
    pushed, closed = EventStream(), EventStream()
    for stream in (pushed, closed):
        stream.on_end = lambda: ends.append("end")
    pushed.push([DONE])
    closed.close(GONE)
    for stream in (pushed, closed):
        stream.close()
    assert ends == ["end", "end"]


async def test_all_that_comes_is_shown_to_the_observer() -> None:
    shown: list[object] = []
    stream = EventStream()
    stream.on_events = shown.extend
    stream.push([Started(1)])
    stream.close(GONE)
    stream.push([DONE])
    assert shown == [Started(1), GONE]


async def test_what_nobody_has_seen_restarts() -> None:
    stream = EventStream()
    stream.push([Started(1), Text("lost")])
    assert stream.restart()
    assert not stream.begun
    stream.push([Started(1), DONE])
    assert await stream.next(1) == [Started(1), DONE]
    assert not stream.restart()


async def test_what_somebody_has_seen_does_not_unless_the_reader_can_forget_it() -> None:
    forgotten: list[str] = []
    seen, held = EventStream(), EventStream()
    held.may_restart(lambda: forgotten.append("all"))
    for stream in (seen, held):
        stream.push([Started(1)])
        await stream.next(1)
    assert not seen.restart()
    assert held.restart()
    assert forgotten == ["all"]
    held.may_restart(None)  # somebody is shown what the reader has read
    assert not held.restart()


async def test_a_stream_that_was_read_does_not_restart_after_an_empty_read() -> None:
    stream = EventStream()
    stream.push([Started(1)])
    await stream.next(1)
    assert await stream.next(0) == []
    assert not stream.restart()


async def test_a_whole_answer_has_nothing_of_what_came_before_a_restart() -> None:
    stream = EventStream()
    stream.push([Started(1), Text("lost")])
    answer = asyncio.create_task(collect_events(stream))
    await asyncio.sleep(0)
    assert stream.restart()
    stream.push([Started(1), Text("a"), Finished(("stop",), Usage(1, 1))])
    assert [choice.text for choice in (await answer).choices] == ["a"]


def lagging() -> tuple[EventStream, list[bool]]:
    told: list[bool] = []
    stream = EventStream()
    stream.on_lag = told.append
    return stream, told


TOKEN = TokenLogprob("x", b"x", -1.0)


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (Text("x" * 1000), 256),
        (Reasoning("x" * 1000), 256),
        (ToolArgs(0, "x" * 1000), 256),
        (Text("x", 0, (Logprob(TOKEN, (TOKEN,) * 20),)), 128),
        (Text("x"), 4096),
    ],
)
async def test_no_more_is_made_while_too_much_is_unread(event: Event, most: int) -> None:
    stream, told = lagging()
    pushed = 0
    while not told:
        stream.push([event])
        pushed += 1
    assert most / 8 < pushed < most
    stream.push([event])  # it was under way
    assert len(await stream.next(1)) == pushed + 1
    stream.push([event])
    assert told == [True, False]


async def test_a_reader_that_is_busy_for_long_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't send, since its client reads nothing. One that waits for events, however long, does not lag."""
    monkeypatch.setattr(module, "_LAG_SECONDS", -1.0)
    stream, told = lagging()
    for _ in range(3):
        reader = asyncio.create_task(stream.next(10))
        await asyncio.sleep(0)
        stream.push([Text("a")])
        assert await reader == [Text("a")]
    assert told == []
    monkeypatch.setattr(module, "_LAG_SECONDS", 100.0)
    stream.push([Text("b")])
    stream.push([Text("c")])
    assert told == []
    monkeypatch.setattr(module, "_LAG_SECONDS", -1.0)
    stream.push([Text("d")])
    assert told == [True]
    assert await stream.next(1) == [Text("b"), Text("c"), Text("d")]
    assert told == [True, False]


async def test_what_was_unread_at_the_end_is_no_lag() -> None:
    stream, told = lagging()
    stream.push([Text("x" * 1_000_000), DONE])
    assert await stream.next(1) == [Text("x" * 1_000_000), DONE]
    assert not told


async def test_a_reader_that_lags_for_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LAG_SECONDS", 0.01)
    stream, told = lagging()
    dropped = asyncio.Event()
    stream.on_drop = dropped.set
    stream.push([Text("x" * 1_000_000)])
    await asyncio.wait_for(dropped.wait(), 10)
    text, end = await stream.next(1)
    assert text == Text("x" * 1_000_000)
    assert isinstance(end, Failed)
    assert end.kind == "timeout"
    assert told == [True]


async def test_a_reader_for_whom_more_goes_on_being_made_is_given_up() -> None:
    stream, _ = lagging()
    stream.push([Text("x" * 5_000_000)])  # as the echo of a prompt may be
    pushed = 0
    while not stream.ended:
        stream.push([Text("x" * 1000)])
        pushed += 1
    assert 512 < pushed < 2048
    assert isinstance((await stream.next(1))[-1], Failed)


async def test_a_reader_that_catches_up_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LAG_SECONDS", 0.01)
    stream, _ = lagging()
    stream.push([Text("x" * 1_000_000)])
    await stream.next(1)
    assert await stream.next(0.05) == []
    assert not stream.ended


async def test_what_is_forgotten_is_unread_no_more() -> None:
    stream, told = lagging()
    stream.push([Text("x" * 1_000_000)])
    assert stream.restart()
    assert told == [True, False]
    stream.push([Text("x")])
    assert stream.on_lag is None
