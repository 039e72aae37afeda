"""The server that a background run belongs to, and whether that server is still running."""

import contextlib
import fcntl
import logging
import os
import uuid
from pathlib import Path

from orchard.core.errors import OrchardError
from orchard.gateway.store.database import MEMORY
from orchard.gateway.throttle import Throttle

log = logging.getLogger("orchard.gateway.store.store")


class Owner:
    """This server's mark on its runs: a file beside the store, locked as long as the process lives.

    A process id may be used twice; the lock ends with the process, however that ends.
    """

    def __init__(self, path: str) -> None:
        self.token = uuid.uuid4().hex
        self._path = path
        self._file: int | None = None
        self._log = Throttle(log)

    def hold(self) -> None:
        """Lock the mark before the first run begins. Raise OrchardError ("unavailable")."""
        if self._file is not None or self._path == MEMORY:
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
        """Return whether the server of that mark, another one, is still running."""
        mark = self._mark(token)
        try:
            file = os.open(mark, os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:  # another user's
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
        """Delete the mark: this server's runs have ended."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._mark(self.token).unlink()
            os.close(self._file)
            self._file = None

    def _mark(self, token: str) -> Path:
        return Path(f"{self._path}-server-{token}")
