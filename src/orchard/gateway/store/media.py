"""Media of stored items. Each user's are stored once, by a hash of their bytes, by which items refer to them.

A trigger of the database deletes a medium with the last item that refers to it.
"""

import base64
import copy
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart, is_data_url
from orchard.dialects.common.media import MediaReference
from orchard.gateway.media.data_urls import decode_base64
from orchard.gateway.media.errors import MAX_REQUEST_BYTES

Fields = dict[str, Any]

_MARK = b"orchard-media:"
_HOLDERS = ("content", "output", "content_parts")  # each has a list of parts, or one part
_URLS = ("image_url", "video_url", "file_url", "file_data")
_NESTED = (("image_url", "url"), ("video_url", "url"), ("input_audio", "data"), ("file", "file_data"))
_BASE64 = ("data", "file_data")
_OF_ITEM = "SELECT m.hash, m.data FROM item_media r JOIN media m ON m.hash = r.hash WHERE r.item = ?"
_OF_LISTED = """
WHERE m.hash IN (
    SELECT r.hash FROM listed l JOIN items i ON i.number = l.number JOIN item_media r ON r.item = l.number
    WHERE :ids IS NULL OR i.id IN (SELECT value FROM json_each(:ids))
)
"""


class KnownMedia(Struct, frozen=True):
    """Media that new items refer to: those that were `fetched`, by URL, and stored ones (`kept`), by digest."""

    fetched: Mapping[str, MediaPart] = {}
    kept: Mapping[str, bytes] = {}


NO_MEDIA = KnownMedia()


def pack_item(item: Fields, known: KnownMedia = NO_MEDIA, user: str | None = None) -> tuple[Fields, dict[str, bytes]]:
    """Return an item without its media, and the media by digest, which depends on the `user` who stores them.

    So storing a medium takes the same time whether or not another user has stored it. Values that can't be read as a
    medium, and URLs that weren't fetched, stay in the item.
    """
    media: dict[str, bytes] = {}
    if not any(_places(item)):
        return item, media
    item = copy.deepcopy(item)
    for holder, name in _places(item):
        value = holder[name]
        if kept := MediaReference.parse(value):
            if kept.digest in known.kept:
                media[kept.digest] = known.kept[kept.digest]
            continue
        data, media_type, original = _medium(value, name, known)
        if data:
            hashed = hashlib.sha256((user or "").encode())
            hashed.update(data)
            digest = hashed.hexdigest()
            holder[name] = MediaReference(digest, "".join(media_type.split()), original).url
            media[digest] = data
    return item, media


def restore_item(item: bytes, media: Mapping[str, bytes]) -> bytes:
    """Return a packed item, as JSON, with its media."""
    if _MARK not in item:
        return item
    found = msgspec.json.decode(item)
    for holder, name in _places(found):
        kept = MediaReference.parse(holder[name])
        if kept and kept.digest in media:
            holder[name] = _as_sent(kept, media[kept.digest])
    return msgspec.json.encode(found)


def add_media(db: sqlite3.Connection, number: int, media: Mapping[str, bytes]) -> None:
    """Store the media of the item with a number."""
    for digest, data in media.items():
        db.execute("INSERT OR IGNORE INTO media VALUES (?, ?)", (digest, data))
        db.execute("INSERT INTO item_media VALUES (?, ?)", (number, digest))


def load_item_media(db: sqlite3.Connection, number: int | None, item: bytes) -> bytes:
    """Return the item with a number, as JSON, with its media."""
    return restore_item(item, dict(db.execute(_OF_ITEM, (number,)))) if _MARK in item else item


def load_listed_media(
    db: sqlite3.Connection, listed: str, id_: str, ids: Sequence[str] | None = None
) -> dict[str, bytes]:
    """Return the media of the listed items, or only of those with one of the `ids`, by digest.

    Raise OrchardError ("payload_too_large") if they are larger than a request may have.
    """
    given = {"id": id_, "ids": None if ids is None else msgspec.json.encode(ids).decode()}
    query = f"{listed} SELECT coalesce(sum(length(m.data)), 0) FROM media m {_OF_LISTED}"  # noqa: S608
    (size,) = db.execute(query, given).fetchone()
    if size > MAX_REQUEST_BYTES:
        message = f"the media of what this request continues have {size} bytes; at most {MAX_REQUEST_BYTES} are allowed"
        raise OrchardError("payload_too_large", message)
    return dict(db.execute(f"{listed} SELECT m.hash, m.data FROM media m {_OF_LISTED}", given))  # noqa: S608


def _places(item: Fields) -> Iterator[tuple[Fields, str]]:
    """Yield the places where an item may have media: an object, and the name of a text in it."""
    for parts in (item.get(name) for name in _HOLDERS):
        for part in parts if isinstance(parts, list) else (parts,):
            if isinstance(part, dict):
                holders = [(part, name) for name in _URLS]
                holders += [(inner, name) for outer, name in _NESTED if isinstance(inner := part.get(outer), dict)]
                yield from ((holder, name) for holder, name in holders if isinstance(holder.get(name), str))


def _medium(value: str, name: str, known: KnownMedia) -> tuple[bytes | None, str, str]:
    """Return the bytes of a value (None: not a medium), their media type, and the `original` for a `MediaReference`."""
    if found := known.fetched.get(value):
        return found.data, found.media_type, value
    if is_data_url(value):
        begin = value.find(",") + 1
        media_type, *parameters = (piece.strip().lower() for piece in value[5 : begin - 1].split(";"))
        is_base64 = begin and parameters[-1:] == ["base64"]
        return (decode_base64(value, begin) if is_base64 else None), media_type, value[:begin]
    return (decode_base64(value) if name in _BASE64 else None), "", ""


def _as_sent(kept: MediaReference, data: bytes) -> str:
    if kept.original and not is_data_url(kept.original):
        return kept.original
    return kept.original + base64.b64encode(data).decode()
