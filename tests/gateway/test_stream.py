import asyncio

from orchard.core.events import Failed, Finished, Started, Text, Usage
from orchard.gateway.stream import EventStream

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


async def test_what_nobody_has_seen_begins_anew() -> None:
    stream = EventStream()
    stream.push([Started(1), Text("lost")])
    assert stream.begin_anew()
    assert not stream.begun
    stream.push([Started(1), DONE])
    assert await stream.next(1) == [Started(1), DONE]
    assert not stream.begin_anew()


async def test_what_somebody_has_seen_does_not_unless_the_reader_holds() -> None:
    seen, held = EventStream(), EventStream()
    held.hold()
    for stream in (seen, held):
        stream.push([Started(1)])
        await stream.next(1)
    assert not seen.begin_anew()
    assert held.begin_anew()
    assert (seen.turn, held.turn) == (0, 1)
