"""The thread that reads and writes the files of the prefix cache. It uses neither the radix tree nor MLX.

It does its tasks in order, so a file is removed before a file that needs its room is written. It puts the results into
`news` for the engine's thread.
"""

import fcntl
import hashlib
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from orchard.engine.prefix_cache import cache_file
from orchard.engine.prefix_cache.cache_file import FileError, FileIdentity, FoundFile
from orchard.engine.prefix_cache.values import HostArrays, host_bytes

T = TypeVar("T")

log = logging.getLogger("orchard.engine")

_LOCK = ".lock"
_OURS = re.compile(r"[0-9a-f]{64}-[0-9]+\.(payload|snapshot)\.safetensors")
_LEFTOVER = re.compile(_OURS.pattern + re.escape(cache_file.TEMPORARY))
_MAX_BACKLOG = 256 * 2**20  # bytes
_READERS = 4
_GUESSED_BYTES_PER_SECOND = 1e9
_MIN_TIMED_BYTES = 2**20  # the time of smaller reads says little about the disk
SECONDS_FOR_LOCK = 30.0
_SECONDS_BETWEEN_TRIES = 0.1


class FolderScanned(Struct, frozen=True):
    """The files that the folder had at the start. From now on this process owns the folder."""

    found: list[FoundFile]


class WriteFailed(Struct, frozen=True):
    """A file that could not be written; no file of that name exists now."""

    name: str


class FilesRead(Struct, frozen=True):
    """What was read for a fetch, by file name; None: the file was broken or missing, and has been removed."""

    node: Any
    files: dict[str, HostArrays | None]


News = FolderScanned | WriteFailed | FilesRead


