"""What is kept of responses and conversations, and for how long.

A **thread** is what is kept and thrown away together: a conversation object with its responses, or a response with all
that go on from it. Its time begins anew whenever something is added to it.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from orchard.core.errors import OrchardError
from orchard.gateway import store_archive
from orchard.gateway.store_file import StoreFile

log = logging.getLogger("orchard.gateway.store")

Fields = dict[str, Any]
Listed = list[tuple[str, bytes]]
"""Items, oldest first: the id and the JSON of each."""

_LEFT = 0.9  # of the room, where it is full: it isn't full again with the next response
_json = msgspec.json.Encoder().encode
_CHAIN = """
WITH RECURSIVE chain (id, parent, depth) AS (
    SELECT id, parent, 0 FROM responses WHERE id = ?
    UNION ALL
    SELECT r.id, r.parent, chain.depth + 1 FROM responses r JOIN chain ON r.id = chain.parent
)
"""
_CHAIN_ITEMS = (
    _CHAIN
    + """
SELECT i.id, i.item FROM chain JOIN items i ON i.response = chain.id
WHERE ? OR NOT (chain.depth = 0 AND i.output)
ORDER BY chain.depth DESC, i.output, i.number
"""
)
# A conversation gets what a response was asked and what it said when it is done.
_THREAD_ITEMS = """
SELECT i.id, i.item FROM items i LEFT JOIN responses r ON r.id = i.response
WHERE i.thread = ? AND (r.status IS NULL OR r.status IN ('completed', 'incomplete'))
ORDER BY i.number
"""
# What a conversation held before a response got into it.
_BEFORE = """
SELECT i.id, i.item FROM responses own JOIN threads t ON t.id = own.thread
JOIN items i ON i.thread = t.id LEFT JOIN responses r ON r.id = i.response
WHERE own.id = ?1 AND own.parent IS NULL AND t.metadata NOT NULL
AND (r.status IS NULL OR r.status IN ('completed', 'incomplete'))
AND i.number < (SELECT min(number) FROM items WHERE response = ?1)
ORDER BY i.number
"""
_MISSING = (
    _CHAIN
    + """
