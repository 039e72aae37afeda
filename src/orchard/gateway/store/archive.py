"""Conversations and chat completions that have expired, as JSON files."""

import os
import sqlite3
from pathlib import Path

import msgspec
from msgspec import Raw

from orchard.gateway.store import items as store_items
from orchard.gateway.store.items import Fields


def archived(db: sqlite3.Connection, thread: str, now: float) -> Fields:
    """Return a thread in the form in which it is archived."""
    created, metadata = db.execute("SELECT created, metadata FROM threads WHERE id = ?", (thread,)).fetchone()
    responses = []
    query = "SELECT id, body FROM responses WHERE thread = ? AND body NOT NULL"
    for id_, body in db.execute(query, (thread,)).fetchall():
        query = "SELECT item FROM items WHERE response = ? AND output = ? ORDER BY number"
        given, output = ([Raw(item) for (item,) in db.execute(query, (id_, side))] for side in (0, 1))
        responses.append(msgspec.json.decode(body) | {"input": given, "output": output})
    found: Fields = {"id": thread, "created_at": created, "archived_at": now}
    if completion := db.execute("SELECT body FROM completions WHERE id = ?", (thread,)).fetchone():
        messages = [Raw(message) for _, message in store_items.every(db, store_items.THREAD, thread)]
        return found | {"completion": Raw(completion[0]), "messages": messages}
    if metadata is not None:
        items = [Raw(item) for _, item in store_items.every(db, store_items.THREAD, thread)]
        found |= {"metadata": msgspec.json.decode(metadata), "items": items}
    return found | {"responses": responses}


def write(folder: str, name: str, conversation: Fields) -> None:
    """Write `name`.json, which only its owner may read; replace a file of that name. Raise OSError."""
    target = Path(folder) / f"{name}.json"
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = target.with_suffix(".tmp")
    file = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(conversation)))
    os.replace(unfinished, target)
