"""A compressed trie over tokens: which text is known, and what is kept of it.

An edge holds at most `MAX_EDGE` tokens, so that what is evicted or written at once is of bounded size. Text is packed
(`prefix_parts.pack`), four bytes a token; places in it are counted in tokens from its beginning.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from orchard.engine.prefix_cache.values import Payload, Snapshot, unpack

MAX_EDGE = 512
_WIDTH = 4  # bytes a token

T = TypeVar("T")


class DiskRecord:
    """A file of the disk tier. When nodes are split, several share the file of a payload, each a part of it."""

    __slots__ = ("key", "name", "nbytes", "size", "slot")

    def __init__(self, slot: "Slot[Any]", key: str, name: str, nbytes: int, size: int) -> None:
        """`slot`: the deepest one that the file belongs to; `key`: of the text up to there; `nbytes`: of its arrays;
        `size`: of the file."""
        self.slot, self.key, self.name, self.nbytes, self.size = slot, key, name, nbytes, size

    @property
    def nodes(self) -> "list[Node]":
        """The nodes whose text it covers, the deepest first."""
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
        """What it takes of the memory, or would take."""
        if self.value is not None:
            return int(self.value.nbytes)  # type: ignore[attr-defined]
        if self.file is None:
            return 0
        nodes = self.file.nodes if self is self.node.payload else [self.node]
        whole = nodes[0].end - nodes[-1].start
        return -(-self.file.nbytes * (self.node.end - self.node.start) // whole)


class Node:
    """A run of tokens, those from `start` to `end` of every text that goes through it."""

    __slots__ = ("_hash", "children", "edge", "end", "parent", "payload", "snapshot", "start", "used")

    def __init__(self, parent: "Node | None", edge: bytes, start: int) -> None:
        """The node becomes a child of `parent`, in the place of one that begins with the same token."""
        self.parent = parent
        self.edge = edge
        self.start = start
        self.end = start + len(edge) // _WIDTH
        self.children: dict[bytes, Node] = {}  # by first token
        self.payload: Slot[Payload] = Slot(self)
        self.snapshot: Slot[Snapshot] = Slot(self)
        self.used = 0
        self._hash: Any = None
        if parent is not None:
            parent.children[edge[:_WIDTH]] = self

    @property
    def slots(self) -> "tuple[Slot[Any], Slot[Any]]":
        """Both of its slots."""
        return self.payload, self.snapshot

    @property
    def path(self) -> "list[Node]":
        """The nodes from below the root to this one."""
        nodes: list[Node] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def subtree(self) -> "Iterator[Node]":
        """This node and all below it, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()

    def key(self, more: bytes = b"") -> str:
        """Hash the whole text up to the node's end and `more` after it. How the text is cut into nodes is no matter."""
        pending: list[Node] = []
        node = self
        while node._hash is None:
            pending.append(node)
            assert node.parent is not None, "a root has a seed"
            node = node.parent
        digest = node._hash
        for node in reversed(pending):
            digest = digest.copy()
            digest.update(node.edge)
            node._hash = digest
        digest = digest.copy()
        digest.update(more)
        return str(digest.hexdigest())


def root(seed: str = "") -> Node:
    """Give an empty trie. Keys of tries with different seeds differ."""
    node = Node(None, b"", 0)
    node._hash = hashlib.blake2b(hashlib.blake2b(seed.encode()).digest(), digest_size=32)
    return node


def walk(top: Node, text: bytes) -> tuple[list[Node], int]:
    """Follow `text` from `top`'s end: the nodes on the way, and the place up to which it is known.

    Of the last node perhaps only the first tokens match.
    """
    nodes: list[Node] = []
    node, at = top, 0
    while child := node.children.get(text[at : at + _WIDTH]):
        nodes.append(child)
        size = len(child.edge)
        if text.startswith(child.edge, at):
            node, at = child, at + size
        else:
            at += _common(text[at : at + size], child.edge)
            break
    return nodes, top.end + at // _WIDTH


def _common(one: bytes, other: bytes) -> int:
    """Count the bytes of the tokens that two texts begin with together."""
    size = min(len(one), len(other))
    differ = int.from_bytes(one[:size], "little") ^ int.from_bytes(other[:size], "little")
    if not differ:
        return size
    return ((differ & -differ).bit_length() - 1) // 8 // _WIDTH * _WIDTH


def lay(top: Node, text: bytes, boundary: bool, split: Callable[[Node, int], Node]) -> list[Node]:
    """Make nodes for `text` from `top`'s end on where there are none; gives those on the way, as `walk`.

    `boundary`: a node must end where the text does. `split` is called to do what `Node.split` does.
    """
    nodes, known = walk(top, text)
    at = (known - top.end) * _WIDTH
    if nodes and known < nodes[-1].end and (boundary or at < len(text)):
        nodes[-1] = split(nodes[-1], known)
    while at < len(text):
        node = nodes[-1] if nodes else top
        nodes.append(Node(node, text[at : at + MAX_EDGE * _WIDTH], node.end))
        at += len(nodes[-1].edge)
    return nodes


def split(node: Node, at: int) -> Node:
    """Cut a node in two at a place within it; gives the new upper half. The lower one stays the same object."""
    assert node.parent is not None
    assert node.start < at < node.end
    first = (at - node.start) * _WIDTH
    halves: tuple[Payload, Payload] | None = None
    if (whole := node.payload.value) is not None:
        halves = whole.part(0, at - node.start), whole.part(at - node.start, node.end - node.start)
    upper = Node(node.parent, node.edge[:first], node.start)
    if halves is not None:
        upper.payload.value, node.payload.value = halves
    upper.payload.file = node.payload.file
    upper.used = node.used
    node.parent, node.edge, node.start = upper, node.edge[first:], at
    upper.children[node.edge[:_WIDTH]] = node
    return upper


def after(nodes: list[Node], place: int, count: int) -> list[int]:
    """Give up to `count` known tokens from `place` on, in the text below it that was used last.

    `nodes` is the path to `place`; its last node holds it, or ends at it.
    """
    node = nodes[-1]
    text = node.edge[(place - node.start) * _WIDTH :]
    while len(text) < count * _WIDTH and node.children:
        node = max(node.children.values(), key=lambda child: child.used)
        text += node.edge
    return unpack(text[: count * _WIDTH])
