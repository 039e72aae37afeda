"""Caches for rows: new ones, ones that begin with what is known of a prompt, and keeping what a row has computed."""

import copy
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions
from orchard.engine import kv_cache
from orchard.engine.job import Miss
from orchard.engine.model import LanguageModel
from orchard.engine.prefix_cache.arrays import Cut, State
from orchard.engine.prefix_cache.cache import Match, PrefixCache
from orchard.engine.prefix_cache.disk_io import DiskTier

_TEND_BYTES = 32 * 2**20
_SECONDS_BETWEEN_LOOKS = 0.01


class CacheHit(NamedTuple):
    """A row's cache that holds the first `length` tokens of a prompt already, and why not more."""

    cache: kv_cache.Cache
    length: int
    miss: Miss | None


class KVStore:
    """What the engine knows about caches of one model. Only its thread calls this."""

    def __init__(
        self, model: LanguageModel, options: TextOptions, budget: int = 0, wake: Callable[[], None] = lambda: None
    ) -> None:
        """`budget`: what may be kept in memory, in bytes; 0: nothing. `wake` is called in the disk's thread when
        `tend` may have more to do."""
        self._model = model
        self._bits = options.kv_bits
        self._group_size = options.kv_group_size
        self._quantized_from = options.quantized_kv_start
        self._prefixes: PrefixCache | None = None
        self._disk: DiskTier | None = None
        self._snapshots = False
        self._restored: tuple[object, kv_cache.Cache] | None = None
        self.tokens_per_second = 0.0
        """How fast a prompt is read; 0: not known."""
        if budget and kv_cache.cacheable(model.new_cache()):
            if options.prompt_cache_dir:
                folder = Path(options.prompt_cache_dir)
                self._disk = DiskTier(folder, self._fingerprint(options), options.prompt_cache_dir_bytes, wake)
            self._snapshots = kv_cache.needs_snapshot(model.new_cache())
            makers = Cut.from_host, State.from_host
            most = options.prompt_cache_size
            self._prefixes = PrefixCache(budget, self._snapshots, self._disk, *makers, most_texts=most)

    def _fingerprint(self, options: TextOptions) -> str:
        form = (self._bits, self._group_size, self._quantized_from) if self._bits else ()
        return f"{self._model.fingerprint} {form} {options.max_kv_size}"

    def limit(self, budget: int) -> None:
        """Let cached prompts take so many bytes of the memory from now on; 0: none is kept."""
        if self._prefixes is not None:
            self._prefixes.limit(budget)
            self._restored = None

    def new_cache(self) -> kv_cache.Cache:
        """Give an empty cache."""
        return self.settled(self._model.new_cache(), 0)

    def settled(self, cache: kv_cache.Cache, length: int) -> kv_cache.Cache:
        """Give a cache of `length` tokens in the form that it has from this length on: quantised or not."""
        if self._bits is None or length < self._quantized_from:
            return cache
        return kv_cache.quantized(cache, self._bits, self._group_size)

    def settles_at(self, length: int) -> bool:
        """Whether a row that decodes takes another form at this length."""
        return self._bits is not None and length == self._quantized_from > 0

    def stops(self, boundaries: Sequence[int]) -> list[int]:
        """Give the places where reading must pause: where a snapshot is kept, and where quantising begins."""
        stops = set(boundaries) if self._snapshots else set()
        if self._bits is not None and self._quantized_from:
            stops.add(self._quantized_from)
        return sorted(stops)

    def find(self, tokens: list[int]) -> CacheHit:
        """Give a cache that holds as much of a prompt as is known, at most all but its last token."""
        if self._prefixes is None:
            return CacheHit(self.new_cache(), 0, None)
        match = self._prefixes.find(tokens, len(tokens) - 1, disk=False)
        miss = None
        if match.parted < len(tokens):
            given = tokens[match.begin : match.begin + max(len(match.closest), 1)]
            miss = Miss(match.parted, match.begin, match.closest, given)
        return CacheHit(self._restore(match) if match.length else self.new_cache(), match.length, miss)

    def _restore(self, match: Match) -> kv_cache.Cache:
        known = match.pieces, match.snapshot
        if not self._restored or self._restored[0] != known:
            cache = self.settled(self._model.new_cache(), match.length)
            kv_cache.restore(cache, match.pieces, match.snapshot, match.length)
            self._restored = known, cache
        return copy.deepcopy(self._restored[1])

    def let_go(self) -> None:
        """Forget what `find` gave last. Until then, those who find the same share its memory, and a write copies it."""
        self._restored = None

    def fetch(self, tokens: list[int], done: Callable[[], None]) -> bool:
        """Bring what is known of a prompt from the disk; False: there is nothing to wait for.

        Nothing is brought that would be computed sooner. `done` is called in another thread, also where the disk fails.
        """
        if self._prefixes is None:
            return False
        match = self._prefixes.find(tokens, len(tokens) - 1)
        if not match.cold or self._is_computed_sooner(match):
            return False
        self._prefixes.fetch(match, done)
        return True

    def _is_computed_sooner(self, match: Match) -> bool:
        if not self._disk or not self.tokens_per_second:
            return False
        computing = (match.length - match.warm_length) / self.tokens_per_second
        return computing < match.cold_bytes / self._disk.bytes_per_second

    def save(self, tokens: Sequence[int], cache: kv_cache.Cache) -> None:
        """Keep what a row's cache holds: exactly these tokens."""
        if self._prefixes is None or not tokens:
            return
        start = self._prefixes.covered(tokens)
        if self._bits is not None and start < self._quantized_from <= len(tokens) and self._is_quantized(cache):
            return  # what came before quantising began is not known any more
        state = kv_cache.snapshot(cache) if self._snapshots and not self._prefixes.has_snapshot(tokens) else None
        piece = kv_cache.cut(cache, start, len(tokens)) if start < len(tokens) else None
        if state:
            # A lazy copy would keep all of the row's cache alive; the cache copies pieces itself.
            mx.async_eval(state.arrays)  # type: ignore[no-untyped-call]
        if piece or state:
            self._prefixes.insert(tokens, start, piece, state)

    def _is_quantized(self, cache: kv_cache.Cache) -> bool:
        return any(hasattr(layer, "bits") for _, layer in kv_cache.layers(cache))

    def tend(self) -> bool:
        """Hand some of what isn't on disk yet to the disk's thread; whether more could be handed over now."""
        return self._prefixes is not None and self._prefixes.tend(_TEND_BYTES)

    def numbers(self) -> dict[str, int]:
        """Give counters for a report."""
        return self._prefixes.counters if self._prefixes else {}

    def wait_for_files(self, timeout: float) -> None:
        """Wait until the prompts that an earlier process left on disk are found, for at most `timeout` seconds."""
        if self._disk:
            self._disk.scanned.wait(timeout)

    def close(self, timeout: float) -> None:
        """Save what isn't on disk yet, as far as that goes in `timeout` seconds."""
        if not self._disk:
            return
        end = time.monotonic() + timeout
        self.wait_for_files(timeout)  # nothing can be saved before
        while (self.tend() or self._disk.busy) and time.monotonic() < end:
            if self._disk.busy:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._disk.close(max(end - time.monotonic(), 0))
