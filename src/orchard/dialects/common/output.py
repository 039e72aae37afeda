"""What the answers of all dialects share."""

import sys
from array import array

# JSON needs no escapes for these, but clients that use str.splitlines() take them for line ends.
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def escape_line_ends(encoded: bytes) -> bytes:
    """Escape the Unicode line ends that JSON allows unescaped."""
    for raw, escaped in _LINE_ENDS:
        encoded = encoded.replace(raw, escaped)
    return encoded


def hex_id(request_id: str) -> str:
    """Return the part of a request's id that the ids of its answer contain."""
    return request_id.removeprefix("req_").replace("-", "")


def vector_floats(vector: bytes) -> list[float]:
    """Return the numbers of a vector in little-endian float32."""
    found = array("f", vector)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tolist()


def parameter_label(count: int) -> str:
    """Return a number of parameters with two or three digits, such as 4.0B; empty if it is 0."""
    for unit, size in {"T": 1e12, "B": 1e9, "M": 1e6, "K": 1e3}.items():
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 100 * size else f"{count / size:.0f}{unit}"
    return str(count or "")
