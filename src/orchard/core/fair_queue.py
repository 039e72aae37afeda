"""Orders waiting requests, and work that is done in turns, fairly between callers.

The order is a tree: priority, caller, connection, conversation, item. At each level, self-clocked fair queueing
(Golestani 1994, https://doi.org/10.1109/INFCOM.1994.337677) gives the next turn to the child whose next item ends first
in virtual time. A child's virtual time is the sum of its items' sizes so far, divided by its weight. A child that was
idle begins at its parent's virtual time, so it saves up no turns. A caller that is alone gets everything, and nobody
waits forever.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import count, islice
from typing import Generic, TypeVar

from orchard.core.request import Priority, Sender

WEIGHTS: dict[Priority, int] = {"interactive": 16, "normal": 4, "background": 1}
ARRIVAL = 1 << 60
"""The `order` of items that take turns by their sizes alone."""

T = TypeVar("T")

_Key = tuple[int, int, float, int, "_Node[T]"]


class _Node(Generic[T]):
    """A priority, a caller, a connection, a conversation or an item. The children that have items are in `line`.

    `tag`: the virtual time at which its last item ended, on its parent's clock; `now`: its own clock, for its children.
    `held`: how much its senders hold (see `hold`).
    """

    def __init__(self, parent: "_Node[T] | None", name: str, number: int, weight: int = 1) -> None:
        self.parent = parent
        self.name = name
        self.number = number
        self.weight = weight
        self.children: dict[str, _Node[T]] = {}
        self.line: list[_Key[T]] = []
        self.key: _Key[T] | None = None
        self.item: T | None = None
        self.size = 0.0
        self.order = ARRIVAL
        self.now = self.tag = 0.0
        self.held = 0

    def items(self) -> Iterator[T]:
        """Yield the items below it in their order."""
        if self.item is not None:
            yield self.item
        for key in self.line:
            yield from key[-1].items()


class FairQueue(Generic[T]):
    """Items with an id, a priority and a sender, in their fair order. No method may be called during an iteration."""

    def __init__(self) -> None:
        self._numbers = count()
        self._root: _Node[T] = _Node(None, "", 0)
        self._items: dict[str, _Node[T]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Yield the items in their order."""
        return self._root.items()

    def first_items(self, most: int) -> Iterator[T]:
        """Yield the first items of each caller, at most `most` for each priority."""
        for priority in self._root.line:
            for caller in priority[-1].line:
                yield from islice(caller[-1].items(), most)

    def find(self, item_id: str) -> T | None:
        """Return an item; None if it isn't in the queue."""
        node = self._items.get(item_id)
        return node.item if node else None

    def add(
        self, item_id: str, item: T, priority: Priority, sender: Sender, *, size: float = 1, order: int = ARRIVAL
    ) -> None:
        """Add an item of this size.

        Between senders that hold equally much, items with an `order` below `ARRIVAL` go first, the lowest before the
        rest. An `order` above `ARRIVAL` decides only between the items of one conversation.
        """
        above = self._conversation(priority, sender)
        node = self._items[item_id] = above.children[item_id] = _Node(above, item_id, next(self._numbers))
        node.item, node.size, node.order = item, size, order
        self._sort_node(node)

    def remove(self, item_id: str) -> T | None:
        """Remove an item and return it; None if it isn't in the queue."""
        if not (node := self._items.pop(item_id, None)):
            return None
        item, node.item = node.item, None
        self._sort_node(node)
        return item

    def drain(self) -> Iterator[T]:
        """Yield the items in their order, and remove each when its turn comes."""
        while self._items:
            node = self._root
            while node.line:
                node = node.line[0][-1]
            item = node.item
            self.charge(node.name, node.size, node.size)
            self.remove(node.name)
            if item is not None:
                yield item

    def charge(self, item_id: str, amount: float, size: float = 1) -> None:
        """Count an item's turn, which took `amount`; its next turn has this size. Unknown ids are ignored."""
        if not (leaf := self._items.get(item_id)):
            return
        node, leaf.size = leaf, size
        while above := node.parent:
            node.tag += amount / node.weight
            above.now = max(above.now, node.tag)
            node = above
        self._sort_node(leaf)

    def hold(self, priority: Priority, sender: Sender, amount: int) -> None:
        """Count what a sender holds: callers, connections and conversations that hold less go first."""
        conversation = node = self._conversation(priority, sender)
        while above := node.parent:
            node.held += amount
            node = above
        self._sort_node(conversation)

    def _conversation(self, priority: Priority, sender: Sender) -> _Node[T]:
        node, weight = self._root, WEIGHTS[priority]
        for name in (priority, sender.caller, sender.connection, sender.conversation):
            if not (below := node.children.get(name)):
                below = node.children[name] = _Node(node, name, next(self._numbers), weight)
            node, weight = below, 1
        return node

    def _sort_node(self, node: _Node[T]) -> None:
        """Put a node and its ancestors into their places; drop those that have no items and hold nothing."""
        while above := node.parent:
            if node.line:
                head = node.line[0][-1]
                node.size, node.order = head.size, min(head.order, ARRIVAL)
            if waits := bool(node.line) or node.item is not None:
                if not node.key:
                    node.tag = max(node.tag, above.now)
            elif not node.held:
                above.children.pop(node.name, None)
            key = self._key(node) if waits else None
            if key != node.key:
                if node.key:
                    del above.line[bisect_left(above.line, node.key)]
                if key:
                    insort(above.line, key)
                node.key = key
            node = above

    def _key(self, node: _Node[T]) -> "_Key[T]":
        end = node.tag + node.size / node.weight
        if node.parent is self._root:
            return 0, 0, end, node.number, node
        return node.held, node.order, end, node.number, node


def has_place(most: int, callers: Collection[str], caller: str) -> bool:
    """Return whether a queue for `most` requests takes one more from `caller`; `callers`: those of the queued requests.

    A full queue still takes requests from a caller that has less than its share of the places. So no caller shuts
    others out, and no request is dropped for another.
    """
    if len(callers) < most:
        return True
    places = Counter(callers)
    return places[caller] < most // len(places.keys() | {caller})
