"""Limits the memory of prepared media, which wait for the engine and take far more memory than their files."""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Callable

from orchard.device.lane import turn_of

MOST_MEDIA_BYTES = 2 * 2**30
"""The most bytes of a request's media as the encoder gets them: about 85 million pixels of Qwen's models."""
MEDIA_SHARE = 1 / 8
"""The share of the memory limit that the media of all requests may take; beyond it, no more are read."""


class MediaRoom:
    """Lets requests read their media one after the other, while there is room; see `turn_of` for their order.

    A request may begin while the media before it don't exceed the limit. So a single request may have any size.
    """

    def __init__(self, most_bytes: int, used_bytes: Callable[[], int]) -> None:
        """`used_bytes` returns the bytes of all media that have been read."""
        self._most_bytes = most_bytes
        self._used_bytes = used_bytes
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._is_reading = False

    @contextlib.asynccontextmanager
    async def turn(self, yields: float) -> AsyncIterator[None]:
        """Wait until media may be read; smaller ones go first for `yields` seconds.

        The media count once the context ends.
        """
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (turn_of(yields), next(self._numbers), turn))
        self.start_next()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._is_reading = False
            self.start_next()

    def start_next(self) -> None:
        """Let the next request begin if none is reading and there is room. Call this whenever a request has ended."""
        while self._waiting and not self._is_reading and self._used_bytes() <= self._most_bytes:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():  # its request was not cancelled
                self._is_reading = True
                turn.set_result(None)
