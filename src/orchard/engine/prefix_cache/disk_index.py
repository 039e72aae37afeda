"""The part of the radix tree that is on disk: which file belongs to which node, and the order of eviction.

A file's name is the hash of the whole text up to its end. Splitting a node doesn't change it: both parts share the
file. A file names the file before it in the text; it is useless without that one, and is removed with it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine.prefix_cache import cache_file
from orchard.engine.prefix_cache.cache_file import FileIdentity, FoundFile
from orchard.engine.prefix_cache.disk_io import DiskTier, FilesRead, FolderScanned, WriteFailed
from orchard.engine.prefix_cache.memory_tier import MemoryTier
from orchard.engine.prefix_cache.radix_tree import WIDTH, DiskRecord, Node, Slot, slots_of, walk
from orchard.engine.prefix_cache.values import Cut, HostArrays, State, host_bytes

log = logging.getLogger("orchard.engine")


class DiskIndex:
    """The files of the nodes of one `MemoryTier`. Only the engine's thread uses it."""

    def __init__(self, disk: DiskTier, memory: MemoryTier) -> None:
        self.nbytes = 0
        """The total size of the files. It never exceeds the tier's budget."""
        self._disk = disk
        self._memory = memory
        self._files: OrderedDict[str, DiskRecord] = OrderedDict()  # by name; the order is as in `MemoryTier`
        self._payloads: dict[str, DiskRecord] = {}  # by key
        self._ready = False
        memory.forget = self._forget

    def __len__(self) -> int:
        return len(self._files)

    @property
    def takes_more(self) -> bool:
        """Whether the I/O thread could take more to write now."""
        return self._ready and not self._disk.is_busy

    def absorb(self) -> None:
        """Process the news of the I/O thread since the last call."""
        while not self._disk.news.empty():
            match self._disk.news.get():
                case FolderScanned(found):
                    self._attach_all(found)
                case WriteFailed(name):
                    if record := self._files.get(name):
                        self._discard(record)
                case FilesRead(node, files):
                    self._load(node, files)

    def touch(self, path: Sequence[Node], snapshot: Node | None = None) -> None:
        """Note the use of a path from the root on, and of the snapshot at a node of it, if one is given."""
        if names := self._renew(path, snapshot):
            self._disk.touch(names)

    def fetch(self, node: Node, with_snapshot: bool, on_done: Callable[[], None]) -> None:
        """Queue reading what is only on disk, of the path to a node and perhaps its snapshot; then call `on_done`."""
        slots = reversed(slots_of(node.path, node if with_snapshot else None))
        names = dict.fromkeys(slot.file.name for slot in slots if slot.value is None and slot.file is not None)
        if names:
            self._disk.read(list(names), node, on_done)
        else:
            on_done()

    def write_back(self, limit_bytes: int, *, oldest: bool = False) -> bool:
        """Give the I/O thread about `limit_bytes` of what isn't on disk; return whether it could take more now.

        `oldest`: the least recently used first, because they will be evicted.
        """
        dirty = self._memory.dirty
        given = 0
        while dirty and given < limit_bytes and self.takes_more:
            # The most recently used one is the most likely to be used again.
            slot = next(iter(dirty) if oldest else reversed(dirty))
            path = slot.node.path
            # A file is useless without those before it in the text.
            first = next((node.payload for node in path if node.payload.file is None), slot)
            if first in self._memory.fresh:
                return False
            nbytes = self._save(first, path)
            if not nbytes:
                dirty.pop(slot, None)
            given += nbytes
        return bool(dirty) and self.takes_more

    def _save(self, slot: Slot[Any], path: list[Node]) -> int:
        """Give one slot's value to the I/O thread; return its size in bytes, 0 if that can't be done."""
        self._renew(path)
        if not self._make_room(slot.nbytes, path):
            return 0
        node = slot.node
        kind: cache_file.Kind = "payload" if slot is node.payload else "snapshot"
        above = node.parent if slot is node.payload else node
        assert above is not None
        under = above.payload.file.key if above.payload.file else ""
        start, text = (node.start, node.edge) if slot is node.payload else (node.end, b"")
        place = FileIdentity(self._disk.fingerprint, kind, node.key(), under, start, text)
        try:
            value: Any = slot.value
            arrays: HostArrays = value.to_host()
            size = cache_file.file_size(place, arrays)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            log.exception("a prompt could not be copied from the device")
            return 0
        if not self._make_room(size, path):
            return 0
        self._add(DiskRecord(slot, place.key, place.name, host_bytes(arrays), size), [node])
        self._renew(path, node)
        self._disk.save(place, arrays)
        return max(size, 1)

    def _add(self, record: DiskRecord, nodes: Sequence[Node]) -> None:
        """Add a file: the payloads, or the snapshot, of `nodes` are on disk now."""
        is_payload = record.slot is record.slot.node.payload
        for node in nodes:
            slot: Slot[Any] = node.payload if is_payload else node.snapshot
            slot.file = record
            self._memory.dirty.pop(slot, None)
        self._files[record.name] = record
        self.nbytes += record.size
        if is_payload:
            self._payloads[record.key] = record

    def _renew(self, path: Sequence[Node], snapshot: Node | None = None) -> list[str]:
        """Move a path's files to the end of the order, the topmost last; return their names."""
        names = [slot.file.name for slot in slots_of(path, snapshot) if slot.file is not None]
        for name in names:
            self._files.move_to_end(name)
        return names

    def _make_room(self, size: int, path: Sequence[Node]) -> bool:
        """Delete the least recently used files until `size` more bytes fit.

        Return False if they can't fit beside the files of `path` and files that were used later than `path`.
        """
        keep = {node.payload.file for node in path}
        if size + sum(record.size for record in keep if record) > self._disk.budget:
            return False
        while self.nbytes + size > self._disk.budget:
            # The least recently used files mostly come first; some were saved out of that order.
            others = (record for record in self._files.values() if record not in keep)
            oldest = min(others, key=lambda record: record.slot.node.last_use)
            if path and oldest.slot.node.last_use > path[-1].last_use:
                return False
            self._discard(oldest)
        return True

    def _forget(self, record: DiskRecord) -> None:
        if self._files.pop(record.name, None) is None:
            return
        self.nbytes -= record.size
        if self._payloads.get(record.key) is record:
            del self._payloads[record.key]
        self._disk.remove(record.name)

    def _discard(self, record: DiskRecord) -> None:
        """Remove a file, and the files below it in the tree; what was only there is lost."""
        self._forget(record)
        if record.slot is record.slot.node.snapshot:
            record.slot.file = None
            return
        stack = record.nodes[-1:]
        while stack:
            node = stack.pop()
            if node.payload.value is None:
                self._memory.drop(node)
                continue
            for slot in node.slots:
                if slot.file is not None:
                    self._forget(slot.file)
                    slot.file = None
            stack += node.children.values()

    def _attach_all(self, found: list[FoundFile]) -> None:
        """Attach the files that were found at the start to the tree, from the root down."""
        used: dict[str, int] = {}
        for file in sorted(found, key=lambda file: file.place.start):
            try:
                name = self._attach(file)
            except ValueError as error:
                log.warning("cached prompt %s is ignored and removed: %s", file.place.name, error)
                self._disk.remove(file.place.name)
            else:
                used[name] = file.last_use
        self._sort_by_use(used)
        self._ready = True
        self._make_room(0, [])

    def _sort_by_use(self, used: dict[str, int]) -> None:
        """Order files by their times of last use; `used`: these times by name, higher files first."""
        # A file was written before those below it, but must count as younger.
        for name in reversed(used):
            node = self._files[name].nodes[-1]
            above = node.parent if self._files[name].slot is node.payload else node
            record = above.payload.file if above is not None else None
            if record is not None:
                used[record.name] = max(used[record.name], used[name] + 1)
        for name in sorted(used, key=used.__getitem__):
            self._files.move_to_end(name)

    def _attach(self, file: FoundFile) -> str:
        """Attach a file to the tree and return its name. Raise ValueError if it has no place there."""
        place = file.place
        above = self._find_parent(place)
        if above.end != place.start:
            above = self._memory.split(above, place.start)
        slot: Slot[Any]
        if place.kind == "snapshot":
            nodes, slot, taken = [above], above.snapshot, above.snapshot.file is not None
        else:
            taken = any(node.payload.file is not None for node in walk(above, place.text)[0])
            nodes = [] if taken else self._memory.add_path(above, place.text, boundary=True)
            slot = (nodes or [above])[-1].payload
        if taken:
            raise ValueError("its text is in another file too")
        self._add(DiskRecord(slot, place.key, place.name, file.nbytes, file.size), nodes)
        return place.name

    def _find_parent(self, place: FileIdentity) -> Node:
        """Return the node at whose end, or inside which, a file's text begins. Raise ValueError if there is none."""
        node = self._memory.root
        if place.under:
            if place.under not in self._payloads:
                raise ValueError("what comes before it is gone")
            node = self._payloads[place.under].slot.node
        while node.parent is not None and node.start >= place.start:
            node = node.parent
        head = node.edge[: (place.start - node.start) * WIDTH] + place.text
        if (
            not (node.start < place.start <= node.end or place.start == node.end)
            or bool(place.text) != (place.kind == "payload")
            or (node.parent or node).key(head) != place.key
            or not place.start + len(place.text)
        ):
            raise ValueError("its place is damaged")
        return node

    def _load(self, node: Node, files: dict[str, HostArrays | None]) -> None:
        """Put what was read for the path to a node into memory, up to the first node that is missing."""
        broken = [name for name, arrays in files.items() if arrays is None]
        path = node.path
        if path and path[0].parent is self._memory.root:  # otherwise it was dropped meanwhile
            try:
                self._put_into_memory(path, files)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                log.exception("cached prompts from disk can't be used")
                broken = list(files)
            self._memory.evict()
        for name in broken:
            if record := self._files.get(name):
                self._discard(record)

    def _put_into_memory(self, path: list[Node], files: dict[str, HostArrays | None]) -> None:
        made: dict[str, Cut] = {}
        loaded: list[Node] = []
        try:
            for node in path:
                record = node.payload.file
                if node.payload.value is None and record is not None:
                    arrays = files.get(record.name)
                    if arrays is None:
                        return
                    whole = made.get(record.name) or made.setdefault(record.name, Cut.from_host(arrays))
                    sharing = record.nodes  # several nodes may share a file
                    begin = sharing[-1].start
                    own = whole if len(sharing) == 1 else whole.part(node.start - begin, node.end - begin)
                    self._memory.hold(node.payload, own)
                loaded.append(node)
            slot = path[-1].snapshot
            arrays = files.get(slot.file.name) if slot.file is not None else None
            if slot.value is None and arrays is not None:
                self._memory.hold(slot, State.from_host(arrays))
        finally:
            self._memory.touch(loaded, path[-1])
