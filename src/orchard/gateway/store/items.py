"""The items of threads: writing them, listing them page by page, and limits on their number and size.

THREAD, CHAIN, UP_TO and MADE_OF are beginnings of queries. Each defines `listed`: numbers, ids and places of items.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from orchard.core.errors import OrchardError
from orchard.gateway.store import media as store_media
from orchard.gateway.store.media import KnownMedia

Fields = dict[str, Any]
Order = Literal["asc", "desc"]

MAX_ITEMS = 8192
MAX_PARTS = 32_768


# A conversation includes a response's input and output only once the response is done.
_SAID = "(r.status IS NULL OR r.status IN ('completed', 'incomplete'))"
THREAD = f"""
WITH listed AS (
    SELECT i.number, i.id, i.number AS place FROM items i LEFT JOIN responses r ON r.id = i.response
    WHERE i.thread = :id AND {_SAID}
)
"""  # noqa: S608
"""The items of a conversation."""
_RESPONSES = """
WITH RECURSIVE chain (id, parent, depth) AS (
    SELECT id, parent, 0 FROM responses WHERE id = :id
    UNION ALL
    SELECT r.id, r.parent, chain.depth + 1 FROM responses r JOIN chain ON r.id = chain.parent
)
"""
CHAIN = f"""{_RESPONSES}, listed AS (
    SELECT i.number, i.id, row_number() OVER (ORDER BY chain.depth DESC, i.output, i.number) AS place
    FROM chain JOIN items i ON i.response = chain.id
)
"""  # noqa: S608
"""The items of a response, and of all responses that it continues."""
_WHOLE = f"""{_RESPONSES}, before (number, id) AS (
    SELECT i.number, i.id FROM responses own JOIN threads t ON t.id = own.thread
    JOIN items i ON i.thread = t.id LEFT JOIN responses r ON r.id = i.response
    WHERE own.id = :id AND own.parent IS NULL AND t.metadata NOT NULL AND {_SAID}
    AND i.number < (SELECT min(number) FROM items WHERE response = :id)
), whole AS (
    SELECT number, id, 1 AS depth, 0 AS output FROM before
    UNION ALL
    SELECT i.number, i.id, chain.depth, i.output FROM chain JOIN items i ON i.response = chain.id
)
"""  # noqa: S608
_PLACED = "SELECT number, id, row_number() OVER (ORDER BY depth DESC, output, number) AS place FROM whole"
UP_TO = f"{_WHOLE}, listed AS ({_PLACED})"
"""The items before a response, in its chain or its conversation, its input, and its output."""
MADE_OF = f"{_WHOLE}, listed AS ({_PLACED} WHERE NOT (depth = 0 AND output))"
"""The items before a response, in its chain or its conversation, and its input."""
_MISSING = f"""{_RESPONSES}
SELECT chain.parent FROM chain LEFT JOIN responses r ON r.id = chain.parent
WHERE chain.parent NOT NULL AND r.id IS NULL
AND chain.parent NOT IN (SELECT id FROM threads WHERE metadata NOT NULL)
"""  # noqa: S608
_CONTENT = " FROM listed l JOIN items i ON i.number = l.number "
_ITEMS = f"SELECT i.id, i.item, i.number {_CONTENT}"


class PageQuery(Struct, frozen=True):
    """A page of a list: at most `limit` items after the item `after`; `desc`: newest first."""

    after: str | None = None
    limit: int = 20
    order: Order = "desc"


class Page(Struct, frozen=True):
    """Some items of a list: the id and the JSON of each one. `more`: others follow."""

    items: list[tuple[str, bytes]]
    more: bool = False


class Extent(Struct, frozen=True):
    """The size of some items: their number, the bytes of their JSON, and their content parts."""

    items: int
    bytes: int
    parts: int

    def plus(self, items: Iterable[Fields]) -> "Extent":
        """Return the size with these items added."""
        sizes = [(len(msgspec.json.encode(item)), _count_parts(item)) for item in items]
        return Extent(
            self.items + len(sizes), self.bytes + sum(size for size, _ in sizes), self.parts + sum(n for _, n in sizes)
        )

    def check(self, what: str, max_bytes: int) -> None:
        """Raise OrchardError ("payload_too_large") if a request may not continue so much; `what` begins the message."""
        limits = (
            (self.items, MAX_ITEMS, "items"),
            (self.bytes, max_bytes, "bytes of items"),
            (self.parts, MAX_PARTS, "content parts"),
        )
        for found, most, unit in limits:
            if found > most:
                message = f"{what} is too long: {found} {unit}, at most {most} are allowed"
                raise OrchardError("payload_too_large", message)


def insert_items(
    db: sqlite3.Connection,
    thread: str,
    items: Sequence[Fields],
    known: KnownMedia = store_media.NO_MEDIA,
    *,
    response: str | None = None,
    output: int = 0,
) -> None:
    """Add items to a thread; `known` are the media that they refer to."""
    query = "INSERT INTO items (id, thread, response, output, item, parts) VALUES (?, ?, ?, ?, ?, ?)"
    (user,) = db.execute("SELECT user FROM threads WHERE id = ?", (thread,)).fetchone()
    for given in items:
        item, media = store_media.pack_item(given, known, user)
        row = (item["id"], thread, response, output, msgspec.json.encode(item), _count_parts(item))
        number = db.execute(query, row).lastrowid
        if media and number is not None:
            store_media.add_media(db, number, media)


def load_packed_items(db: sqlite3.Connection, listed: str, id_: str) -> list[bytes]:
    """Return all listed items without their media, oldest first."""
    return [item for _, item, _ in db.execute(f"{listed} {_ITEMS} ORDER BY l.place", {"id": id_})]


def load_items(db: sqlite3.Connection, listed: str, id_: str) -> list[bytes]:
    """Return all listed items, oldest first."""
    rows = db.execute(f"{listed} {_ITEMS} ORDER BY l.place", {"id": id_}).fetchall()
    return [store_media.load_item_media(db, number, item) for _, item, number in rows]


def find_item(db: sqlite3.Connection, listed: str, id_: str, item_id: str) -> bytes | None:
    """Return the listed item with this id, the newest of several; None if there is none."""
    query = f"{listed} {_ITEMS} WHERE i.id = :item ORDER BY l.place DESC LIMIT 1"
    found = db.execute(query, {"id": id_, "item": item_id}).fetchone()
    return store_media.load_item_media(db, found[2], found[1]) if found else None


def find_packed_items(db: sqlite3.Connection, listed: str, id_: str, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the listed items with one of these ids, by id, without their media; of several with one id, the newest."""
    query = f"{listed} {_ITEMS} WHERE i.id IN (SELECT value FROM json_each(:ids)) ORDER BY l.place"  # noqa: S608
    given = {"id": id_, "ids": msgspec.json.encode(ids).decode()}
    return {found: item for found, item, _ in db.execute(query, given)}


