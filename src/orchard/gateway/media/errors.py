"""Checks that apply to all media, however they arrive, and the errors of media that fail them."""

from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaKind, MediaPart
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.common.media import UNKNOWN_TYPES

MAX_REQUEST_BYTES = 208 * 2**20
"""The most bytes of all media of a request together: a frame to a worker has room for them and the texts."""
_TYPES: dict[MediaKind, tuple[str, ...]] = {
    "image": ("image/",),
    "audio": ("audio/", "video/", "application/mp4", "application/ogg"),
    "video": ("video/", "application/mp4", "application/ogg"),
}

_WHAT: dict[MediaKind, str] = {
    "image": "an image",
    "audio": "audio",
    "video": "a video",
    "document": "a document",
}


def file_too_large(part: MediaPart, most: int | None = None) -> OrchardError:
    """Return the error of a medium whose file has more than `most` bytes; None: the limit of its kind."""
    message = f"`{part.param}` is too large: {_WHAT[part.kind]} may have {most or MAX_BYTES[part.kind]} bytes."
    return OrchardError("payload_too_large", message, param=part.param)


def media_too_large(part: MediaPart) -> OrchardError:
    """Return the error of a request whose media have too many bytes together."""
    message = f"`{part.param}` is too large: all media of a request may have {MAX_REQUEST_BYTES} bytes together."
    return OrchardError("payload_too_large", message, param=part.param)


def file_empty(part: MediaPart) -> OrchardError:
    """Return the error of a medium whose file has no bytes."""
    return invalid_field(part.param, "is empty.")


def check_media_type(part: MediaPart, media_type: str) -> None:
    """Raise OrchardError (invalid_request) if a media type (RFC 6838) does not match the kind of a medium."""
    if part.kind in _TYPES and media_type not in UNKNOWN_TYPES and not media_type.startswith(_TYPES[part.kind]):
        raise invalid_field(part.param, f"must be {_WHAT[part.kind]}, not {media_type[:64]!r}.")
    if part.kind == "image" and media_type.startswith("image/svg"):  # which no model reads
        raise invalid_field(
            part.param, f"must be an image of pixels, such as PNG, JPEG or WebP, not {media_type[:64]!r}."
        )
