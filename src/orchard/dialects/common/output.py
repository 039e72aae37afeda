"""What all dialects share of an answer."""

# Raw in JSON, but a line's end to clients that cut the stream with str.splitlines().
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def escape_line_ends(encoded: bytes) -> bytes:
    """Escape what stands raw in JSON and ends a line elsewhere."""
    for raw, escaped in _LINE_ENDS:
        encoded = encoded.replace(raw, escaped)
    return encoded


def hex_id(request_id: str) -> str:
    """Return the part of a request's id that the ids of its answer are made of."""
    return request_id.removeprefix("req_").replace("-", "")
