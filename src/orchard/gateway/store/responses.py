"""Stored responses: their output, their input, and what they continue. Functions raise OrchardError
("response_not_found") also for what the caller may not see."""

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from orchard.core.errors import OrchardError
from orchard.gateway.caller import Caller
from orchard.gateway.store import conversations as store_conversations
from orchard.gateway.store import items as store_items
from orchard.gateway.store import media as store_media
from orchard.gateway.store.items import Extent, Fields, Page, PageQuery
from orchard.gateway.store.media import KnownMedia
from orchard.gateway.store.store import Transaction

RUNNING = ("queued", "in_progress")
"""The statuses of a response that has not ended."""

_LIVE = """
SELECT r.status, r.owner, r.body FROM responses r JOIN threads t ON t.id = r.thread
WHERE r.id = :id AND r.body NOT NULL AND (t.pinned OR t.expires > :now) AND (:admin OR t.user IS :user)
"""
# Only outputs, whose ids this server makes: ids from callers may occur in several threads.
_NEWEST = """
SELECT r.id FROM items i JOIN responses r ON r.id = i.response JOIN threads t ON t.id = i.thread
WHERE i.id IN (SELECT value FROM json_each(:ids)) AND i.output AND r.body NOT NULL AND (t.pinned OR t.expires > :now)
AND t.user IS :user
ORDER BY i.number DESC LIMIT 1
"""
_THREAD_OF = """
SELECT thread FROM responses WHERE id = :id UNION SELECT id FROM threads WHERE id = :id AND metadata NOT NULL
"""


class ResponseRecord(Struct, frozen=True):
    """A response to store, with its input. `owner`: the server that runs it, while it runs.

    `user` owns the thread if the response begins one. `events`: its stream, if it ran in the background. `media`: the
    media that the input refers to.
    """

    response: Fields
    input: Sequence[Fields]
    user: str | None = None
    owner: str | None = None
    events: bytes | None = None
    media: KnownMedia = store_media.NO_MEDIA


class Past(Struct, frozen=True):
    """What a new response continues: the items before it, and others that its input refers to, by id.

    `media` are the media of all these items, by digest; the items are without them.
    """

    items: list[bytes]
    referenced: dict[str, bytes]
    extent: Extent = Extent(0, 0, 0)
    media: Mapping[str, bytes] = {}


def save_response(tx: Transaction, record: ResponseRecord) -> None:
    """Store a response or its new state. Raise OrchardError ("payload_too_large") if there is no room for it."""
    response = record.response
    id_, parent = response["id"], response["previous_response_id"]
    thread = _ensure_thread(tx, record)
    body = msgspec.json.encode({**response, "output": []})
    row = (id_, thread, parent, response["status"], record.owner, body, record.events)
    tx.db.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    # Insert all items again, so that a response's items stay together if several run in one conversation.
    tx.db.execute("DELETE FROM items WHERE response = ?", (id_,))
    for output, items in enumerate((record.input, response["output"])):
        store_items.insert_items(tx.db, thread, items, record.media, response=id_, output=output)
    tx.store.touch_thread(tx.db, thread)


def load_response(tx: Transaction, caller: Caller, id_: str) -> tuple[Fields, str | None]:
    """Return a response and, if it is not done, the server that runs it."""
    _, owner, body = tx.find(_LIVE, "response_not_found", caller, id_)
    response = msgspec.json.decode(body)
    output = tx.db.execute("SELECT item FROM items WHERE response = ? AND output ORDER BY number", (id_,))
    response["output"] = [Raw(item) for (item,) in output]
    return response, owner


def load_events(tx: Transaction, caller: Caller, id_: str) -> bytes | None:
    """Return the stream of events of a background response; None if there is none."""
    tx.find(_LIVE, "response_not_found", caller, id_)
    row: tuple[bytes | None] = tx.db.execute("SELECT events FROM responses WHERE id = ?", (id_,)).fetchone()
    return row[0]


def fail_response(tx: Transaction, caller: Caller, id_: str, reason: str) -> None:
    """Mark a response as failed because no server runs it any more."""
    _, _, body = tx.find(_LIVE, "response_not_found", caller, id_)
    failed = {"status": "failed", "error": {"code": "server_error", "message": reason}}
    done = msgspec.json.encode(msgspec.json.decode(body) | failed)
    tx.db.execute("UPDATE responses SET status = 'failed', owner = NULL, body = ? WHERE id = ?", (done, id_))


