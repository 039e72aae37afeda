"""Divides the memory between rows and cached prompts, and gives it up in order when the share shrinks.

It first gives up the buffers that MLX keeps for its next computation, then cached prompts. Then the scheduler preempts
rows.
"""

import logging
import time
from collections import Counter
from functools import cache
from typing import NamedTuple

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import recommended_bytes
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.speculation.speculation import Speculation

log = logging.getLogger("orchard.engine")

_CACHE_SHARE = 0.25  # of what the weights leave
_BUFFERS = 16  # the part of what the weights leave that MLX's free buffers may take: see docs/decisions.md
_SECONDS_BETWEEN_LINES = 10.0
_REGROWTH = 16  # the budget of cached prompts grows in steps of this part of the memory


class Shares(NamedTuple):
    """The most bytes for rows and the passes over them, and for cached prompts; `available`: for both, for now."""

    rows: int
    cache: int
    available: int

    @property
    def rows_now(self) -> int:
        """The bytes that rows may take for now: cached prompts make room for them."""
        return min(self.rows, self.available)

    @property
    def is_short(self) -> bool:
        """Whether the model has less memory for now than it would have alone."""
        return self.available < self.rows + self.cache


class Use(NamedTuple):
    """The bytes that rows and cached prompts take; `wanted`: the bytes that the oldest starved job needs to run."""

    rows: int = 0
    prompts: int = 0
    wanted: int = 0


def memory_limit(options: TextOptions) -> int:
    """Return how many bytes weights, KV caches and cached prompts may take together."""
    return options.memory_limit or recommended_bytes()


@cache
def _default_buffer_limit() -> int:
    """Return the limit of MLX's free buffers before this process has changed it."""
    usual = mx.set_cache_limit(0)
    mx.set_cache_limit(usual)
    return usual


def divide_memory(options: TextOptions, weights_bytes: int, memory_bytes: int | None = None) -> Shares:
    """Divide what the weights leave of the limit; if they leave nothing, all shares are 0.

    Cached prompts get what the options say, but at most half; a quarter if the options don't say. `memory_bytes`: what
    the model may take for now; None: the limit.
    """
    most = max(memory_limit(options) - weights_bytes, 0)
    wanted = options.prompt_cache_bytes
    cache = int(most * _CACHE_SHARE) if wanted is None else min(wanted, most // 2)
    left = most if memory_bytes is None else min(max(memory_bytes - weights_bytes, 0), most)
    return Shares(most - cache, cache, left)


class MemoryGiver:
    """Gives up memory that rows need. Only the engine's thread uses it."""

    def __init__(self, store: KVStore, speculation: Speculation | None) -> None:
        self._store = store
        self._speculation = speculation
        self._shares = Shares(0, 0, 0)
        self._budget = -1
        self._released: Counter[str] = Counter()
        self._logged_at = float("-inf")

    @property
    def is_short(self) -> bool:
        """Whether the model has less memory for now than it would have alone."""
        return self._shares.is_short

    def limit(self, shares: Shares, rows_bytes: int) -> None:
        """Keep within these shares from now on; `rows_bytes`: what the rows take."""
        self._shares = shares
        buffers = mx.get_cache_memory()
        bound = min(shares.available // _BUFFERS, _default_buffer_limit())
        mx.set_cache_limit(bound)
        if buffers > bound:
            mx.clear_cache()
            self.log_release("MLX's free buffers", buffers - mx.get_cache_memory())
        self._limit_cache(self._cache_budget(rows_bytes), saves=True)

    def make_room(self, rows_bytes: int) -> None:
        """Give cached prompts what rows of `rows_bytes` bytes leave."""
        budget = self._cache_budget(rows_bytes)
        # The budget grows back in large steps, because each change costs time.
        if budget < self._budget or budget >= self._budget + self._shares.available // _REGROWTH:
            self._limit_cache(budget)

    def _cache_budget(self, rows_bytes: int) -> int:
        return min(self._shares.cache, max(self._shares.available - rows_bytes, 0))

    def _limit_cache(self, budget: int, *, saves: bool = False) -> None:
        if budget == self._budget:
            return
        self._budget = budget
        before = self._store.nbytes
        self._store.limit(self._speculation.limit(budget) if self._speculation else budget, saves=saves)
        self.log_release("cached prompts", before - self._store.nbytes)

    def log_release(self, kind: str, nbytes: int) -> None:
        """Write to the log, now and then, that memory of this kind was given up, and why."""
        if nbytes <= 0:
            return
        self._released[kind] += nbytes
        if (now := time.monotonic()) - self._logged_at >= _SECONDS_BETWEEN_LINES:
            self._logged_at = now
            why = "other models or programs take memory" if self.is_short else "running requests need more"
            told = "%s bytes of %s are given up, because %s; requests and cached prompts may take %s"
            for name, freed in self._released.items():
                log.info(told, f"{freed:,}", name, why, f"{self._shares.available:,}")
            self._released.clear()
