"""What the prefix cache keeps, as far as it knows: values with a size that can be cut or written down."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class HostArray(NamedTuple):
    """An array in host memory: safetensors' name of its type ("BF16", "U32", ...), its shape, its bytes, row by row."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


HostArrays = dict[str, HostArray]


def host_bytes(arrays: HostArrays) -> int:
    """Return the size of all arrays."""
    return sum(len(array.data) for array in arrays.values())


class Snapshot(Protocol):
    """The state, at one place, of the layers that can't be cut."""

    @property
    def nbytes(self) -> int:
        """What it takes of the memory; never changes."""
        ...

    def to_host(self) -> HostArrays:
        """Copy it to host memory."""
        ...


class Payload(Snapshot, Protocol):
    """The keys and values of a run of tokens, of all layers that can be cut at any token."""

    def part(self, begin: int, end: int) -> "Payload":
        """Return a copy of the tokens from `begin` to `end`, which owns its memory."""
        ...


def pack(tokens: Sequence[int]) -> bytes:
    """Return token ids as unsigned 32-bit integers, so that runs of them compare and hash at memory speed.

    Raise OverflowError where an id doesn't fit.
    """
    return array("I", tokens).tobytes()


def unpack(text: bytes) -> list[int]:
    """Return the token ids that were packed."""
    return array("I", text).tolist()
