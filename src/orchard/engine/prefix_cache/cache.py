"""The prefix cache: keys and values of prompts and generated turns, found by their tokens.

`memory_tier` decides what is in memory and what leaves it, `disk_index` what is on disk. A node of the radix tree that
has left memory stays in the tree as long as it is on disk: it is cold.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from orchard.engine.prefix_cache.disk_index import DiskIndex
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.memory_tier import MemoryTier
from orchard.engine.prefix_cache.radix_tree import Node, after, slots_of, walk
from orchard.engine.prefix_cache.values import Cut, State, pack

_AROUND = 16  # tokens
Run = tuple[int, int]
"""The first place of some tokens, and the one behind their last."""


class Miss(Struct, frozen=True):
    """Why no more of a prompt was cached: from token `place` on it differs from the closest cached text.

    `cached` and `given` are the tokens around the place, in the cached text and in the prompt, and begin at `begin`: up
    to 16 before it and 16 after it. The cached text ends at the place where `cached` does. `media_ids` stand for media.
    `medium`: the number, from 1, of the prompt's medium that begins or goes on at the place; None: it has text there.
    """

    place: int
    begin: int
    cached: list[int]
    given: list[int]
    medium: int | None = None


class Match(Struct, frozen=True):
    """What of a prompt is cached.

    `length` tokens of it can be had: `pieces` (payloads, and how many tokens of each, from its first) one after the
    other, with `snapshot` where the model needs one. `cold`: some of it, of `cold_bytes`, is only on disk, and not in
    `pieces` and `snapshot`; without it, `warm_length` tokens could be had. `miss` is None where all tokens are those
    of some cached text, usable or not. `nodes` is the cache's own. A match keeps its payloads alive, outside of the
    cache's budget.
    """

    length: int
    pieces: list[tuple[Cut, int]]
    snapshot: State | None
    cold: bool
    cold_bytes: int
    warm_length: int
    miss: Miss | None
    nodes: list[Node]


class PrefixCache:
    """Lives in the engine's thread. Every method takes whole texts, from their first token."""

    def __init__(
        self, budget_bytes: int, needs_snapshot: bool, disk: DiskTier | None, most_texts: int | None = None
    ) -> None:
        """`needs_snapshot`: the model has layers that can't be cut, so a prefix is usable only where their state is
        known. Whoever made `disk` closes it.
        `most_texts`: of the texts in memory, how many may be no other's beginning."""
        self._needs_snapshot = needs_snapshot
        self._memory = MemoryTier(budget_bytes, disk.fingerprint if disk else "", most_texts)
        self._disk = DiskIndex(disk, self._memory) if disk else None
        self._hits = 0
        self._misses = 0
        self._tokens = 0

    @property
    def counters(self) -> dict[str, int]:
        """Numbers for a report. `entries` are payloads and snapshots in memory, `tokens` those that hits gave."""
        return {
            "hits": self._hits,
            "misses": self._misses,
            "tokens": self._tokens,
            "entries": len(self._memory.order),
            "bytes": self._memory.nbytes,
            "budget_bytes": self._memory.budget,
            "disk_entries": len(self._disk) if self._disk else 0,
            "disk_bytes": self._disk.nbytes if self._disk else 0,
        }

    def find(self, tokens: Sequence[int], limit: int, disk: bool = True, media: Sequence[Run] = ()) -> Match:
        """Find the longest prefix of at most `limit` tokens that is cached; `disk`: in memory or on disk.

        `media`: runs of tokens, ascending, within which it must not end. With `disk` it is a look at what might be
        fetched, and isn't counted as a hit or a miss.
        """
        self._absorb()
        text = pack(tokens)
        nodes, parted = walk(self._memory.root, text)
        path, length = self._usable(nodes, min(parted, limit), disk, media)
        pieces = [
            (node.payload.value, min(node.end, length) - node.start) for node in path if node.payload.value is not None
        ]
        end = path[-1] if path and self._needs_snapshot else None
        snapshot = end.snapshot.value if end else None
        missing = [slot for slot in slots_of(path, end) if slot.value is None]
        warm_length = self._usable(nodes, min(parted, limit), False, media)[1] if missing else length
        if length:
            self._memory.touch(path, end)
            if self._disk is not None:
                self._disk.touch(path, end)
        if not disk:
            self._hits += length > 0
            self._misses += length == 0
            self._tokens += length
        miss = None
        if parted < len(tokens):
            begin = max(parted - _AROUND, 0)
            cached = [*tokens[begin:parted], *after(nodes or [self._memory.root], parted, _AROUND)]
            medium = next((number for number, run in enumerate(media, 1) if run[0] <= parted < run[1]), None)
            miss = Miss(parted, begin, cached, list(tokens[begin : begin + max(len(cached), 1)]), medium)
        cold_bytes = sum(slot.nbytes for slot in missing)
        return Match(length, pieces, snapshot, bool(missing), cold_bytes, warm_length, miss, path)

    def covered(self, tokens: Sequence[int]) -> int:
        """Count the tokens whose payloads are in memory, from the first on."""
        self._absorb()
        return self._covered(*walk(self._memory.root, pack(tokens)))

    def has_snapshot(self, tokens: Sequence[int]) -> bool:
        """Whether the snapshot at the end of a text is in memory."""
        self._absorb()
        nodes, known = walk(self._memory.root, pack(tokens))
        return bool(nodes) and nodes[-1].end == known == len(tokens) and nodes[-1].snapshot.value is not None

    def insert(self, tokens: Sequence[int], start: int, payload: Cut | None, snapshot: State | None = None) -> None:
        """Keep the payload of tokens[start:] and the snapshot at the end; what is there already stays as it is.

        Nothing is kept where tokens[:start], or without a payload all of them, aren't `covered`. The payload may be a
        view of somebody's arrays, for only parts of it are kept; the snapshot must own its memory.
        """
        self._absorb()
        text = pack(tokens)
        nodes, known = walk(self._memory.root, text)
        covered = self._covered(nodes, known)
        if not tokens or covered < (len(tokens) if payload is None else start):
            return
        # Where only the head of a cold node is brought, the node is cut, so that it is warm or cold as a whole.
        boundary = snapshot is not None or covered < known
        path = self._memory.add_path(self._memory.root, text, boundary)
        try:
            for node in path:
                if node.payload.value is None:
                    assert payload is not None
                    self._memory.hold(node.payload, payload.part(node.start - start, node.end - start))
        except BaseException:
            self._memory.touch(path)
            if bare := next((node for node in path if node.payload.value is None and node.payload.file is None), None):
                self._memory.drop(bare)
            raise
        if snapshot is not None and path[-1].snapshot.value is None:
            self._memory.hold(path[-1].snapshot, snapshot)
        self._memory.touch(path, path[-1] if snapshot is not None else None)
        self._memory.evict()

    def limit(self, budget_bytes: int) -> None:
        """Limit what is in memory to so many bytes from now on."""
        self._absorb()
        self._memory.budget = budget_bytes
        self._memory.evict()

    def write_back(self, limit_bytes: int) -> bool:
        """Copy about `limit_bytes` of what isn't on disk yet to the host, for the I/O thread to write.

        Wait for the device, never for the disk. Return whether more could be done now: not while the disk is behind;
        the tier calls `wake` once it isn't.
        """
        self._absorb()
        return self._disk is not None and self._disk.write_back(limit_bytes)

    def fetch(self, match: Match, done: Callable[[], None]) -> None:
        """Let the I/O thread read what a cold match lacks; it calls `done` when that is in memory or known broken.

        Then look again with `find(..., disk=False)`: under a tight budget it may be gone once more. Where there is
        nothing to read, `done` is called before this returns.
        """
        if self._disk is None or not match.nodes:
            done()
        else:
            self._disk.fetch(match.nodes[-1], self._needs_snapshot, done)

    def _absorb(self) -> None:
        if self._disk is not None:
            self._disk.absorb()

    def _covered(self, nodes: Sequence[Node], known: int) -> int:
        cold = next((node.start for node in nodes if node.payload.value is None), known)
        return min(cold, known)

    def _usable(self, nodes: list[Node], most: int, disk: bool, media: Sequence[Run]) -> tuple[list[Node], int]:
        """Return the path to the end of the longest usable prefix of at most `most` tokens, and its length."""
        length, nbytes = 0, 0
        for node in nodes:
            nbytes += node.payload.nbytes
            # What the memory can't hold together can't be fetched.
            if node.start >= most or nbytes > self._memory.budget or (node.payload.value is None and not disk):
                break
            end = _before(media, min(node.end, most))
            if not self._needs_snapshot:
                length = end
                continue
            slot = node.snapshot
            known = slot.value is not None or (disk and slot.file is not None)
            if known and end == node.end and nbytes + slot.nbytes <= self._memory.budget:
                length = end
        return [node for node in nodes if node.start < length], length


def _before(media: Sequence[Run], place: int) -> int:
    """Return the place, or where the medium begins within which it is."""
    return next((start for start, stop in media if start < place < stop), place)
