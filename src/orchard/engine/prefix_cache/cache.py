"""The prefix cache: KV caches of prompts and generated turns, found by their tokens.

`memory_tier` decides what stays in memory, `disk_index` what stays on disk. A node of the radix tree that has left
memory stays in the tree while it is on disk: it is cold.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from orchard.engine.prefix_cache.disk_index import DiskIndex
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.memory_tier import MemoryTier
from orchard.engine.prefix_cache.radix_tree import WIDTH, Node, Slot, ids_after, slots_of, walk
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope, Cut, State, pack_tokens, token_of

_TOKENS_AROUND = 16
Run = tuple[int, int]
"""The first place of some tokens, and the place after their last."""


class Miss(Struct, frozen=True):
    """Why no more of a prompt was cached: from token `place` on it differs from the closest cached text of its scope.

    `cached` and `given`: up to 16 tokens before and 16 after that place, in the cached text and in the prompt; both
    begin at `begin`. If `cached` is shorter, the cached text ends there. `media_ids` stand for media. `medium`: the
    number, from 1, of the prompt's medium at the place; None: it has text there.
    """

    place: int
    begin: int
    cached: list[int]
    given: list[int]
    medium: int | None = None


class Match(Struct, frozen=True):
    """The cached beginning of a prompt.

    It has `length` tokens: those of `pieces` (payloads, each with the number of its first tokens to use), joined, and
    `snapshot` if the model needs one. `cold`: `cold_bytes` of it are only on disk and not in `pieces` and `snapshot`;
    `warm_length` tokens are usable without them. `miss` is None if all tokens of the prompt are in a cached text,
    usable or not. `nodes` is private. A match keeps its payloads alive, outside the cache's budget.
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
    """The prefix cache of one model. Only the engine's thread uses it. All methods take texts from the first token."""

    def __init__(
        self, budget_bytes: int, needs_snapshot: bool, disk: DiskTier | None, most_texts: int | None = None
    ) -> None:
        """`needs_snapshot`: the model has layers that can't be cut, so a prefix is usable only if a snapshot is at its
        end. The caller closes `disk`.
        `most_texts`: the most texts in memory, not counting those that another one begins with."""
        self._needs_snapshot = needs_snapshot
        self._memory = MemoryTier(budget_bytes, disk.fingerprint if disk else "", most_texts)
        self._disk = DiskIndex(disk, self._memory) if disk else None
        self._hits = 0
        self._misses = 0
        self._tokens = 0

    @property
    def counters(self) -> dict[str, int]:
        """Numbers for a report. `entries`: payloads and snapshots in memory; `tokens`: the tokens of all hits."""
        return {
            "hits": self._hits,
            "misses": self._misses,
            "tokens": self._tokens,
            "entries": len(self._memory.order),
            "bytes": self.nbytes,
            "budget_bytes": self._memory.budget,
            "disk_entries": len(self._disk) if self._disk else 0,
            "disk_bytes": self._disk.nbytes if self._disk else 0,
        }

    def find(
        self,
        tokens: Sequence[int],
        limit: int,
        disk: bool = True,
        media: Sequence[Run] = (),
        scope: CacheScope = EVERYBODY,
    ) -> Match:
        """Return the longest cached prefix of at most `limit` tokens, in memory or, with `disk`, also on disk.

        `media`: runs of tokens, ascending, inside which it must not end. `scope`: that of the tokens, which have its
        salt. With `disk` the call only finds out what to fetch, and doesn't count as a hit or a miss.
        """
        self._absorb()
        text = pack_tokens(tokens)
        nodes, match_length = walk(self._memory.root, text)
        path, length = self._usable(nodes, min(match_length, limit), disk, media)
        pieces = [
            (node.payload.value, min(node.end, length) - node.start) for node in path if node.payload.value is not None
        ]
        end = path[-1] if path and self._needs_snapshot else None
        snapshot = end.snapshot.value if end else None
        missing = [slot for slot in slots_of(path, end) if slot.value is None]
        warm_length = self._usable(nodes, min(match_length, limit), False, media)[1] if missing else length
        if length:
            self._memory.touch(path, end)
            if self._disk is not None:
                self._disk.touch(path, end)
        if not disk:
            self._hits += length > 0
            self._misses += length == 0
            self._tokens += length
        miss = None
        if match_length < len(tokens):
            begin = max(match_length - _TOKENS_AROUND, 0)
            cached = [
                *tokens[begin:match_length],
                *ids_after(nodes or [self._memory.root], match_length, _TOKENS_AROUND, scope),
            ]
            medium = next((number for number, run in enumerate(media, 1) if run[0] <= match_length < run[1]), None)
            given = tokens[begin : begin + max(len(cached), 1)]
            miss = Miss(match_length, begin, [*map(token_of, cached)], [*map(token_of, given)], medium)
        cold_bytes = sum(slot.nbytes for slot in missing)
        return Match(length, pieces, snapshot, bool(missing), cold_bytes, warm_length, miss, path)

    def count_covered(self, tokens: Sequence[int]) -> int:
        """Return how many of the first tokens have their payloads in memory."""
        self._absorb()
        return self._count_covered(*walk(self._memory.root, pack_tokens(tokens)))

    def has_snapshot(self, tokens: Sequence[int]) -> bool:
        """Return whether the snapshot at the end of a text is in memory."""
        self._absorb()
        nodes, known = walk(self._memory.root, pack_tokens(tokens))
        return bool(nodes) and nodes[-1].end == known == len(tokens) and nodes[-1].snapshot.value is not None

    def insert(self, tokens: Sequence[int], start: int, payload: Cut | None, snapshot: State | None = None) -> None:
        """Save the payload of tokens[start:] and the snapshot at the end; don't replace what is there already.

        Save nothing if tokens[:start] (all tokens if there is no payload) aren't covered. The payload may be a view
        of other arrays, since it is copied; the snapshot must own its memory.
        """
        self._absorb()
        text = pack_tokens(tokens)
        nodes, known = walk(self._memory.root, text)
        covered = self._count_covered(nodes, known)
        if not tokens or covered < (len(tokens) if payload is None else start):
            return
        # If the payload covers only the head of a cold node, split it, so that each node is warm or cold as a whole.
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

    @property
    def nbytes(self) -> int:
        """The bytes in memory."""
        return self._memory.nbytes

    def limit(self, budget_bytes: int, save_bytes: int = 0) -> None:
        """Limit the memory to `budget_bytes` from now on, and evict what exceeds it.

        Give up to about `save_bytes` of that to the I/O thread first, unless it is busy or there is none.
        """
        self._absorb()
        self._memory.budget = budget_bytes
        if self._disk is not None and (excess := self._memory.nbytes - budget_bytes) > 0 and save_bytes:
            self._disk.write_back(min(excess, save_bytes), oldest=True)
        self._memory.evict()

    def settle(self, reached_mark: int, mark: int) -> None:
        """Confirm what was saved under marks up to `reached_mark`: see `MemoryTier.settle`. Only that goes to disk."""
        self._memory.settle(reached_mark, mark)

    def confirm(self) -> None:
        """Confirm all that was saved."""
        self._memory.confirm()

    def retract(self) -> None:
        """Drop what is not confirmed."""
        self._memory.retract()

    def drop_all(self) -> None:
        """Drop all that is in memory."""
        budget, self._memory.budget = self._memory.budget, 0
        self._memory.evict()
        self._memory.budget = budget

    def write_back(self, limit_bytes: int) -> bool:
        """Give about `limit_bytes` of what isn't on disk yet to the I/O thread.

        Wait for the device, never for the disk. Return whether there is more that the thread could take now. If the
        disk is too slow for that, the tier calls `wake` later.
        """
        self._absorb()
        return self._disk is not None and self._disk.write_back(limit_bytes)

    def count_usable(self, tokens: Sequence[int], *, disk: bool = False) -> int:
        """Return the length of the longest cached prefix of a text without media. It does not count as a use."""
        self._absorb()
        return self._usable(*walk(self._memory.root, pack_tokens(tokens)), disk, ())[1]

    def copy_to_disk(self, other: "PrefixCache", limit_bytes: int) -> bool:
        """Give about `limit_bytes` of what the disk of `other` lacks to its I/O thread; `other` keeps none in memory.

        This cache must have no disk of its own. Return whether there is more that the thread could take now.
        """
        other._absorb()
        dirty, disk = self._memory.dirty, other._disk
        while dirty and limit_bytes > 0 and disk is not None and disk.takes_more:
            slot = next(reversed(dirty))
            text = b"".join(node.edge for node in slot.node.path)
            known = walk(other._memory.root, text)[1]
            # A file is useless without those before it in the text.
            first = next((node.payload for node in slot.node.path if node.end > known), slot)
            if first in self._memory.fresh:
                return False
            given = other._write(text[: first.node.end * WIDTH], first)
            limit_bytes -= given
            if first is slot or not given:
                dirty.pop(slot)
        return bool(dirty) and disk is not None and disk.takes_more

    def _write(self, text: bytes, slot: Slot[Any]) -> int:
        """Write what a slot of another cache holds to disk, as far as it isn't there; return how many bytes that is.

        `text`: that up to the slot's end. What comes before the slot is on disk.
        """
        assert self._disk is not None
        path = self._memory.add_path(self._memory.root, text, boundary=True)
        held: list[Slot[Any]] = []
        value, begin = slot.value, slot.node.start
        if isinstance(value, Cut):
            for node in path:
                if node.payload.file is None:
                    self._memory.hold(node.payload, value.part(node.start - begin, node.end - begin))
                    held.append(node.payload)
        elif value and path[-1].snapshot.file is None:
            self._memory.hold(path[-1].snapshot, value)
            held.append(path[-1].snapshot)
        self._memory.touch(path, path[-1])
        self._disk.write_back(sum(one.nbytes for one in held))
        given = sum(one.nbytes for one in held if one.file is not None)
        self.drop_all()
        return given

    def fetch(self, match: Match, on_done: Callable[[], None]) -> None:
        """Let the I/O thread read what a cold match lacks; it calls `on_done` when that is read or known to be broken.

        Then call `find(..., disk=False)`: under a tight budget it may be evicted again. If there is nothing to read,
        `on_done` is called before this returns.
        """
        if self._disk is None or not match.nodes:
            on_done()
        else:
            self._disk.fetch(match.nodes[-1], self._needs_snapshot, on_done)

    def _absorb(self) -> None:
        if self._disk is not None:
            self._disk.absorb()

    def _count_covered(self, nodes: Sequence[Node], known: int) -> int:
        cold = next((node.start for node in nodes if node.payload.value is None), known)
        return min(cold, known)

    def _usable(self, nodes: list[Node], most: int, disk: bool, media: Sequence[Run]) -> tuple[list[Node], int]:
        """Return the longest usable prefix of at most `most` tokens: the path of its nodes, and its length."""
        length, nbytes = 0, 0
        for node in nodes:
            nbytes += node.payload.nbytes
            # A prefix that exceeds the budget can't be fetched.
            if node.start >= most or nbytes > self._memory.budget or (node.payload.value is None and not disk):
                break
            end = _start_of_medium(media, min(node.end, most))
            if not self._needs_snapshot:
                length = end
                continue
            slot = node.snapshot
            known = slot.value is not None or (disk and slot.file is not None)
            if known and end == node.end and nbytes + slot.nbytes <= self._memory.budget:
                length = end
        return [node for node in nodes if node.start < length], length


def _start_of_medium(media: Sequence[Run], place: int) -> int:
    """Return the place or, if it is inside a medium, the place where the medium begins."""
    return next((start for start, stop in media if start < place < stop), place)
