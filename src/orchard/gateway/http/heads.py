"""Limits on request heads: on each one, and on all together, because heads arrive before keys are checked."""

from orchard.core.errors import OrchardError

MAX_BYTES = 64 * 1024
MAX_FIELDS = 128
# Bytes reserved for each connection, so that clients that use up the rest don't lock out others.
OWN_BYTES = 4 * 1024
SHARED_BYTES = 16 * 1024 * 1024
_LINE_BYTES = 4  # the colon, the space and the line end


class Head:
    """Counts the bytes of a request's head, and of the trailers that may follow its body."""

    def __init__(self) -> None:
        self.size = 0
        self.is_complete = False
        self._fields = 0

    def count_target(self, part: bytes) -> None:
        """Count a part of the request's target. Raise OrchardError("head_too_large")."""
        self.size += len(part)
        check_size(self.size)

    def count_field(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer. Raise OrchardError("head_too_large")."""
        self.size += len(name) + len(value) + _LINE_BYTES
        check_size(self.size)
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise OrchardError("head_too_large", f"the request has more than {MAX_FIELDS} headers")


def check_size(size: int) -> None:
    """Raise OrchardError("head_too_large") if a head, or the part that has arrived, exceeds `MAX_BYTES`."""
    if size > MAX_BYTES:
        raise OrchardError("head_too_large", f"the headers of the request exceed the limit of {MAX_BYTES} bytes")
