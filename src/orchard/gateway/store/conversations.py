"""Stored conversations and their items. What a caller may not see isn't there: OrchardError says
"conversation_not_found"."""

import sqlite3
from collections.abc import Sequence

import msgspec

from orchard.core.errors import OrchardError
from orchard.gateway.caller import Caller
from orchard.gateway.store import items as store_items
from orchard.gateway.store.items import Fields, Page, PageQuery
from orchard.gateway.store.store import ResponseStore

_json = msgspec.json.Encoder().encode
_LIVE = """
SELECT created, metadata FROM threads
WHERE id = :id AND metadata NOT NULL AND expires > :now AND (:admin OR user IS :user)
"""
# Only what may bear on items that are to be added: the calls that they answer, and items of the same ids.
_RELATED = f"""{store_items.THREAD}
SELECT i.item FROM listed l JOIN items i ON i.number = l.number
WHERE i.id IN (SELECT value FROM json_each(:ids)) OR (:calls != '[]' AND
    json_extract(CAST(i.item AS TEXT), '$.call_id') IN (SELECT value FROM json_each(:calls)))
ORDER BY l.place
"""  # noqa: S608


def create(store: ResponseStore, caller: Caller, id_: str, metadata: Fields, items: Sequence[Fields]) -> float:
    """Begin a conversation; return the time of its beginning. Raises OrchardError ("payload_too_large")."""

    def work(db: sqlite3.Connection) -> float:
        created = store.begin(db, id_, caller.user, metadata)
        _add(store, db, id_, items)
        return created

    return store.run(work)


def load(store: ResponseStore, caller: Caller, id_: str) -> tuple[float, Fields]:
    """Return a conversation's beginning and metadata."""

    def work(db: sqlite3.Connection) -> tuple[float, Fields]:
        created, metadata = live(store, db, caller, id_)
        return created, msgspec.json.decode(metadata)

    return store.run(work)


def update(store: ResponseStore, caller: Caller, id_: str, metadata: Fields) -> float:
    """Replace a conversation's metadata; return the time of its beginning."""

    def work(db: sqlite3.Connection) -> float:
        created, _ = live(store, db, caller, id_)
        db.execute("UPDATE threads SET metadata = ? WHERE id = ?", (_json(metadata), id_))
        store.written(db, id_)
        return created

    return store.run(work)


def delete(store: ResponseStore, caller: Caller, id_: str) -> None:
    """Forget a conversation with its items and its responses."""

    def work(db: sqlite3.Connection) -> None:
        live(store, db, caller, id_)
        db.execute("DELETE FROM threads WHERE id = ?", (id_,))

    store.run(work)


def related(store: ResponseStore, caller: Caller, id_: str, ids: Sequence[str], calls: Sequence[str]) -> list[bytes]:
    """Return the items of a conversation that have one of these ids or of these calls' ids, oldest first."""

    def work(db: sqlite3.Connection) -> list[bytes]:
        live(store, db, caller, id_)
        given = {"id": id_, "ids": _json(ids), "calls": _json(calls).decode()}
        return [item for (item,) in db.execute(_RELATED, given)]

    return store.run(work)


def add_items(store: ResponseStore, caller: Caller, id_: str, items: Sequence[Fields]) -> None:
    """Add items to a conversation. Raises OrchardError ("payload_too_large") where it would have too many."""

    def work(db: sqlite3.Connection) -> None:
        live(store, db, caller, id_)
        _add(store, db, id_, items)

    store.run(work)


def items(store: ResponseStore, caller: Caller, id_: str, wanted: PageQuery) -> Page:
    """Return a page of a conversation's items. Raises OrchardError ("item_not_found") where `after` is none of them."""

    def work(db: sqlite3.Connection) -> Page:
        live(store, db, caller, id_)
        return store_items.page(db, store_items.THREAD, {"id": id_}, wanted)

    return store.run(work)


def item(store: ResponseStore, caller: Caller, id_: str, item_id: str) -> bytes:
    """Return one item of a conversation. Raises OrchardError ("item_not_found")."""

    def work(db: sqlite3.Connection) -> bytes:
        live(store, db, caller, id_)
        found = store_items.some(db, store_items.THREAD, id_, [item_id]).get(item_id)
        if found is None:
            raise _no_item(id_, item_id)
        return found

    return store.run(work)


def delete_item(store: ResponseStore, caller: Caller, id_: str, item_id: str) -> None:
    """Take an item out of a conversation. Raises OrchardError ("item_not_found")."""

    def work(db: sqlite3.Connection) -> None:
        live(store, db, caller, id_)
        if not db.execute("DELETE FROM items WHERE thread = ? AND id = ?", (id_, item_id)).rowcount:
            raise _no_item(id_, item_id)

    store.run(work)


def live(
    store: ResponseStore, db: sqlite3.Connection, caller: Caller, id_: str, param: str | None = None
) -> tuple[float, bytes]:
    """Return a conversation's beginning, and its metadata as JSON; `param`: the field that names it."""
    row = db.execute(_LIVE, store.visible(caller, id_)).fetchone()
    if row is None:
        message = f"no conversation '{id_}' here: it is unknown, was deleted, or has expired"
        raise OrchardError("conversation_not_found", message, param=param)
    return row[0], row[1]


def _add(store: ResponseStore, db: sqlite3.Connection, id_: str, items: Sequence[Fields]) -> None:
    store_items.insert(db, id_, items)
    store_items.extent(db, store_items.THREAD, id_).check(f"conversation '{id_}'", store.max_past_bytes)
    store.written(db, id_)


def _no_item(id_: str, item_id: str) -> OrchardError:
    return OrchardError("item_not_found", f"no item '{item_id}' in conversation '{id_}'")
