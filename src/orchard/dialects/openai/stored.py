"""What OpenAI's APIs share for stored objects: metadata, pages of lists, and deletions."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from orchard.dialects.common.json_body import decode_body

MAX_PAGE = 100
DEFAULT_PAGE = 20

Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]
_json = msgspec.json.Encoder().encode


class MetadataUpdate(Struct):
    """A request to replace the metadata of a stored object."""

    metadata: Metadata | None


_update_decoder = msgspec.json.Decoder(MetadataUpdate)


def parse_metadata(body: bytes) -> dict[str, str]:
    """Return the new metadata of a stored object from a request body. Raise OrchardError if it is wrong."""
    return dict(decode_body(_update_decoder, body).metadata or {})


def page_of_objects(items: Sequence[tuple[str, bytes]], more: bool = False) -> bytes:
    """Return one page of stored objects; `items` are pairs of an id and JSON, `more`: others follow."""
    return _json(
        {
            "object": "list",
            "data": [Raw(item) for _, item in items],
            "first_id": items[0][0] if items else "",
            "last_id": items[-1][0] if items else "",
            "has_more": more,
        }
    )


def deletion_body(id_: str, kind: str) -> bytes:
    """Return the response body for a deleted object."""
    return _json({"id": id_, "object": kind, "deleted": True})
