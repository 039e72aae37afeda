"""A rank's prompt cache. In memory, all ranks have the same prompts; on its disk, each has what it has written there.

What is on disk, and how fast it is read, may differ between ranks, and must not decide what is in memory. So the files
have a radix tree of their own. A prompt comes back into memory when rank 0 says so, if every rank has read its part.
"""

import threading
from collections.abc import Callable, Sequence

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.prefix_cache import radix_tree
from orchard.engine.prefix_cache.cache import Match, PrefixCache
from orchard.engine.prefix_cache.values import Cut
from orchard.engine.ranks.orders import ReadFiles

_WRITE_BACK_BYTES = 32 * 2**20
_SECONDS_FOR_OTHERS = 1.0  # to end reading after rank 0 has; meanwhile, no token is computed


class SharedStore(KVStore):
    """See `KVStore`. Only one prompt at a time is read from disk."""

    def __init__(
        self,
        model: LanguageModel,
        options: TextOptions,
        budget: int,
        wake: Callable[[], None],
        find_extremes: Callable[[int], Sequence[mx.array]],
        *,
        in_pieces: bool = True,
        counted_layers: int | None = None,
    ) -> None:
        """See `KVStore`. `find_extremes`: see `RankGroup`."""
        super().__init__(model, options, budget, wake, in_pieces=in_pieces, counted_layers=counted_layers)
        self._find_extremes = find_extremes
        self._files: PrefixCache | None = None  # nothing stays in its memory
        self._read: tuple[ReadFiles, threading.Event] | None = None
        if self._disk:
            self._files = self._prefixes
            self._prefixes = PrefixCache(budget, self._snapshots, None, options.prompt_cache_size)

    def copy_without_cache(self) -> "SharedStore":
        """See `KVStore`."""
        other = super().copy_without_cache()
        assert isinstance(other, SharedStore)
        other._files = None
        return other

    def limit(self, budget: int, *, saves: bool = False) -> None:
        """See `KVStore`."""
        super().limit(budget, saves=saves)
        if self._files:
            self._files.limit(budget)

    def plan_read(self, job: Job) -> ReadFiles | None:
        """Return what to read for a job, on rank 0; None: its disk has no more of the prompt than the memory."""
        if not self._files or not self._prefixes:
            return None
        text = list(job.cache_scope.add_salt(job.prompt)[:-1])  # the last token must be computed
        length = self._files.count_usable(text, disk=True)
        return ReadFiles(text[:length]) if length > self._prefixes.count_usable(text) else None

    def begin_read(self, read: ReadFiles, on_done: Callable[[], None]) -> None:
        """Begin to read a prompt from this rank's disk, if it is there.

        `on_done` is called at once, or in another thread.
        """
        done = threading.Event()
        self._read = read, done

        def end() -> None:
            done.set()
            on_done()

        match = self._files.find(read.text, len(read.text)) if self._files else None
        if self._files and match and match.length == len(read.text):
            self._files.fetch(match, end)
        else:
            end()

    def end_read(self, *, restores: bool) -> None:
        """Put what was read into memory, if `restores` and every rank has read its part; all ranks call this."""
        assert self._read, "nothing is read"
        (read, done), self._read = self._read, None
        if restores:
            done.wait(_SECONDS_FOR_OTHERS)
            match = self._files.find(read.text, len(read.text), disk=False) if self._files else None
            has_all = match is not None and match.length == len(read.text)
            _, least = self._find_extremes(int(has_all))
            if least.item() and match and self._prefixes:
                self._restore(self._prefixes, read.text, match)
        if self._files:
            self._files.drop_all()

    def _restore(self, prefixes: PrefixCache, text: list[int], match: Match) -> None:
        """Copy a match into memory, an edge of the tree at a time: ranks may have other files, but not other nodes."""
        for begin in range(prefixes.count_covered(text), len(text), radix_tree.MAX_EDGE):
            end, at = min(begin + radix_tree.MAX_EDGE, len(text)), 0
            parts: list[dict[str, mx.array]] = []
            for piece, used in match.pieces:
                first, last = max(begin - at, 0), min(end - at, used)
                if first < last:
                    parts.append({name: array[:, :, first:last] for name, array in piece.arrays.items()})
                at += used
            joined = {name: mx.concatenate([part[name] for part in parts], axis=2) for name in parts[0]}
            prefixes.insert(text[:end], begin, Cut(joined, self._scale))
        if match.snapshot:
            prefixes.insert(text, len(text), None, match.snapshot)

    def write_back(self) -> bool:
        """See `KVStore`. Each rank writes when it has time."""
        if not self._files or not self._prefixes or self._read:
            return False
        return self._prefixes.copy_to_disk(self._files, _WRITE_BACK_BYTES)

    def counters(self) -> dict[str, int]:
        """See `KVStore`."""
        files = self._files.counters if self._files else {}
        return super().counters() | {name: count for name, count in files.items() if name.startswith("disk_")}

    def close(self, timeout: float) -> None:
        """See `KVStore`. Then wait for the other ranks, which end with rank 0."""
        self._read = None
        super().close(timeout)
        if self._files:
            mx.eval(self._find_extremes(0))
