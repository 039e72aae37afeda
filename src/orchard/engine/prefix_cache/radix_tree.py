"""A radix tree over tokens: the cached texts, and their payloads and snapshots.

An edge has at most `MAX_EDGE` tokens, so that each eviction or write has a bounded size. Text is packed
(`values.pack_tokens`), with eight bytes per token; places are counted in tokens from the beginning of the text.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, Generic, TypeVar

from msgspec import Struct

from orchard.engine.prefix_cache.values import CacheScope, Cut, State, condense_text, unpack_tokens

MAX_EDGE = 512
WIDTH = 8  # bytes per token
_MOST_COMPARED = 256

T = TypeVar("T", bound=State)


class DiskRecord(Struct, eq=False):
    """A file of the disk tier. After a node is split, its parts share the file of its payload.

    `slot`: the deepest slot that the file belongs to. `key`: the hash of the text up to its end. `nbytes`: the size of
    the arrays. `size`: the size of the file.
    """

    slot: "Slot[Any]"
    key: str
    name: str
    nbytes: int
    size: int

    @property
    def nodes(self) -> "list[Node]":
        """The nodes that the file belongs to, the deepest first."""
        found: list[Node] = []
        node: Node | None = self.slot.node
        while node is not None and any(slot.file is self for slot in node.slots):
            found.append(node)
            node = node.parent
        return found


class Slot(Generic[T]):
    """A place for a node's payload or snapshot: in memory (`value`), on disk (`file`), both or neither."""

    __slots__ = ("file", "node", "value")

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.value: T | None = None
        self.file: DiskRecord | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that it takes in memory, or would take if it were read."""
        if self.value is not None:
            return self.value.nbytes
        if self.file is None:
            return 0
        nodes = self.file.nodes if self is self.node.payload else [self.node]
        whole = nodes[0].end - nodes[-1].start
        return -(-self.file.nbytes * (self.node.end - self.node.start) // whole)


class Node:
    """The tokens from `start` to `end` of all texts that go through this node."""

    __slots__ = ("_hash", "children", "edge", "end", "last_use", "parent", "payload", "snapshot", "start")

    def __init__(self, parent: "Node | None", edge: bytes, start: int) -> None:
        """Become a child of `parent`; replace a child that begins with the same token."""
        self.parent = parent
        self.edge = edge
        self.start = start
        self.end = start + len(edge) // WIDTH
        self.children: dict[bytes, Node] = {}  # by first token
        self.payload: Slot[Cut] = Slot(self)
        self.snapshot: Slot[State] = Slot(self)
        self.last_use = 0
        self._hash: Any = None
        if parent is not None:
            parent.children[edge[:WIDTH]] = self

    @property
    def slots(self) -> "tuple[Slot[Any], Slot[Any]]":
        """Both slots."""
        return self.payload, self.snapshot

    @property
    def path(self) -> "list[Node]":
        """The nodes from the root's child down to this one."""
        nodes: list[Node] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def subtree(self) -> "Iterator[Node]":
        """Yield this node and all nodes below it, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()

    def key(self, more: bytes = b"") -> str:
        """Return a hash of the whole text up to the node's end, and `more` after it. It doesn't depend on splits."""
        pending: list[Node] = []
        node = self
        while node._hash is None:
            pending.append(node)
            assert node.parent is not None, "a root has a seed"
            node = node.parent
        digest = node._hash
        for node in reversed(pending):
            digest = digest.copy()
            digest.update(condense_text(node.edge))
            node._hash = digest
        digest = digest.copy()
        digest.update(condense_text(more))
        return str(digest.hexdigest())

    def split(self, at: int) -> "Node":
        """Split the node at a place inside it; return the new upper part. This object becomes the lower part."""
        assert self.parent is not None
        assert self.start < at < self.end
        count = at - self.start
        head = tail = None
        if (whole := self.payload.value) is not None:
            head, tail = whole.part(0, count), whole.part(count, self.end - self.start)
        upper = Node(self.parent, self.edge[: count * WIDTH], self.start)
        upper.payload.value, self.payload.value = head, tail
        upper.payload.file = self.payload.file
        upper.last_use = self.last_use
        self.parent, self.edge, self.start = upper, self.edge[count * WIDTH :], at
        upper.children[self.edge[:WIDTH]] = self
        return upper


def make_tree(seed: str = "") -> Node:
    """Return an empty tree. Keys of trees with different seeds differ."""
    node = Node(None, b"", 0)
    node._hash = hashlib.blake2b(hashlib.blake2b(seed.encode()).digest(), digest_size=32)
    return node


def slots_of(path: Sequence[Node], snapshot: Node | None = None) -> list[Slot[Any]]:
    """Return the snapshot slot of a node, if one is given, then the payload slots of a path, the deepest first."""
    slots: list[Slot[Any]] = [snapshot.snapshot] if snapshot is not None else []
    return slots + [node.payload for node in reversed(path)]


def walk(top: Node, text: bytes) -> tuple[list[Node], int]:
    """Follow `text` from `top`'s end; return the nodes on the way, and the place up to which the tree has the text.

    Perhaps only the first tokens of the last node match.
    """
    nodes: list[Node] = []
    node, at = top, 0
    while child := node.children.get(text[at : at + WIDTH]):
        nodes.append(child)
        size = len(child.edge)
        if text.startswith(child.edge, at):
            node, at = child, at + size
        else:
            at += _common_prefix_size(text[at : at + size], child.edge)
            break
    return nodes, top.end + at // WIDTH


def _common_prefix_size(first: bytes, second: bytes) -> int:
    """Return the length, in bytes, of the tokens with which both texts begin."""
    size = min(len(first), len(second))
    differ = int.from_bytes(first[:size], "little") ^ int.from_bytes(second[:size], "little")
    if not differ:
        return size
    return ((differ & -differ).bit_length() - 1) // 8 // WIDTH * WIDTH


def ids_after(nodes: list[Node], place: int, count: int, scope: CacheScope) -> list[int]:
    """Return up to `count` cached ids from `place` on, of the most recently used text there that the scope shows.

    `nodes`: the path to `place`; its last node has the place inside it or ends there. Where texts part, only the newest
    ones are compared, because there may be very many.
    """
    node = nodes[-1]
    found = unpack_tokens(node.edge[(place - node.start) * WIDTH :])
    while len(found) < count:
        newest = islice(reversed(node.children.values()), _MOST_COMPARED)
        shown = [child for child in newest if scope.shows(child.start, unpack_tokens(child.edge[:WIDTH])[0])]
        if not shown:
            break
        node = max(shown, key=lambda child: child.last_use)
        found += unpack_tokens(node.edge)
    shown_ids = takewhile(lambda one: scope.shows(*one), enumerate(found[:count], place))
    return [id_ for _, id_ in shown_ids]
