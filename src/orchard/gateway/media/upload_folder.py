"""The folder for the uploads of this process. The next server deletes it if this process dies before it can."""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orchard.core.cache_folder import cache_folder
from orchard.core.errors import OrchardError

log = logging.getLogger("orchard.gateway")

_LOCK = "lock"


class UploadFolder:
    """A folder below `root` for one process, made when it is first needed.

    The process holds a lock in it while it lives, so that folders of dead processes can be recognised.
    """

    def __init__(self, root: Path | None = None) -> None:
        """`root` None: the folder `uploads` of Orchard's cache."""
        self._root = root or cache_folder() / "uploads"
        self._own: Path | None = None
        self._lock = -1

    def clear_dead(self) -> None:
        """Delete the folders of processes that have died."""
        if not self._root.is_dir():
            return
        try:
            with _hold_lock(self._root / _LOCK):
                for folder in self._root.iterdir():
                    if folder.is_dir() and _is_dead(folder):
                        shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            log.warning("left-over uploads in %s can't be deleted: %s", self._root, error.strerror or error)

    def new_file(self) -> tuple[int, Path]:
        """Make an empty file that only its owner can read; return its descriptor and its path.

        Raise OrchardError("unavailable") if that fails.
        """
        try:
            own = self._own = self._own or self._ensure_folder()
            number, path = tempfile.mkstemp(dir=own, prefix="upload-")
        except OSError as error:
            raise disk_error(error) from None
        return number, Path(path)

    def close(self) -> None:
        """Delete the folder."""
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own = None

    def _ensure_folder(self) -> Path:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _hold_lock(self._root / _LOCK):
            own = Path(tempfile.mkdtemp(dir=self._root, prefix=f"{os.getpid()}-"))
            self._lock = os.open(own / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return own


def disk_error(error: OSError) -> OrchardError:
    """Return the error of an upload that can't be written to the disk."""
    return OrchardError("unavailable", f"the upload can't be stored: {error.strerror or error}", retry_after=60)


def _is_dead(folder: Path) -> bool:
    """Return whether no process holds the lock in the folder."""
    try:
        number = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:  # the process died before it made the lock
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(number)
    return True


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock, so that no folder is deleted after it was made and before it has its own lock."""
    number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
