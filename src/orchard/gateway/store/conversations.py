"""Stored conversations and their items. Functions raise OrchardError ("conversation_not_found") also for what the
caller may not see."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.gateway.caller import Caller
from orchard.gateway.store import items as store_items
from orchard.gateway.store.items import Fields, Page, PageQuery
from orchard.gateway.store.media import KnownMedia
from orchard.gateway.store.store import Transaction

_SEARCH_SECONDS = 2.0
_OPERATIONS_PER_LOOK = 10_000  # of SQLite's machine, between two looks at the clock
_VISIBLE = "metadata NOT NULL AND (pinned OR expires > :now) AND (:admin OR user IS :user)"
_ABOUT = """CAST(json_object(
    'created', created, 'changed', changed, 'pinned', json(iif(pinned, 'true', 'false')),
    'metadata', json(CAST(metadata AS TEXT))
) AS BLOB)"""
LIVE = f"SELECT {_ABOUT} FROM threads WHERE id = :id AND {_VISIBLE}"  # noqa: S608
"""A `Conversation` as JSON."""
_LISTED = f"""
WITH listed AS (
    SELECT rowid AS number, id, row_number() OVER (ORDER BY changed, rowid) AS place FROM threads t
    WHERE {_VISIBLE} AND (
        :words = '' OR title_has_words(metadata, :words)
        OR EXISTS (SELECT 1 FROM items i WHERE i.thread = t.id AND item_has_words(i.item, :words))
    )
)
"""  # noqa: S608
_LISTED_CONTENT = f"SELECT l.id, {_ABOUT}, NULL FROM listed l JOIN threads t ON t.rowid = l.number"  # noqa: S608
_RESPONSES = """
WITH listed AS (
    SELECT rowid AS number, id, rowid AS place FROM responses WHERE thread = :id AND body NOT NULL
)
"""
_RESPONSES_CONTENT = "SELECT l.id, r.body, NULL FROM listed l JOIN responses r ON r.rowid = l.number"
# Only the items that new ones may refer to: calls that they answer, and items with the same ids.
_RELATED = f"""{store_items.THREAD}
SELECT i.item FROM listed l JOIN items i ON i.number = l.number
WHERE i.id IN (SELECT value FROM json_each(:ids)) OR (:calls != '[]' AND
    json_extract(CAST(i.item AS TEXT), '$.call_id') IN (SELECT value FROM json_each(:calls)))
ORDER BY l.place
"""  # noqa: S608


class Conversation(Struct, frozen=True):
    """A conversation without its items; times are in seconds since the epoch, `changed` that of the last addition.

    `pinned`: it is kept until somebody deletes it.
    """

    created: float
    changed: float
    pinned: bool
    metadata: Fields


def create_conversation(
    tx: Transaction,
    caller: Caller,
    id_: str,
    metadata: Fields,
    items: Sequence[Fields],
    *,
    pinned: bool = False,
    fetched: Mapping[str, MediaPart] = {},
) -> Conversation:
    """Create a conversation. `fetched` are the media of the items, by URL.

    Raise OrchardError ("payload_too_large", "store_full").
    """
    created = tx.store.begin_thread(tx.db, id_, caller.user, metadata)
    _pin(tx, id_, pinned)
    _insert_items(tx, id_, items, fetched)
    return Conversation(created, created, pinned, metadata)


def load_conversation(tx: Transaction, caller: Caller, id_: str) -> Conversation:
    """Return a conversation."""
    return _decode(tx.find(LIVE, "conversation_not_found", caller, id_)[0])


def search_conversations(
    tx: Transaction, caller: Caller, words: str, wanted: PageQuery
) -> tuple[list[tuple[str, Conversation]], bool]:
    """Return a page of the caller's conversations, by their last change, with their ids, and whether others follow.

    Only those whose title or texts contain `words`, in any case. Raise OrchardError ("item_not_found") if `after` is
    unknown, and "overloaded" if it takes too long.
    """
    given = tx.store.visibility_params(caller, "") | {"words": words.casefold()}
    with _deadline(tx.db):
        page = store_items.load_page(tx.db, _LISTED, given, wanted, _LISTED_CONTENT)
    return [(id_, _decode(about)) for id_, about in page.items], page.more


@contextmanager
def _deadline(db: sqlite3.Connection) -> Iterator[None]:
    """Raise OrchardError ("overloaded") if the queries inside take too long: all requests wait for the store."""
    end = time.monotonic() + _SEARCH_SECONDS
    db.set_progress_handler(lambda: time.monotonic() > end, _OPERATIONS_PER_LOOK)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        message = f"there are too many conversations to search them within {_SEARCH_SECONDS:g} seconds"
        raise OrchardError("overloaded", message, param="query") from error
    finally:
        db.set_progress_handler(None, 0)


def load_responses_page(tx: Transaction, caller: Caller, id_: str, wanted: PageQuery) -> Page:
    """Return a page of a conversation's responses, each with its input. Raise OrchardError ("item_not_found")."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    page = store_items.load_page(tx.db, _RESPONSES, {"id": id_}, wanted, _RESPONSES_CONTENT)
    whole = [(each, store_items.whole_response(tx.db, each, body)) for each, body in page.items]
    return Page([(each, msgspec.json.encode(response)) for each, response in whole], page.more)


