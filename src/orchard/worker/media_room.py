"""Choose whose media are read next: prepared media wait for the engine, and take far more memory than their files."""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Callable

from orchard.worker.lane import turn_of

MOST_BYTES = 2 * 2**30
"""How many bytes the media of a request may take as the encoder gets them: some 85 million pixels of Qwen's models."""
SHARE = 1 / 8
"""Which part of the memory limit the media of all requests may take, before another one's are read."""


class MediaRoom:
    """Lets one request after the other have its media read, while there is room; see `turn_of` for their order.

    A request may begin where those before it leave room for anything, so a single one of any size may.
    """

    def __init__(self, most_bytes: int, taken: Callable[[], int]) -> None:
        """`taken` tells how many bytes the media of all requests take that have been read."""
        self._most_bytes = most_bytes
        self._taken = taken
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._reads = False

    @contextlib.asynccontextmanager
    async def turn(self, yields: float) -> AsyncIterator[None]:
        """Wait until media that yield for so many seconds may be read; what they take counts when the context ends."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (turn_of(yields), next(self._numbers), turn))
        self.go_on()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._reads = False
            self.go_on()

    def go_on(self) -> None:
        """Let the next one begin, if nothing is read now and there is room; call it whenever a request has ended."""
        while self._waiting and not self._reads and self._taken() <= self._most_bytes:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():  # its request is still there
                self._reads = True
                turn.set_result(None)
