"""A channel between rank 0 and another rank: over a socket, or over ssh. This imports no MLX."""

import os
import select
import threading
from typing import Any

from msgspec import DecodeError, msgpack

HEADER_BYTES = 4
"""Each message follows its length, which has so many bytes. The length 0 is a sign of life, for a rank's keeper."""
MOST_BYTES = 2**26
"""The most bytes of a message: the longest ones have a prompt's tokens, of up to five bytes each."""


class Channel:
    """Messages to and from another process, over two file descriptors, which may be the same. It blocks."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._sending = threading.Lock()

    def send(self, message: Any) -> None:
        """Send a message. Any thread may do so. Raise OSError if nobody can read it any more."""
        data = msgpack.encode(message)
        self._write(len(data).to_bytes(HEADER_BYTES, "big") + data)

    def send_beat(self) -> None:
        """Send a sign of life. Any thread may do so. Raise OSError if nobody can read it any more."""
        self._write(bytes(HEADER_BYTES))

    def is_readable(self, seconds: float) -> bool:
        """Wait for at most so many seconds until there is a message or the end; return whether there is."""
        poll = select.poll()
        poll.register(self._incoming, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def receive(self) -> bytes:
        """Return the next message, encoded. Raise EOFError if there is none any more, or DecodeError if it is none."""
        size = int.from_bytes(self._read(HEADER_BYTES), "big")
        if size > MOST_BYTES:
            raise DecodeError(f"it would have {size:,} bytes")
        return self._read(size)

    def skip_until(self, mark: bytes, most: int) -> None:
        """Skip what comes before a mark, and the mark. Raise EOFError if it isn't among the next `most` bytes."""
        seen = b""
        while not seen.endswith(mark) and len(seen) < most:
            seen += self._read(1)
        if not seen.endswith(mark):
            raise EOFError

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        with self._sending:
            while left:
                left = left[os.write(self._outgoing, left) :]

    def _read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = os.read(self._incoming, size)
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
