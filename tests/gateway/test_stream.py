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
