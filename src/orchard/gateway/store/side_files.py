"""The files beside the database: marks of servers that run responses, and the key of compacted conversations.

All calls block, so use the store's thread.
"""

import contextlib
import fcntl
import os
import secrets
import uuid
from pathlib import Path

from orchard.config import MEMORY_DATABASE
from orchard.core.errors import OrchardError
from orchard.gateway.store.database import log
from orchard.gateway.throttle import Throttle

_KEY_BYTES = 32


class Owner:
    """This server's mark on its background runs: a file that is locked while the process lives.

    Process ids can be reused, but a lock always ends with its process.
    """

    def __init__(self, path: str) -> None:
        """`path` is that of the database. `hold` locks the mark."""
        self.token = uuid.uuid4().hex
        self._path = path
        self._file: int | None = None
        self._log = Throttle(log)

    def hold(self) -> None:
        """Lock the mark, before the first run begins. Raise OrchardError ("unavailable")."""
        if self._file is not None or self._path == MEMORY_DATABASE:
            return
        mark = self._mark(self.token)
        try:
            mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(mark, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            self._log.error("%s can't be locked: %s", mark, error)
            raise OrchardError("unavailable", "the response can't be stored; try again", retry_after=1) from error

    def lives(self, token: str) -> bool:
        """Return whether another server, which has the mark `token`, is still running."""
        mark = self._mark(token)
        try:
            file = os.open(mark, os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:  # the mark of another user's server
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(file)
        mark.unlink(missing_ok=True)
        return False

    def release(self) -> None:
        """Delete the mark, because this server's runs have ended."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._mark(self.token).unlink()
            os.close(self._file)
            self._file = None

    def _mark(self, token: str) -> Path:
        return Path(f"{self._path}-server-{token}")


class SealKey:
    """The key that signs compacted conversations, which all servers that share a store can read.

    The file is created when it is first needed. Only its owner can read it.
    """

    def __init__(self, path: str) -> None:
        """`path` is that of the database. `load` reads the key."""
        self._file = None if path == MEMORY_DATABASE else Path(f"{path}.key")
        self._key = secrets.token_bytes(_KEY_BYTES) if self._file is None else b""
        self._log = Throttle(log)

    def load(self) -> bytes:
        """Return the key. Raise OrchardError ("unavailable") if the file can't be used."""
        if self._file is not None and not self._key:
            try:
                if not self._file.exists():
                    _make_key(self._file)
                key = self._file.read_bytes()
                if len(key) != _KEY_BYTES:
                    raise ValueError(f"it must have {_KEY_BYTES} bytes, not {len(key)}")
            except (OSError, ValueError) as error:
                self._log.error("the key of compacted conversations, %s, can't be used: %s", self._file, error)
                message = "compacted conversations can't be signed or read; try again"
                raise OrchardError("unavailable", message, retry_after=1) from error
            self._key = key
        return self._key


def _make_key(file: Path) -> None:
    """Write a new key, unless another server has just written one."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = file.with_name(f"{file.name}-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            out.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(own, file)
    finally:
        own.unlink(missing_ok=True)
