"""Media are read while there is room for what is made of them."""

import asyncio

from orchard.backends.text.media_room import MediaRoom


class Taken:
    """What the media take that have been read."""

    def __init__(self) -> None:
        self.bytes = 0
        self.read: list[float] = []


async def read(room: MediaRoom, taken: Taken, size: float, go: asyncio.Event) -> None:
    async with room.turn(size):
        await go.wait()
        taken.read.append(size)
        taken.bytes += int(size)


def going() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_others_wait_until_there_is_room() -> None:
    """The smallest goes first, and one that is larger than all of the room goes alone."""
    taken = Taken()
    room = MediaRoom(9, lambda: taken.bytes)
    tasks = [asyncio.create_task(read(room, taken, size, going())) for size in (50, 7, 4, 6)]
    await settle()
    assert taken.read == [50]
    for expected in ([50, 4, 6], [50, 4, 6, 7]):
        taken.bytes = 0
        room.start_next()
        await settle()
        assert taken.read == expected
    await asyncio.gather(*tasks)


async def test_large_media_do_not_wait_for_all_that_come_later() -> None:
    """Three clients that send small files, one after the other, would keep them waiting for as long as they send."""
    taken, go = Taken(), asyncio.Event()
    room = MediaRoom(9, lambda: 0)
    tasks = [asyncio.create_task(read(room, taken, 0, go))]
    await settle()
    tasks.append(asyncio.create_task(read(room, taken, 0.01, go)))
    await settle()
    await asyncio.sleep(0.02)
    tasks.append(asyncio.create_task(read(room, taken, 0.001, go)))
    await settle()
    go.set()
    await asyncio.gather(*tasks)
    assert taken.read == [0, 0.01, 0.001]


async def test_one_after_the_other() -> None:
    """What one takes is known only when it has been read."""
    taken, go = Taken(), asyncio.Event()
    room = MediaRoom(9, lambda: taken.bytes)
    tasks = [asyncio.create_task(read(room, taken, 20, go)) for _ in range(2)]
    await settle()
    go.set()
    await settle()
    assert taken.read == [20]
    taken.bytes = 0
    room.start_next()
    await asyncio.gather(*tasks)


async def test_who_leaves_makes_place() -> None:
    """While it waits, and while it reads."""
    taken, never = Taken(), asyncio.Event()
    room = MediaRoom(9, lambda: taken.bytes)
    reads, waits, last = (asyncio.create_task(read(room, taken, 1, go)) for go in (never, never, going()))
    await settle()
    waits.cancel()
    await settle()
    assert not last.done()
    reads.cancel()
    await settle()
    assert taken.read == [1]
    await last
