"""The database file of stored responses: SQLite in WAL mode, which several servers may have open at once."""

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from orchard.config import MEMORY_DATABASE
from orchard.core.errors import OrchardError
from orchard.gateway.store.schema import SCRIPTS
from orchard.gateway.throttle import Throttle

log = logging.getLogger("orchard.gateway.store.store")

_BUSY_SECONDS = 10.0
_WAL_BYTES = 16 * 1024 * 1024
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What reading a damaged row raises, which SQLite doesn't notice."""

T = TypeVar("T")


class StoreFile:
    """A connection, for one thread. The file is created when it is first needed. Only its owner can read it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._log = Throttle(log)

    @property
    def has_content(self) -> bool:
        """Whether the file may have content."""
        return self._connection is not None or Path(self.path).exists()

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in one transaction, and return its result.

        Rename a broken file, and call `work` with a new one. Raise OrchardError ("unavailable") if the file can't be
        used at the moment, or what `work` reads is damaged.
        """
        try:
            try:
                return self._run(work)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode not in _BROKEN or self.path == MEMORY_DATABASE:
                    raise
                self._recover(error)
                return self._run(work)
        except (sqlite3.Error, OSError) as error:
            self._log.error("the store of responses, %s, can't be used: %s", self.path, error)
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            why = "the disk is full" if full else "it can't be reached"
            raise OrchardError("unavailable", f"the store of responses can't be used: {why}", retry_after=1) from error
        except DAMAGE as error:
            self._log.error("a row of the store of responses, %s, is damaged: %s", self.path, error)
            raise OrchardError("unavailable", "what is stored there is damaged and can't be read") from error

    def shrink(self) -> None:
        """Release empty pages; do nothing while other servers are using the file."""
        if self._connection:
            with contextlib.suppress(sqlite3.OperationalError):
                # `executescript` runs until all pages are released; `execute` would release one.
                self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the connection; the next `run` opens another."""
        if self._connection:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in one transaction. Writers wait for each other at its beginning, so none fails half-way."""
        connection = self._connection = self._connection or self._open()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            return work(connection)

    def _open(self) -> sqlite3.Connection:
        if self.path != MEMORY_DATABASE:
            Path(self.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its additional files the permissions of this one.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            Path(self.path).chmod(0o600)
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.create_function("title_has_words", 2, _title_has_words, deterministic=True)
        connection.create_function("item_has_words", 2, _item_has_words, deterministic=True)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for setting in (
            "auto_vacuum = INCREMENTAL",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
            "secure_delete = ON",
            f"journal_size_limit = {_WAL_BYTES}",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for script in SCRIPTS[version:]:
                for statement in _statements(script):
                    connection.execute(statement)
            if version < len(SCRIPTS):
                connection.execute(f"PRAGMA user_version = {len(SCRIPTS)}")
        if version > len(SCRIPTS):
            error = sqlite3.DatabaseError(f"it is of version {version}, not {len(SCRIPTS)}")
            error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
            raise error

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        """Reopen the file, because another server may have replaced it; rename it if it is still broken."""
        self.close()
        try:
            self._run(_check_intact)
        except sqlite3.DatabaseError:
            self.close()
            aside = f"{self.path}.broken-{time.strftime('%Y%m%d-%H%M%S')}"
            log.error("the store of responses is broken (%s): it was renamed to %s, and a new one begins", error, aside)
            for ending in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self.path + ending, aside + ending)


class _SearchedPart(Struct):
    text: str = ""


class _SearchedItem(Struct):
    type: str
    content: str | list[_SearchedPart] = ""


_item_decoder = msgspec.json.Decoder(_SearchedItem)


def _title_has_words(metadata: bytes, words: str) -> bool:
    """Return whether the title in a conversation's metadata contains words, which are in lower case."""
    return words in msgspec.json.decode(metadata).get("title", "").casefold()


def _item_has_words(item: bytes, words: str) -> bool:
    """Return whether an item is a message that contains words, which are in lower case. A damaged one is none."""
    with contextlib.suppress(*DAMAGE):
        message = _item_decoder.decode(item)
        parts = message.content
        text = parts if isinstance(parts, str) else "\n".join(part.text for part in parts)
        return message.type == "message" and words in text.casefold()
    return False


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script. Triggers may contain semicolons."""
    statement = ""
    for piece in script.split(";"):
        statement += piece
        if piece.strip() and sqlite3.complete_statement(f"{statement};"):
            yield statement
            statement = ""
        else:
            statement += ";"


def _check_intact(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        error = sqlite3.DatabaseError(found)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
