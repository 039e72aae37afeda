"""Decode media in data: URLs (RFC 2397)."""

import base64

from msgspec.structs import replace

from orchard.core.media import MAX_BYTES, MediaPart
from orchard.dialects.common.json_body import invalid_field
from orchard.gateway.media.errors import check_media_type, file_empty, file_too_large

_STEP = 2**20  # characters to decode at a time, so that the GIL is never held for long


def decode_data_url(part: MediaPart) -> MediaPart:
    """Return a part with the bytes of its data: URL. Call it in a thread, because it may take long.

    Raise OrchardError: invalid_request if it is not base64, or its media type does not match the kind of the part;
    payload_too_large, before anything is decoded.
    """
    comma = part.url.find(",")
    head = part.url[len("data:") : comma] if comma >= 0 else ""
    media_type, *parameters = (piece.strip().lower() for piece in head.split(";"))
    if not parameters or parameters[-1] != "base64":
        raise invalid_field(part.param, "must be a data: URL with base64, such as 'data:image/png;base64,iVBO...'.")
    check_media_type(part, media_type)
    if (len(part.url) - comma - 1) // 4 * 3 > MAX_BYTES[part.kind] + 2:
        raise file_too_large(part)
    data = decode_base64(part.url, comma + 1)
    if data is None:
        raise invalid_field(part.param, "must hold valid base64 (RFC 4648, 4; with padding, without line ends).")
    if not data:
        raise file_empty(part)
    if len(data) > MAX_BYTES[part.kind]:
        raise file_too_large(part)
    return replace(part, url="", data=data, media_type=media_type)


def decode_base64(text: str, begin: int = 0) -> bytes | None:
    """Return the bytes of base64 text from the character `begin` on; None if it is not base64 (RFC 4648, 4)."""
    if (len(text) - begin) % 4:
        return None
    pieces = []
    for start in range(begin, len(text), _STEP):
        try:
            pieces.append(base64.b64decode(text[start : start + _STEP], validate=True))
        except ValueError:
            return None
        if start + _STEP < len(text) and len(pieces[-1]) != _STEP // 4 * 3:  # padding before the end
            return None
    return b"".join(pieces)