SELECT chain.parent FROM chain LEFT JOIN responses r ON r.id = chain.parent
WHERE chain.parent NOT NULL AND r.id IS NULL
"""
)
_LIVE = """
SELECT r.status, r.owner, r.body FROM responses r JOIN threads t ON t.id = r.thread
WHERE r.id = ? AND r.body NOT NULL AND t.expires > ?
"""


class Record(Struct, frozen=True):
    """A response that is to be kept, with what it was asked. `owner`: the server that runs it, while it runs.

    `events`: its stream, where it ran in the background.
    """

    response: Fields
    input: Sequence[Fields]
    owner: str | None = None
    events: bytes | None = None


class Found(Struct, frozen=True):
    """A response that is kept: its JSON, and the server that runs it, if it is not done."""

    response: Fields
    owner: str | None

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.response["status"] in ("queued", "in_progress")


class Past(Struct, frozen=True):
    """What a new response builds upon: the items before it, and those that its input refers to, by their ids."""

    items: list[bytes]
    referenced: dict[str, bytes]


class Store:
    """Keeps responses and conversations in one file. Every method is one transaction and blocks: use one thread.

    All of them raise OrchardError: "unavailable" where the file can't be used, and the kind of what isn't there.
    """

    def __init__(
        self,
        path: str,
        *,
        ttl: float,
        max_bytes: int,
        archive: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Threads are kept `ttl` seconds, and all of them in `max_bytes`; what expires goes to the folder `archive`."""
        self._file = StoreFile(path)
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._archive = archive
        self._clock = clock

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # Responses

    def save(self, record: Record) -> bool:
        """Keep a response, or what has become of it since it was kept; say whether there is too much now."""

        def work(db: sqlite3.Connection) -> bool:
            response, now = record.response, self._clock()
            id_, parent = response["id"], response["previous_response_id"]
            thread = self._thread(db, response, now)
            db.execute("UPDATE threads SET expires = ? WHERE id = ?", (now + self._ttl, thread))
            body = _json({**response, "output": []})
            row = (id_, thread, parent, response["status"], record.owner, body, record.events)
            db.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            # All anew, so that what one response says stays together where several run in one conversation.
            db.execute("DELETE FROM items WHERE response = ?", (id_,))
            for output, items in enumerate((record.input, response["output"])):
                _insert(db, thread, items, response=id_, output=output)
            return _size(db) > self._max_bytes

        return self._file.run(work)

    def load(self, id_: str) -> Found:
        """Give a response (response_not_found)."""

        def work(db: sqlite3.Connection) -> Found:
            _, owner, body = self._live(db, id_)
            response = msgspec.json.decode(body)
            output = db.execute("SELECT item FROM items WHERE response = ? AND output ORDER BY number", (id_,))
            response["output"] = [Raw(item) for (item,) in output]
            return Found(response, owner)

        return self._file.run(work)

    def events(self, id_: str) -> bytes | None:
        """Give the stream of a response that ran in the background (response_not_found)."""

        def work(db: sqlite3.Connection) -> bytes | None:
            self._live(db, id_)
            (events,) = db.execute("SELECT events FROM responses WHERE id = ?", (id_,)).fetchone()
            found: bytes | None = events
            return found

        return self._file.run(work)

    def fail(self, id_: str, reason: str) -> None:
        """Say that a response has failed because nobody runs it any more."""

        def work(db: sqlite3.Connection) -> None:
            _, _, body = self._live(db, id_)
            failed = {"status": "failed", "error": {"code": "server_error", "message": reason}}
            done = _json(msgspec.json.decode(body) | failed)
            db.execute("UPDATE responses SET status = 'failed', owner = NULL, body = ? WHERE id = ?", (done, id_))

        self._file.run(work)

    def delete(self, id_: str) -> None:
        """Forget a response (response_not_found). What it said stays a part of the responses that go on from it."""

        def work(db: sqlite3.Connection) -> None:
            self._live(db, id_)
            db.execute("UPDATE responses SET body = NULL, events = NULL WHERE id = ?", (id_,))
            _prune(db, id_)

        self._file.run(work)

    def input_items(self, id_: str) -> Listed:
        """Give what a response was made of: what was said before it, and its own input (response_not_found)."""

        def work(db: sqlite3.Connection) -> Listed:
            self._live(db, id_)
            before: Listed = db.execute(_BEFORE, (id_,)).fetchall()
            return before + _chain(db, id_, own_output=False)

        return self._file.run(work)

    def past(self, previous: str | None, conversation: str | None, references: Sequence[str]) -> Past:
        """Look up what a new response builds upon (response_not_found, conversation_not_found, item_not_found)."""

        def work(db: sqlite3.Connection) -> Past:
            items: Listed = []
            if previous is not None:
                self._check_previous(db, previous)
                items = _chain(db, previous, own_output=True)
            elif conversation is not None:
                self._conversation(db, conversation, "conversation")
                items = _of_thread(db, conversation)
            known = {id_ for id_, _ in items}
            referenced = {id_: self._item(db, id_) for id_ in references if id_ not in known}
            return Past([item for _, item in items], referenced)

        return self._file.run(work)

    # Conversations

    def create(self, id_: str, metadata: Fields, items: Sequence[Fields]) -> float:
        """Begin a conversation; give the time of its beginning."""

        def work(db: sqlite3.Connection) -> float:
            now = self._clock()
            db.execute("INSERT INTO threads VALUES (?, ?, ?, ?)", (id_, now, now + self._ttl, _json(metadata)))
            _insert(db, id_, items)
            return now

        return self._file.run(work)

    def conversation(self, id_: str, metadata: Fields | None = None) -> tuple[float, Fields]:
        """Give a conversation's beginning and metadata, after `metadata` has replaced it (conversation_not_found)."""

        def work(db: sqlite3.Connection) -> tuple[float, Fields]:
            if metadata is not None:
                self._conversation(db, id_)
                row = (_json(metadata), self._clock() + self._ttl, id_)
                db.execute("UPDATE threads SET metadata = ?, expires = ? WHERE id = ?", row)
            created, found = self._conversation(db, id_)
            return created, msgspec.json.decode(found)

        return self._file.run(work)

    def delete_conversation(self, id_: str) -> None:
        """Forget a conversation with its items and its responses (conversation_not_found)."""

        def work(db: sqlite3.Connection) -> None:
            self._conversation(db, id_)
            db.execute("DELETE FROM threads WHERE id = ?", (id_,))

        self._file.run(work)

    def add_items(self, id_: str, items: Sequence[Fields]) -> None:
        """Add items to a conversation (conversation_not_found)."""

        def work(db: sqlite3.Connection) -> None:
            self._conversation(db, id_)
            db.execute("UPDATE threads SET expires = ? WHERE id = ?", (self._clock() + self._ttl, id_))
            _insert(db, id_, items)

        self._file.run(work)

    def items(self, id_: str) -> Listed:
        """Give the items of a conversation (conversation_not_found)."""

        def work(db: sqlite3.Connection) -> Listed:
            self._conversation(db, id_)
            return _of_thread(db, id_)

        return self._file.run(work)

    def delete_item(self, id_: str, item: str) -> None:
        """Take an item out of a conversation (conversation_not_found, item_not_found)."""

        def work(db: sqlite3.Connection) -> None:
            self._conversation(db, id_)
            if not db.execute("DELETE FROM items WHERE thread = ? AND id = ?", (id_, item)).rowcount:
                raise OrchardError("item_not_found", f"no item '{item}' in conversation '{id_}'")

        self._file.run(work)

    # The end of threads

    def sweep(self) -> None:
        """Throw away what has expired, and what was used least recently where all of it takes too much room."""

        def work(db: sqlite3.Connection) -> int:
            now = self._clock()
            gone = 0
            for (thread,) in db.execute("SELECT id FROM threads WHERE expires <= ?", (now,)).fetchall():
                gone += self._end(db, thread, now, forced=False)
            enough = self._max_bytes * (_LEFT if _size(db) > self._max_bytes else 1)
            while _size(db) > enough:
                oldest = db.execute("SELECT id FROM threads ORDER BY expires LIMIT 1").fetchone()
                if oldest is None:
                    break
                gone += self._end(db, oldest[0], now, forced=True)
            return gone

        if self._file.begun and self._file.run(work):
            self._file.shrink()

    def _end(self, db: sqlite3.Connection, thread: str, now: float, *, forced: bool) -> bool:
        """Archive a thread and throw it away; unless forced, it stays where it can't be archived."""
        if self._archive is not None:
            try:
                store_archive.write(self._archive, thread, _whole(db, thread, now))
            except OSError as error:
                log.error("conversation %s can't be archived in %s: %s", thread, self._archive, error)
                if not forced:
                    return False
        db.execute("DELETE FROM threads WHERE id = ?", (thread,))
        return True

    # Parts of transactions

    def _live(self, db: sqlite3.Connection, id_: str, param: str | None = None) -> tuple[str, str | None, bytes]:
        """Give a response's status, owner and body."""
        row = db.execute(_LIVE, (id_, self._clock())).fetchone()
        if row is None:
            message = f"no response '{id_}' here: it is unknown, was deleted, or has expired"
            raise OrchardError("response_not_found", message, param=param)
        return row[0], row[1], row[2]

    def _check_previous(self, db: sqlite3.Connection, id_: str) -> None:
        param = "previous_response_id"
        status, _, _ = self._live(db, id_, param=param)
        if status in ("queued", "in_progress"):
            raise OrchardError("invalid_request", f"response '{id_}' is not done yet", param=param)

    def _conversation(self, db: sqlite3.Connection, id_: str, param: str | None = None) -> tuple[float, bytes]:
        query = "SELECT created, metadata FROM threads WHERE id = ? AND metadata IS NOT NULL AND expires > ?"
        row = db.execute(query, (id_, self._clock())).fetchone()
        if row is None:
            message = f"no conversation '{id_}' here: it is unknown, was deleted, or has expired"
            raise OrchardError("conversation_not_found", message, param=param)
        return row[0], row[1]

    def _item(self, db: sqlite3.Connection, id_: str) -> bytes:
        query = """SELECT i.item FROM items i JOIN threads t ON t.id = i.thread
                   WHERE i.id = ? AND t.expires > ? ORDER BY i.number DESC LIMIT 1"""
        row = db.execute(query, (id_, self._clock())).fetchone()
        if row is None:
            message = f"no item '{id_}' here: it was not stored, was deleted, or has expired"
            raise OrchardError("item_not_found", message, param="input")
        item: bytes = row[0]
        return item

    def _thread(self, db: sqlite3.Connection, response: Fields, now: float) -> str:
        """Give the thread of a response; one of its own where it goes on from nothing that is still here."""
        if response["conversation"]:
            query, key = "SELECT id FROM threads WHERE id = ?", response["conversation"]["id"]
        else:
            query, key = "SELECT thread FROM responses WHERE id = ?", response["previous_response_id"]
        row = db.execute(query, (key,)).fetchone()
        if row is None:
            row = (response["id"],)
            db.execute("INSERT OR IGNORE INTO threads VALUES (?, ?, ?, NULL)", (*row, now, now + self._ttl))
        thread: str = row[0]
        return thread