class DiskTier:
    """One model's folder of files, and its I/O thread.

    Only the engine's thread calls the methods, except `close`. Only `close` waits for I/O.
    """

    def __init__(
        self, folder: Path, fingerprint: str, budget_bytes: int, wake: Callable[[], None] = lambda: None
    ) -> None:
        """Begin to scan a sub-folder of `folder` that is named after the fingerprint.

        `fingerprint`: identifies the model and the quantisation of its KV cache. `wake` is called in the I/O thread
        when the thread is no longer busy: then more may be saved.
        """
        self.fingerprint = fingerprint
        self.budget = budget_bytes
        self.folder = folder / hashlib.blake2b(fingerprint.encode(), digest_size=16).hexdigest()
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.scanned = threading.Event()
        """Set once `news` has the files from the start, or the folder can't be used."""
        self.bytes_per_second = _GUESSED_BYTES_PER_SECOND
        """The measured speed of reading and checking files; a guess at first."""
        self._wake = wake
        self._backlog = 0
        self._waiting = False
        self._lock = threading.Lock()
        self._closed = False
        self._hurry = False
        self._lock_file: int | None = None
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._tasks.put(self._scan)
        self._tasks.put(self.scanned.set)
        self._thread = threading.Thread(target=self._main, name="prefix-disk", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether so much waits to be written that nothing more should be saved."""
        with self._lock:
            self._waiting = self._backlog >= _MAX_BACKLOG
            return self._waiting

    def save(self, place: FileIdentity, arrays: HostArrays) -> None:
        """Queue the writing of a file."""
        nbytes = host_bytes(arrays)
        with self._lock:
            self._backlog += nbytes
        self._queue(lambda: self._save(place, arrays, nbytes))

    def read(self, names: Sequence[str], node: Any, on_done: Callable[[], None]) -> None:
        """Queue the reading of files: put a `FilesRead` with `node` into `news`, then call `on_done`.

        `on_done` is called in the I/O thread, even after errors; if the tier is closed, before this returns.
        """
        if not self._queue(lambda: self._read(names, node, on_done)):
            on_done()

    def remove(self, name: str) -> None:
        """Queue the deletion of a file. A missing file is ignored."""
        self._queue(lambda: self._remove(name))

    def touch(self, names: Sequence[str]) -> None:
        """Queue setting the files' modification times, which are their times of last use, to now."""

        def touch() -> None:
            now = time.time_ns()
            for name in names:
                with suppress(OSError):
                    os.utime(self.folder / name, ns=(now, now), follow_symlinks=False)

        self._queue(touch)

    def close(self, timeout: float = 10.0) -> None:
        """Finish all tasks; after `timeout` seconds, finish only the current one. Any thread may call this.

        Fetches that are skipped still call their `on_done`.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._tasks.put(None)
        self._thread.join(timeout)
        self._hurry = True

    def _queue(self, task: Callable[[], None]) -> bool:
        with self._lock:
            if not self._closed:
                self._tasks.put(task)
            return not self._closed

    def _main(self) -> None:
        for task in iter(self._tasks.get, None):
            try:
                task()
            except Exception:
                log.exception("the prompt cache on disk failed")
            del task  # don't keep it alive while the thread waits for the next one
        if self._lock_file is not None:
            os.close(self._lock_file)

    def _scan(self) -> None:
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.is_symlink():
                raise NotADirectoryError("it is a symbolic link")
            self._lock_file = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            self._lock_folder(self._lock_file)
            names = sorted(os.listdir(self.folder))
        except OSError as error:
            log.warning(
                "no prompts are cached on disk, %s can't be used (by two workers at once): %s", self.folder, error
            )
            return
        found: list[FoundFile] = []
        for name in names:
            if _LEFTOVER.fullmatch(name):
                self._remove(name)
            elif name != _LOCK and (file := self._read_file(name, cache_file.read_header)):
                found.append(file)
        self.news.put(FolderScanned(found))

    def _lock_folder(self, lock_file: int) -> None:
        """Lock the folder; wait up to 30 s for a worker that is still ending. Raise OSError if it stays locked."""
        end = time.monotonic() + SECONDS_FOR_LOCK
        while True:
            try:
                fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self._closed or time.monotonic() > end:
                    raise
            time.sleep(_SECONDS_BETWEEN_TRIES)

    def _read_file(self, name: str, read: Callable[[Path, str], T]) -> T | None:
        """Return what `read` returns; None if the file can't be used. Log why, and remove the cache's broken files."""
        try:
            if not _OURS.fullmatch(name):
                raise FileError("it is not one of the cache's", ours=False)
            return None if self._hurry else read(self.folder / name, self.fingerprint)
        except Exception as error:
            gone = isinstance(error, FileError) and error.ours
            if gone:
                self._remove(name)
            log.warning("cached prompt %s is ignored%s: %s", self.folder / name, " and removed" if gone else "", error)
            return None

    def _save(self, place: FileIdentity, arrays: HostArrays, nbytes: int) -> None:
        try:
            if self._hurry:
                return
            cache_file.write_file(self.folder, place, arrays)
        except Exception as error:
            log.warning("a prompt could not be cached in %s: %s", self.folder, error)
            self.news.put(WriteFailed(place.name))
        finally:
            with self._lock:
                self._backlog -= nbytes
                wake = self._waiting and self._backlog < _MAX_BACKLOG
                self._waiting = self._waiting and not wake
            if wake:
                self._wake()

    def _read(self, names: Sequence[str], node: Any, on_done: Callable[[], None]) -> None:
        begin = time.perf_counter()
        try:
            files: dict[str, HostArrays | None] = {}
            with ThreadPoolExecutor(_READERS) as readers:  # checksums take most of the time
                read = readers.map(lambda name: self._read_file(name, cache_file.read_arrays), names)
                for name, arrays in zip(names, read, strict=True):
                    files[name] = arrays
                    if arrays is None:
                        break  # the next files are useless without it
            if files:
                self.news.put(FilesRead(node, files))
                nbytes = sum(host_bytes(arrays) for arrays in files.values() if arrays)
                if nbytes >= _MIN_TIMED_BYTES:
                    self.bytes_per_second = (self.bytes_per_second + nbytes / (time.perf_counter() - begin)) / 2
        finally:
            on_done()

    def _remove(self, name: str) -> None:
        try:
            os.unlink(self.folder / name)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("cached prompt %s can't be removed: %s", self.folder / name, error)
