"""The key that signs compacted conversations, which callers keep for the server: a file beside the store."""

import contextlib
import logging
import os
import secrets
from pathlib import Path

from orchard.core.errors import OrchardError
from orchard.gateway.store.database import MEMORY
from orchard.gateway.throttle import Throttle

log = logging.getLogger("orchard.gateway.store.store")

_BYTES = 32


class SealKey:
    """A key for all servers that share a store; the file is created when it is first needed, and only its owner may
    read it. Reading it blocks: use the store's thread."""

    def __init__(self, path: str) -> None:
        """Read nothing yet; `path` is that of the store."""
        self._file = None if path == MEMORY else Path(f"{path}.key")
        self._key = secrets.token_bytes(_BYTES) if self._file is None else b""
        self._log = Throttle(log)

    def load(self) -> bytes:
        """Return the key. Raise OrchardError ("unavailable") if the file can't be used."""
        if self._file is not None and not self._key:
            try:
                self._key = _read_or_make(self._file)
            except (OSError, ValueError) as error:
                self._log.error("the key of compacted conversations, %s, can't be used: %s", self._file, error)
                message = "compacted conversations can't be signed or read; try again"
                raise OrchardError("unavailable", message, retry_after=1) from error
        return self._key


def _read_or_make(file: Path) -> bytes:
    if not file.exists():
        _make(file)
    key = file.read_bytes()
    if len(key) != _BYTES:
        raise ValueError(f"it must have {_BYTES} bytes, not {len(key)}")
    return key


def _make(file: Path) -> None:
    """Write a key, unless another server has just done so: the first one stays."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = file.with_name(f"{file.name}-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            out.write(secrets.token_bytes(_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(own, file)
    finally:
        own.unlink(missing_ok=True)
