"""The tables of stored responses.

A file's `user_version` is the number of scripts that have run on it; the others run when it is opened. Never change a
released script: add a new one.
"""

_FIRST = """
CREATE TABLE threads (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    expires REAL NOT NULL,
    metadata BLOB
);
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    thread TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    parent TEXT,
    status TEXT NOT NULL,
    owner TEXT,
    body BLOB,
    events BLOB
);
CREATE TABLE items (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    thread TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    response TEXT,
    output INTEGER NOT NULL,
    item BLOB NOT NULL
);
CREATE INDEX threads_by_end ON threads (expires);
CREATE INDEX responses_by_thread ON responses (thread);
CREATE INDEX responses_by_parent ON responses (parent);
CREATE INDEX items_by_id ON items (id);
CREATE INDEX items_by_thread ON items (thread);
CREATE INDEX items_by_response ON items (response, output);
"""
# A digest of the API key that owns the thread; null: it was stored without a key.
_USERS = "ALTER TABLE threads ADD COLUMN user TEXT"
# The number of an item's content parts, which is limited for all that a request continues.
_PARTS = "ALTER TABLE items ADD COLUMN parts INTEGER NOT NULL DEFAULT 0"
# Chat completions. Each has a thread with the same id, whose items are the messages.
_COMPLETIONS = """
CREATE TABLE completions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE REFERENCES threads (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    metadata TEXT NOT NULL,
    body BLOB NOT NULL
);
"""

# Media, by the SHA-256 of their bytes, and the items that refer to them.
_MEDIA = """
CREATE TABLE media (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE item_media (
    item INTEGER NOT NULL REFERENCES items (number) ON DELETE CASCADE,
    hash TEXT NOT NULL,
    PRIMARY KEY (item, hash)
) WITHOUT ROWID;
CREATE INDEX item_media_by_hash ON item_media (hash);
CREATE TRIGGER media_without_items AFTER DELETE ON item_media
WHEN NOT EXISTS (SELECT 1 FROM item_media WHERE hash = OLD.hash)
BEGIN
    DELETE FROM media WHERE hash = OLD.hash;
END;
"""

# Pinned threads are kept until somebody deletes them. `changed`: the time of the last addition.
_PINNED = """
ALTER TABLE threads ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN changed REAL NOT NULL DEFAULT 0;
UPDATE threads SET changed = created;
CREATE INDEX pinned_threads ON threads (changed) WHERE pinned;
"""

SCRIPTS = (_FIRST, _USERS, _PARTS, _COMPLETIONS, _MEDIA, _PINNED)
