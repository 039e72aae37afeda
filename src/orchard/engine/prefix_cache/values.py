"""What the prefix cache keeps, as far as it knows: things with a size that can be cut or written down."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class HostArray(NamedTuple):
    """An array in host memory: safetensors' name of its type ("BF16", "U32", ...), its shape, its bytes, row by row."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


HostArrays = dict[str, HostArray]


class Payload(Protocol):
    """The keys and values of a run of tokens, of all layers that can be cut at any token."""

    @property
    def nbytes(self) -> int:
        """What it takes of the memory; never changes."""
        ...

    def part(self, begin: int, end: int) -> "Payload":
        """Copy the tokens from `begin` to `end`: what it gives owns its memory."""
        ...

    def to_host(self) -> HostArrays:
        """Copy it to host memory."""
        ...


class Snapshot(Protocol):
    """The state, at one place, of the layers that can't be cut."""

    @property
    def nbytes(self) -> int:
        """What it takes of the memory; never changes."""
        ...

    def to_host(self) -> HostArrays:
        """Copy it to host memory."""
        ...


def pack(tokens: Sequence[int]) -> bytes:
    """Give token ids as unsigned 32-bit integers, so that runs of them compare and hash at memory speed.

    Raises OverflowError where an id doesn't fit.
    """
    return array("I", tokens).tobytes()


def unpack(text: bytes) -> list[int]:
    """Give the token ids again."""
    return array("I", text).tolist()