def delete_response(tx: Transaction, caller: Caller, id_: str) -> None:
    """Delete a response. The responses that continue it keep its items."""
    tx.find(_LIVE, "response_not_found", caller, id_)
    tx.db.execute("UPDATE responses SET body = NULL, events = NULL WHERE id = ?", (id_,))
    _prune_responses(tx.db, id_)


def load_input_items(tx: Transaction, caller: Caller, id_: str, wanted: PageQuery) -> Page:
    """Return a page of the items before a response, and of its input.

    Raise OrchardError ("item_not_found") for an unknown `after`.
    """
    tx.find(_LIVE, "response_not_found", caller, id_)
    store_items.check_chain(tx.db, id_)
    return store_items.load_page(tx.db, store_items.MADE_OF, {"id": id_}, wanted)


def load_past(
    tx: Transaction,
    caller: Caller,
    previous: str | None,
    conversation: str | None,
    references: Sequence[str],
) -> Past:
    """Return what a new response continues.

    Without a previous response and a conversation, look up the references, as far as they are in one chain. Raise
    OrchardError: "response_not_found", "conversation_not_found", "invalid_request" if the previous response is still
    running, "payload_too_large" if it is too much to continue.
    """
    if previous is not None:
        param = "previous_response_id"
        if tx.db.execute(store_conversations.LIVE, tx.store.visibility_params(caller, previous)).fetchone():
            return Past([], {})  # a new branch of the conversation
        status, _, _ = tx.find(_LIVE, "response_not_found", caller, previous, param)
        if status in RUNNING:
            raise OrchardError("invalid_request", f"response '{previous}' is not done yet", param=param)
        store_items.check_chain(tx.db, previous)
        listed, begin = store_items.CHAIN, previous
    elif conversation is not None:
        tx.find(store_conversations.LIVE, "conversation_not_found", caller, conversation, "conversation")
        listed, begin = store_items.THREAD, conversation
    else:
        # The chain that ends with the response that has the newest referenced output.
        given = tx.store.visibility_params(caller, "") | {"ids": msgspec.json.encode(references).decode()}
        newest = tx.db.execute(_NEWEST, given).fetchone()
        if not newest:
            return Past([], {})
        found = store_items.find_packed_items(tx.db, store_items.UP_TO, newest[0], references)
        return Past([], found, media=store_media.load_listed_media(tx.db, store_items.UP_TO, newest[0], references))
    extent = store_items.measure_items(tx.db, listed, begin)
    extent.check("what this request continues", tx.store.max_past_bytes)
    media = store_media.load_listed_media(tx.db, listed, begin)
    return Past(store_items.load_packed_items(tx.db, listed, begin), {}, extent, media)


def _ensure_thread(tx: Transaction, record: ResponseRecord) -> str:
    """Return the thread of a response; a new one if it continues nothing that is still stored."""
    response = record.response
    if response["conversation"]:
        query, key = "SELECT id FROM threads WHERE id = :id", response["conversation"]["id"]
    else:  # the id is that of a conversation if the response begins a branch
        query, key = _THREAD_OF, response["previous_response_id"]
    if row := tx.db.execute(query, {"id": key}).fetchone():
        return str(row[0])
    tx.store.begin_thread(tx.db, response["id"], record.user)
    return str(response["id"])


def _prune_responses(db: sqlite3.Connection, id_: str | None) -> None:
    """Remove a deleted response that nothing continues, and deleted ones that only it continued."""
    while id_ is not None:
        row = db.execute("SELECT parent, thread, body IS NULL FROM responses WHERE id = ?", (id_,)).fetchone()
        if row is None or not row[2] or db.execute("SELECT 1 FROM responses WHERE parent = ?", (id_,)).fetchone():
            return
        parent, thread, _ = row
        db.execute("DELETE FROM responses WHERE id = ?", (id_,))
        if db.execute("SELECT metadata IS NULL FROM threads WHERE id = ?", (thread,)).fetchone()[0]:
            db.execute("DELETE FROM items WHERE response = ?", (id_,))
            if not db.execute("SELECT 1 FROM responses WHERE thread = ?", (thread,)).fetchone():
                db.execute("DELETE FROM threads WHERE id = ?", (thread,))
        id_ = parent