def measure_items(db: sqlite3.Connection, listed: str, id_: str) -> Extent:
    """Return the size of the listed items."""
    query = f"{listed} SELECT count(*), coalesce(sum(length(i.item)), 0), coalesce(sum(i.parts), 0) {_CONTENT}"
    return Extent(*db.execute(query, {"id": id_}).fetchone())


def load_page(db: sqlite3.Connection, listed: str, params: Fields, query: PageQuery, content: str = _ITEMS) -> Page:
    """Return one page of a list; `params` are those of the query `listed`.

    `content` selects ids, JSON, and the numbers of items (null for other objects).

    Raise OrchardError ("item_not_found") if there is no item `after`.
    """
    last, compare, way = ("max", ">", "ASC") if query.order == "asc" else ("min", "<", "DESC")
    params = params | {"after": query.after, "most": query.limit + 1}
    where = ""
    if query.after is not None:
        sql = f"{listed} SELECT {last}(place) FROM listed WHERE id = :after"  # noqa: S608
        (begin,) = db.execute(sql, params).fetchone()
        if begin is None:
            raise OrchardError("item_not_found", f"no item '{query.after}' in this list", param="after")
        where, params["begin"] = f"WHERE l.place {compare} :begin", begin
    sql = f"{listed} {content} {where} ORDER BY l.place {way} LIMIT :most"
    found = db.execute(sql, params).fetchall()
    items = [(id_, store_media.load_item_media(db, number, item)) for id_, item, number in found[: query.limit]]
    return Page(items, len(found) > query.limit)


def whole_response(db: sqlite3.Connection, id_: str, body: bytes) -> Fields:
    """Return a stored response with its own input and its output; `body` is its row's."""
    query = "SELECT number, item FROM items WHERE response = ? AND output = ? ORDER BY number"
    rows = (db.execute(query, (id_, side)).fetchall() for side in (0, 1))
    given, output = ([Raw(store_media.load_item_media(db, *row)) for row in side] for side in rows)
    whole: Fields = msgspec.json.decode(body)
    return whole | {"input": given, "output": output}


def check_chain(db: sqlite3.Connection, id_: str) -> None:
    """Raise OrchardError ("response_not_found") if a response that this one continues was deleted.

    That can only happen if it expired before this response was done.
    """
    if missing := db.execute(_MISSING, {"id": id_}).fetchone():
        message = f"response '{id_}' continues '{missing[0]}', which has expired"
        raise OrchardError("response_not_found", message, param="previous_response_id")


_ROW_BYTES = 300  # of a thread, with what it takes in indexes


def thread_bytes(db: sqlite3.Connection, *threads: str) -> int:
    """Return the size of threads in bytes, including their media."""
    queries = (
        "SELECT coalesce(sum(:row + coalesce(length(metadata), 0)), 0) FROM threads "
        "WHERE id IN (SELECT value FROM json_each(:ids))",
        "SELECT coalesce(sum(length(item)), 0) FROM items WHERE thread IN (SELECT value FROM json_each(:ids))",
        "SELECT coalesce(sum(coalesce(length(body), 0) + coalesce(length(events), 0)), 0) FROM responses "
        "WHERE thread IN (SELECT value FROM json_each(:ids))",
        "SELECT coalesce(sum(length(body)), 0) FROM completions WHERE id IN (SELECT value FROM json_each(:ids))",
        "SELECT coalesce(sum(length(data)), 0) FROM media WHERE hash IN (SELECT r.hash FROM items i "
        "JOIN item_media r ON r.item = i.number WHERE i.thread IN (SELECT value FROM json_each(:ids)))",
    )
    given = {"ids": msgspec.json.encode(threads), "row": _ROW_BYTES}
    return sum(int(db.execute(query, given).fetchone()[0]) for query in queries)


def _count_parts(item: Fields) -> int:
    return sum(len(value) for name in ("content", "output", "summary") if isinstance(value := item.get(name), list))
