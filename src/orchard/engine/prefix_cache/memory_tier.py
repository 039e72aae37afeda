"""The part of the radix tree that is in memory, and the order of eviction.

Slots are ordered by their last use. When a path is used, its deepest node moves to the end of the order first. So the
first slot of the order is always a snapshot, or the payload of a node with nothing in memory below it. Therefore all
ancestors of a node in memory are in memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from orchard.engine.prefix_cache import radix_tree
from orchard.engine.prefix_cache.radix_tree import WIDTH, DiskRecord, Node, Slot, T, slots_of, walk


class MemoryTier:
    """The radix tree, and its payloads and snapshots in memory."""

    def __init__(self, budget: int, seed: str, most_texts: int | None = None) -> None:
        """`budget`: the most bytes that `evict` leaves; `most_texts`: the most texts, not counting those that another
        one begins with. `seed`: of the texts' hashes."""
        self.budget = budget
        self._most_texts = most_texts
        self.root = radix_tree.make_tree(seed)
        self.nbytes = 0
        self.order: OrderedDict[Slot[Any], None] = OrderedDict()
        """The slots with a value in memory, the least recently used first."""
        self.dirty: OrderedDict[Slot[Any], None] = OrderedDict()
        """Those of them that are confirmed and aren't on disk, in about the same order."""
        self.fresh: OrderedDict[Slot[Any], int] = OrderedDict()
        """Those that are not confirmed: the device's errors may still show that their arrays are wrong. See `settle`"""
        self._reached = self._mark = 0
        self.forget: Callable[[DiskRecord], None] = lambda record: None
        """Called with each file of a dropped node; several times if nodes share the file."""
        self._clock = 0

    def hold(self, slot: Slot[T], value: T) -> None:
        """Put a value into a slot that has none. `touch` must follow."""
        slot.value = value
        self.nbytes += slot.nbytes
        self.order[slot] = None
        self._mark_new(slot)

    def _mark_new(self, slot: Slot[Any]) -> None:
        """Note that a slot got new arrays."""
        if self._mark > self._reached:
            self.fresh[slot] = self._mark
            self.dirty.pop(slot, None)
        elif slot.file is None:
            self.dirty[slot] = None

    def settle(self, reached_mark: int, mark: int) -> None:
        """Confirm what was put into slots under marks up to `reached_mark`. What comes from now on gets `mark`.

        `mark` never falls. If it is reached already, what comes is confirmed at once.
        """
        self._reached, self._mark = reached_mark, mark
        while self.fresh and next(iter(self.fresh.values())) <= reached_mark:
            slot, _ = self.fresh.popitem(last=False)
            if slot.file is None:
                self.dirty[slot] = None

    def confirm(self) -> None:
        """Confirm all that was put into slots."""
        self.settle(self._mark, self._mark)

    def retract(self) -> None:
        """Drop what is not confirmed, and what is below it in memory."""
        while self.fresh:
            slot = next(iter(self.fresh))
            below = list(slot.node.subtree()) if slot is slot.node.payload else []
            for one in [slot, *(other for node in below for other in node.slots if other is not slot)]:
                if one.value is not None:
                    self._release(one)
            if below and slot.file is None:
                self.drop(slot.node)

    def touch(self, path: Sequence[Node], snapshot: Node | None = None) -> None:
        """Note the use of a path from the root on, and of the snapshot at a node of it, if one is given."""
        self._clock += 1
        for slot in slots_of(path, snapshot):
            for order in (self.order, self.dirty):
                if slot in order:
                    order.move_to_end(slot)
        for node in path:
            node.last_use = self._clock

    def evict(self) -> None:
        """Evict the least recently used slots until the budget and the number of texts are within their limits."""
        while self.nbytes > self.budget:
            self._evict_oldest()
        if self._most_texts is not None:
            excess = sum(map(self._is_end, self.root.subtree())) - self._most_texts
            while excess > 0:
                excess -= self._evict_oldest()

    def _evict_oldest(self) -> bool:
        """Evict the least recently used slot; return whether that reduces the number of texts."""
        slot = next(iter(self.order))
        self._release(slot)
        if slot is not slot.node.payload:
            return False
        parent = slot.node.parent
        if slot.file is None:
            self.drop(slot.node)
        return parent is None or not self._is_end(parent)

    @staticmethod
    def _is_end(node: Node) -> bool:
        """Return whether a text in memory ends at a node, with nothing in memory below it."""
        return node.payload.value is not None and all(child.payload.value is None for child in node.children.values())

    def add_path(self, top: Node, text: bytes, boundary: bool) -> list[Node]:
        """Add missing nodes for `text` from `top`'s end on; return the nodes on the way, as `walk` does.

        `boundary`: a node must end where the text ends.
        """
        nodes, known = walk(top, text)
        at = (known - top.end) * WIDTH
        if nodes and known < nodes[-1].end and (boundary or at < len(text)):
            nodes[-1] = self.split(nodes[-1], known)
        while at < len(text):
            node = nodes[-1] if nodes else top
            nodes.append(Node(node, text[at : at + radix_tree.MAX_EDGE * WIDTH], node.end))
            at += len(nodes[-1].edge)
        return nodes

    def split(self, node: Node, at: int) -> Node:
        """Split a node as `Node.split` does, and update the order of eviction."""
        before = node.payload.nbytes if node.payload.value is not None else 0
        upper = node.split(at)
        if upper.payload.value is not None:
            self.nbytes += node.payload.nbytes - before
            self._mark_new(node.payload)
            self.hold(upper.payload, upper.payload.value)
            self.touch(upper.path)  # the upper part must be younger than the lower one, its ancestors younger than both
        return upper

    def drop(self, node: Node) -> None:
        """Remove a node and all nodes below it from the tree."""
        assert node.parent is not None
        del node.parent.children[node.edge[:WIDTH]]
        node.parent = None
        for below in node.subtree():
            for slot in below.slots:
                if slot.value is not None:
                    self._release(slot)
                if slot.file is not None:
                    self.forget(slot.file)
                    slot.file = None

    def _release(self, slot: Slot[Any]) -> None:
        self.nbytes -= slot.nbytes
        slot.value = None
        del self.order[slot]
        self.dirty.pop(slot, None)
        self.fresh.pop(slot, None)
