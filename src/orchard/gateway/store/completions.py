"""Stored chat completions. Each is a thread, whose items are the messages of its request. Functions raise OrchardError
("completion_not_found") also for what the caller may not see."""

from collections.abc import Mapping, Sequence

import msgspec

from orchard.gateway.caller import Caller
from orchard.gateway.store import items as store_items
from orchard.gateway.store.items import Fields, Page, PageQuery
from orchard.gateway.store.store import Transaction

_VISIBLE = "t.expires > :now AND (:admin OR t.user IS :user)"
_LIVE = f"SELECT c.body FROM completions c JOIN threads t ON t.id = c.id WHERE c.id = :id AND {_VISIBLE}"  # noqa: S608
# Completions that have all of the requested metadata.
_LISTED = f"""
WITH listed AS (
    SELECT c.number, c.id, c.number AS place FROM completions c JOIN threads t ON t.id = c.id
    WHERE {_VISIBLE} AND (:model IS NULL OR c.model = :model) AND NOT EXISTS (
        SELECT 1 FROM json_each(:metadata) wanted WHERE NOT EXISTS (
            SELECT 1 FROM json_each(c.metadata) own WHERE own.key = wanted.key AND own.value = wanted.value
        )
    )
)
"""  # noqa: S608
_CONTENT = "SELECT c.id, c.body, NULL FROM listed l JOIN completions c ON c.number = l.number"


def save_completion(tx: Transaction, caller: Caller, completion: Fields, messages: Sequence[Fields]) -> None:
    """Store a chat completion with the messages of its request. Raise OrchardError ("payload_too_large")."""
    id_ = completion["id"]
    tx.store.begin_thread(tx.db, id_, caller.user)
    row = (id_, completion["model"], _metadata_json(completion["metadata"]), msgspec.json.encode(completion))
    tx.db.execute("INSERT INTO completions (id, model, metadata, body) VALUES (?, ?, ?, ?)", row)
    store_items.insert_items(tx.db, id_, messages)
    tx.store.touch_thread(tx.db, id_)


def load_completion(tx: Transaction, caller: Caller, id_: str) -> bytes:
    """Return a completion as JSON."""
    return bytes(tx.find(_LIVE, "completion_not_found", caller, id_)[0])


def update_completion(tx: Transaction, caller: Caller, id_: str, metadata: Mapping[str, str]) -> bytes:
    """Replace a completion's metadata, and return the completion."""
    (stored,) = tx.find(_LIVE, "completion_not_found", caller, id_)
    body = msgspec.json.encode(msgspec.json.decode(stored) | {"metadata": metadata})
    tx.db.execute("UPDATE completions SET metadata = ?, body = ? WHERE id = ?", (_metadata_json(metadata), body, id_))
    tx.store.touch_thread(tx.db, id_)
    return body


def delete_completion(tx: Transaction, caller: Caller, id_: str) -> None:
    """Delete a completion with its messages."""
    tx.find(_LIVE, "completion_not_found", caller, id_)
    tx.db.execute("DELETE FROM threads WHERE id = ?", (id_,))


def load_messages(tx: Transaction, caller: Caller, id_: str, wanted: PageQuery) -> Page:
    """Return a page of the messages of a completion's request. Raise OrchardError ("item_not_found")."""
    tx.find(_LIVE, "completion_not_found", caller, id_)
    return store_items.load_page(tx.db, store_items.THREAD, {"id": id_}, wanted)


def search_completions(
    tx: Transaction, caller: Caller, model: str | None, metadata: Mapping[str, str], wanted: PageQuery
) -> Page:
    """Return a page of the caller's completions of `model`, if it is given, that have all of `metadata`.

    Raise OrchardError ("item_not_found") if `after` is unknown.
    """
    given = tx.store.visibility_params(caller, "") | {"model": model, "metadata": _metadata_json(metadata)}
    return store_items.load_page(tx.db, _LISTED, given, wanted, _CONTENT)


def _metadata_json(metadata: Mapping[str, str]) -> str:
    """Return metadata as JSON text, the only form that SQLite can read."""
    return msgspec.json.encode(metadata).decode()