def update_conversation(
    tx: Transaction, caller: Caller, id_: str, metadata: Fields, *, pinned: bool | None = None
) -> Conversation:
    """Replace a conversation's metadata; pin it or no longer, unless `pinned` is None."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    tx.db.execute("UPDATE threads SET metadata = ? WHERE id = ?", (msgspec.json.encode(metadata), id_))
    if pinned is not None:
        _pin(tx, id_, pinned)
    tx.store.touch_thread(tx.db, id_)
    return load_conversation(tx, caller, id_)


def delete_conversation(tx: Transaction, caller: Caller, id_: str) -> None:
    """Delete a conversation with its items and its responses."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    tx.db.execute("DELETE FROM threads WHERE id = ?", (id_,))


def related_items(tx: Transaction, caller: Caller, id_: str, ids: Sequence[str], calls: Sequence[str]) -> list[bytes]:
    """Return the items of a conversation that have one of these ids or call ids, oldest first."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    given = {"id": id_, "ids": msgspec.json.encode(ids), "calls": msgspec.json.encode(calls).decode()}
    return [item for (item,) in tx.db.execute(_RELATED, given)]


def add_conversation_items(
    tx: Transaction, caller: Caller, id_: str, items: Sequence[Fields], *, fetched: Mapping[str, MediaPart] = {}
) -> None:
    """Add items to a conversation; `fetched` are the media of the items, by URL.

    Raise OrchardError ("payload_too_large") if the conversation would be too large.
    """
    tx.find(LIVE, "conversation_not_found", caller, id_)
    _insert_items(tx, id_, items, fetched)


def load_items_page(tx: Transaction, caller: Caller, id_: str, wanted: PageQuery) -> Page:
    """Return a page of a conversation's items. Raise OrchardError ("item_not_found") for an unknown `after`."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    return store_items.load_page(tx.db, store_items.THREAD, {"id": id_}, wanted)


def load_item(tx: Transaction, caller: Caller, id_: str, item_id: str) -> bytes:
    """Return one item of a conversation. Raise OrchardError ("item_not_found")."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    found = store_items.find_item(tx.db, store_items.THREAD, id_, item_id)
    if found is None:
        raise OrchardError("item_not_found", f"no item '{item_id}' in conversation '{id_}'")
    return found


def delete_conversation_item(tx: Transaction, caller: Caller, id_: str, item_id: str) -> None:
    """Delete an item of a conversation. Raise OrchardError ("item_not_found")."""
    tx.find(LIVE, "conversation_not_found", caller, id_)
    if not tx.db.execute("DELETE FROM items WHERE thread = ? AND id = ?", (id_, item_id)).rowcount:
        raise OrchardError("item_not_found", f"no item '{item_id}' in conversation '{id_}'")


def _pin(tx: Transaction, id_: str, pinned: bool) -> None:
    tx.db.execute("UPDATE threads SET pinned = ? WHERE id = ?", (pinned, id_))


def _decode(about: bytes) -> Conversation:
    return msgspec.json.decode(about, type=Conversation)


def _insert_items(tx: Transaction, id_: str, items: Sequence[Fields], fetched: Mapping[str, MediaPart]) -> None:
    store_items.insert_items(tx.db, id_, items, KnownMedia(fetched))
    store_items.measure_items(tx.db, store_items.THREAD, id_).check(f"conversation '{id_}'", tx.store.max_past_bytes)
    tx.store.touch_thread(tx.db, id_)
