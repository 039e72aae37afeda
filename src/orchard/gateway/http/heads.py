"""How much the heads of requests may take: one alone, and all of them together before any key is known."""

from orchard.core.errors import OrchardError
from orchard.gateway.http.budget import Budget

MAX_BYTES = 64 * 1024
MAX_FIELDS = 128
# Every connection has so much for itself, so that those who fill the rest keep nobody else out.
_OWN_BYTES = 4 * 1024
_SHARED_BYTES = 16 * 1024 * 1024
_LINE_BYTES = 4  # the colon, the space and the line's end


class Head:
    """Counts one request's head, and the trailers that may follow its body."""

    def __init__(self) -> None:
        self.size = 0
        self.is_complete = False
        self._fields = 0

    def target(self, part: bytes) -> None:
        """Count a part of the request's target. Raises OrchardError("head_too_large")."""
        self.size += len(part)
        check_size(self.size)

    def field(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer. Raises OrchardError("head_too_large")."""
        self.size += len(name) + len(value) + _LINE_BYTES
        check_size(self.size)
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise OrchardError("head_too_large", f"the request has more than {MAX_FIELDS} headers")


def check_size(size: int) -> None:
    """Raise OrchardError("head_too_large") where a head, or what has arrived of it, has more than `MAX_BYTES` bytes."""
    if size > MAX_BYTES:
        raise OrchardError("head_too_large", f"the head of the request is over the limit of {MAX_BYTES} bytes")


def budget() -> Budget:
    """Return what the heads on all connections of a server may take together."""
    return Budget(_SHARED_BYTES, "request heads", own=_OWN_BYTES)