def _insert(
    db: sqlite3.Connection, thread: str, items: Sequence[Fields], *, response: str | None = None, output: int = 0
) -> None:
    rows = [(item["id"], thread, response, output, _json(item)) for item in items]
    db.executemany("INSERT INTO items (id, thread, response, output, item) VALUES (?, ?, ?, ?, ?)", rows)


def _of_thread(db: sqlite3.Connection, thread: str) -> Listed:
    return db.execute(_THREAD_ITEMS, (thread,)).fetchall()


def _chain(db: sqlite3.Connection, id_: str, *, own_output: bool) -> Listed:
    """Give the items of a response and of all that it goes on from."""
    # What a response goes on from can only be gone where it had expired before this one was done.
    if missing := db.execute(_MISSING, (id_,)).fetchone():
        message = f"response '{id_}' goes on from '{missing[0]}', which has expired"
        raise OrchardError("response_not_found", message, param="previous_response_id")
    return db.execute(_CHAIN_ITEMS, (id_, own_output)).fetchall()


def _prune(db: sqlite3.Connection, id_: str | None) -> None:
    """Remove a deleted response that nothing goes on from, and those deleted before it that it kept alive."""
    while id_ is not None:
        row = db.execute("SELECT parent, thread, body IS NULL FROM responses WHERE id = ?", (id_,)).fetchone()
        if row is None or not row[2] or db.execute("SELECT 1 FROM responses WHERE parent = ?", (id_,)).fetchone():
            return
        parent, thread, _ = row
        db.execute("DELETE FROM responses WHERE id = ?", (id_,))
        if db.execute("SELECT metadata IS NULL FROM threads WHERE id = ?", (thread,)).fetchone()[0]:
            db.execute("DELETE FROM items WHERE response = ?", (id_,))
            empty = not db.execute("SELECT 1 FROM responses WHERE thread = ?", (thread,)).fetchone()
            if empty:
                db.execute("DELETE FROM threads WHERE id = ?", (thread,))
        id_ = parent


def _size(db: sqlite3.Connection) -> int:
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _whole(db: sqlite3.Connection, thread: str, now: float) -> Fields:
    """Give a thread as it is archived."""
    created, metadata = db.execute("SELECT created, metadata FROM threads WHERE id = ?", (thread,)).fetchone()
    responses = []
    for id_, body in db.execute(
        "SELECT id, body FROM responses WHERE thread = ? AND body NOT NULL", (thread,)
    ).fetchall():
        query = "SELECT item FROM items WHERE response = ? AND output = ? ORDER BY number"
        given, output = ([Raw(item) for (item,) in db.execute(query, (id_, side))] for side in (0, 1))
        responses.append(msgspec.json.decode(body) | {"input": given, "output": output})
    whole: Fields = {"id": thread, "created_at": created, "archived_at": now}
    if metadata is not None:
        items = [Raw(item) for _, item in _of_thread(db, thread)]
        whole |= {"metadata": msgspec.json.decode(metadata), "items": items}
    return whole | {"responses": responses}
