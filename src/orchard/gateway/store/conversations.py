"""Stored conversations and their items. Functions raise OrchardError ("conversation_not_found") also for what the
caller may not see."""

from collections.abc import Mapping, Sequence

import msgspec

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.gateway.caller import Caller
from orchard.gateway.store import items as store_items
from orchard.gateway.store.items import Fields, Page, PageQuery
from orchard.gateway.store.media import KnownMedia
from orchard.gateway.store.store import Transaction

LIVE = """
SELECT created, metadata FROM threads
WHERE id = :id AND metadata NOT NULL AND expires > :now AND (:admin OR user IS :user)
"""
"""The time at which a conversation was created, and its metadata as JSON."""
# Only the items that new ones may refer to: calls that they answer, and items with the same ids.
_RELATED = f"""{store_items.THREAD}
SELECT i.item FROM listed l JOIN items i ON i.number = l.number
WHERE i.id IN (SELECT value FROM json_each(:ids)) OR (:calls != '[]' AND
    json_extract(CAST(i.item AS TEXT), '$.call_id') IN (SELECT value FROM json_each(:calls)))
ORDER BY l.place
"""  # noqa: S608


def create_conversation(
    tx: Transaction,
    caller: Caller,
    id_: str,
    metadata: Fields,
    items: Sequence[Fields],
    *,
    fetched: Mapping[str, MediaPart] = {},
) -> float:
    """Create a conversation; return the time in seconds since the epoch. `fetched` are the media of the items, by URL.

    Raise OrchardError ("payload_too_large").
    """
    created = tx.store.begin_thread(tx.db, id_, caller.user, metadata)
    _insert_items(tx, id_, items, fetched)
    return created


def load_conversation(tx: Transaction, caller: Caller, id_: str) -> tuple[float, Fields]:
    """Return the time at which a conversation was created, and its metadata."""
    created, metadata = tx.find(LIVE, "conversation_not_found", caller, id_)
    return created, msgspec.json.decode(metadata)


def update_conversation(tx: Transaction, caller: Caller, id_: str, metadata: Fields) -> float:
    """Replace a conversation's metadata; return the time at which it was created."""
    created, _ = tx.find(LIVE, "conversation_not_found", caller, id_)
    tx.db.execute("UPDATE threads SET metadata = ? WHERE id = ?", (msgspec.json.encode(metadata), id_))
    tx.store.touch_thread(tx.db, id_)
    return float(created)


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


def _insert_items(tx: Transaction, id_: str, items: Sequence[Fields], fetched: Mapping[str, MediaPart]) -> None:
    store_items.insert_items(tx.db, id_, items, KnownMedia(fetched))
    store_items.measure_items(tx.db, store_items.THREAD, id_).check(f"conversation '{id_}'", tx.store.max_past_bytes)
    tx.store.touch_thread(tx.db, id_)
