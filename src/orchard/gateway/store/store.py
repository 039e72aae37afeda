"""Stored responses, conversations and chat completions, and how long they are kept.

A **thread** is kept and deleted as a whole: a conversation object with its responses, a response with all responses
that continue it, or a chat completion. Its time to live restarts whenever something is added to it. The functions of
`responses`, `conversations` and `completions` read and write threads.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Set
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec
from msgspec import Raw

from orchard.config import Settings
from orchard.core.errors import FailureKind, OrchardError
from orchard.gateway.caller import Caller
from orchard.gateway.store import items as store_items
from orchard.gateway.store.database import DAMAGE, StoreFile, log
from orchard.gateway.store.items import Fields
from orchard.gateway.throttle import Throttle

_MOST_PINNED = 10_000  # of a user, because each addition to a pinned thread looks at all of them
_MOST_NAMES = 3  # of conversations in a message
_LEFT = 0.9  # the part of the limit to shrink to once it is exceeded, so that it isn't exceeded again at once
# The threads of the responses and conversations that are in use, given by their own ids.
_USED = """
SELECT value FROM json_each(:used)
UNION SELECT thread FROM responses WHERE id IN (SELECT value FROM json_each(:used))
"""
# If a thread is from further in the future than clocks are adjusted, the clock was set back. Otherwise a thread may
# expire later than this server's time to live says, because another server's is longer.
_CLOCK_STEP = 60.0
_SET_BACK = """
UPDATE threads SET expires = :expires
WHERE expires > :expires AND EXISTS (SELECT 1 FROM threads WHERE created > :future)
"""
_RENEW = f"UPDATE threads SET expires = max(expires, :expires) WHERE id IN ({_USED})"  # noqa: S608
# Not those in use, and not those with runs, also of other servers.
_LEAST_RECENTLY_USED = f"""
SELECT id FROM threads WHERE NOT pinned AND id != :kept AND id NOT IN ({_USED})
AND id NOT IN (SELECT thread FROM responses WHERE status IN ('queued', 'in_progress'))
ORDER BY expires LIMIT 1
"""  # noqa: S608
# First those whose last addition is longest ago; `own`: they are of the user of a thread.
_PINNED = """
SELECT id, metadata, user IS (SELECT user FROM threads WHERE id = :thread) AS own FROM threads
WHERE pinned ORDER BY changed
"""

P = ParamSpec("P")
T = TypeVar("T")


class ResponseStore:
    """The threads of one file. Each call is one transaction and blocks; make all calls in the same thread.

    Methods raise OrchardError: "unavailable" if the file can't be used, "payload_too_large" for data that has no room
    even if all other threads are deleted, and "store_full" for data that has none beside pinned threads.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.max_past_bytes = settings.max_body_bytes
        """The most bytes that a request may continue."""
        self.in_use: Set[str] = frozenset()
        """The ids of conversations and responses that requests or runs use now. They are not deleted."""
        self.file = StoreFile(os.path.expanduser(settings.responses_path))
        self._ttl = settings.responses_ttl
        self._max_bytes = settings.responses_max_bytes
        self._archive = settings.responses_archive_dir
        self._clock = clock
        self._freed = False
        self._log = Throttle(log)

    def run(self, work: Callable[Concatenate["Transaction", P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or writes threads, in a new transaction."""
        return self.file.run(lambda db: work(Transaction(self, db), *args, **kwargs))

    def visibility_params(self, caller: Caller, id_: str) -> Fields:
        """Return the parameters of a query for an object that a caller may see and that has not expired."""
        return {"id": id_, "now": self._clock(), "user": caller.user, "admin": caller.admin}

    def begin_thread(self, db: sqlite3.Connection, id_: str, user: str | None, metadata: Fields | None = None) -> float:
        """Create a thread, unless it exists, and return the time. A conversation object has `metadata`."""
        now = self._clock()
        about = None if metadata is None else msgspec.json.encode(metadata)
        query = (
            "INSERT OR IGNORE INTO threads (id, created, changed, expires, metadata, user) VALUES (?, ?, ?, ?, ?, ?)"
        )
        db.execute(query, (id_, now, now, now + self._ttl, about, user))
        return now

    def touch_thread(self, db: sqlite3.Connection, thread: str) -> None:
        """Restart the time to live of a thread, and make room for what was added to it.

        Raise OrchardError ("payload_too_large", "store_full"), which rolls the addition back, if there can't be enough
        room.
        """
        now = self._clock()
        db.execute("UPDATE threads SET changed = ?, expires = ? WHERE id = ?", (now, now + self._ttl, thread))
        self._check_pinned(db, thread)
        if _used_bytes(db) <= self._max_bytes:
            return
        needed = store_items.thread_bytes(db, thread)
        if needed <= self._max_bytes:
            self._make_room(db, now, kept=thread)
            needed = _used_bytes(db)
            if needed > self._max_bytes and (pinned := db.execute(_PINNED, {"thread": thread}).fetchall()):
                full = f"the store is full: {self._max_bytes} bytes are allowed, and pinned conversations are kept"
                raise _store_full(full, pinned, thread)
        if needed > self._max_bytes:
            message = f"this would make {needed} bytes to be stored; all that is stored may have {self._max_bytes}"
            raise OrchardError("payload_too_large", message)

    def _check_pinned(self, db: sqlite3.Connection, thread: str) -> None:
        """Raise OrchardError ("store_full") if a user's pinned threads take more than half of what others' leave."""
        if not db.execute("SELECT pinned FROM threads WHERE id = ?", (thread,)).fetchone()[0]:
            return
        pinned = db.execute(_PINNED, {"thread": thread}).fetchall()
        own_ids, other_ids = ([id_ for id_, _, own in pinned if own == mine] for mine in (1, 0))
        size = store_items.thread_bytes(db, *own_ids)
        most = max(self._max_bytes - store_items.thread_bytes(db, *other_ids), 0) // 2
        full = ""
        if size > most:
            full = f"your pinned conversations would take {size} bytes, and they may take {most}"
        elif len(own_ids) > _MOST_PINNED:
            full = f"you may pin at most {_MOST_PINNED} conversations"
        if full:
            raise _store_full(full, pinned, thread)

    def sweep(self) -> None:
        """Delete expired threads and, if all take too much room, the least recently used ones."""

        def work(db: sqlite3.Connection) -> int:
            now = self._clock()
            db.execute(_SET_BACK, {"expires": now + self._ttl, "future": now + _CLOCK_STEP})
            db.execute(_RENEW, {"used": msgspec.json.encode(self.in_use), "expires": now + self._ttl})
            expired = db.execute("SELECT id FROM threads WHERE expires <= ? AND NOT pinned", (now,)).fetchall()
            return sum(self._end_thread(db, thread, now, forced=False) for (thread,) in expired) + self._make_room(
                db, now
            )

        if self.file.has_content and (self.file.run(work) or self._freed):
            self._freed = False
            self.file.shrink()

    def _make_room(self, db: sqlite3.Connection, now: float, kept: str = "") -> int:
        """Delete the least recently used threads, except `kept`, if needed; return how many were deleted."""
        gone = 0
        enough = self._max_bytes * (_LEFT if _used_bytes(db) > self._max_bytes else 1)
        while _used_bytes(db) > enough:
            given = {"used": msgspec.json.encode(self.in_use), "kept": kept}
            oldest = db.execute(_LEAST_RECENTLY_USED, given).fetchone()
            if oldest is None:
                break
            gone += self._end_thread(db, oldest[0], now, forced=True)
        self._freed = self._freed or bool(gone)
        return gone

    def _end_thread(self, db: sqlite3.Connection, thread: str, now: float, *, forced: bool) -> bool:
        """Archive and delete a thread; unless `forced`, keep it if archiving fails. Return whether it is deleted."""
        if self._archive is not None:
            try:
                _write_archive(self._archive, thread, _archive_form(db, thread, now))
            except OSError as error:
                self._log.error("conversation %s can't be archived in %s: %s", thread, self._archive, error)
                if not forced:
                    return False
            except DAMAGE as error:
                self._log.error("conversation %s is damaged, and is deleted without being archived: %s", thread, error)
        db.execute("DELETE FROM threads WHERE id = ?", (thread,))
        return True


class Transaction(NamedTuple):
    """A transaction on a store, for the functions that read and write threads."""

    store: ResponseStore
    db: sqlite3.Connection

    def find(self, query: str, kind: FailureKind, caller: Caller, id_: str, param: str | None = None) -> Any:
        """Return the row of an object. Raise OrchardError of a kind "…_not_found" if the caller can't see one.

        `param` is the field that names the object.
        """
        row = self.db.execute(query, self.store.visibility_params(caller, id_)).fetchone()
        if row is None:
            what = kind.removesuffix("_not_found")
            message = f"no {what} '{id_}' here: it is unknown, was not stored, was deleted, or has expired"
            raise OrchardError(kind, message, param=param)
        return row


def _archive_form(db: sqlite3.Connection, thread: str, now: float) -> Fields:
    """Return a thread in its archived form."""
    created, metadata = db.execute("SELECT created, metadata FROM threads WHERE id = ?", (thread,)).fetchone()
    query = "SELECT id, body FROM responses WHERE thread = ? AND body NOT NULL"
    responses = [store_items.whole_response(db, *row) for row in db.execute(query, (thread,)).fetchall()]
    found: Fields = {"id": thread, "created_at": created, "archived_at": now}
    if completion := db.execute("SELECT body FROM completions WHERE id = ?", (thread,)).fetchone():
        messages = [Raw(message) for message in store_items.load_items(db, store_items.THREAD, thread)]
        return found | {"completion": Raw(completion[0]), "messages": messages}
    if metadata is not None:
        items = [Raw(item) for item in store_items.load_items(db, store_items.THREAD, thread)]
        found |= {"metadata": msgspec.json.decode(metadata), "items": items}
    return found | {"responses": responses}


def _write_archive(folder: str, name: str, conversation: Fields) -> None:
    """Write `name`.json, which only its owner can read, and replace any existing file. Raise OSError."""
    text = msgspec.json.format(msgspec.json.encode(conversation))
    target = Path(folder) / f"{name}.json"
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = target.with_suffix(".tmp")
    file = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(text)
    os.replace(unfinished, target)


def _store_full(message: str, pinned: Iterable[tuple[str, bytes, bool]], thread: str) -> OrchardError:
    """Return an error that names some other pinned threads of the thread's user."""
    others = [(id_, about) for id_, about, own in pinned if own and id_ != thread][:_MOST_NAMES]
    names = [f"{id_} ({msgspec.json.decode(about).get('title', 'untitled')})" for id_, about in others]
    return OrchardError("store_full", f"{message}; delete one, such as {', '.join(names)}" if names else message)


def _used_bytes(db: sqlite3.Connection) -> int:
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
