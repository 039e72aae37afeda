"""The values in the prefix cache: texts as packed tokens; keys, values and states as MLX arrays or as host bytes.

Only the engine's thread may use the MLX arrays.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import mlx.core as mx
import numpy as np
from msgspec import Struct

from orchard.device.out_of_memory import raise_late_errors

# By safetensors' names: MLX's type, and a type of the same width that numpy has.
_TYPES: dict[str, tuple[Any, Any]] = {
    "BOOL": (mx.bool_, np.bool_),
    "U8": (mx.uint8, np.uint8),
    "U16": (mx.uint16, np.uint16),
    "U32": (mx.uint32, np.uint32),
    "U64": (mx.uint64, np.uint64),
    "I8": (mx.int8, np.int8),
    "I16": (mx.int16, np.int16),
    "I32": (mx.int32, np.int32),
    "I64": (mx.int64, np.int64),
    "F16": (mx.float16, np.float16),
    "BF16": (mx.bfloat16, np.uint16),
    "F32": (mx.float32, np.float32),
}
_NAMES = {mlx_type: name for name, (mlx_type, _) in _TYPES.items()}


class HostArray(NamedTuple):
    """An array in host memory: safetensors' name of its type ("BF16", "U32", ...), shape, and bytes in row order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


HostArrays = dict[str, HostArray]


def host_bytes(arrays: HostArrays) -> int:
    """Return the size of all arrays in bytes."""
    return sum(len(array.data) for array in arrays.values())


class State:
    """Arrays by name: a snapshot, at one place, of the layers that can't be cut; or a `Cut`."""

    def __init__(self, arrays: Mapping[str, mx.array], scale: tuple[int, int] = (1, 1)) -> None:
        """Take arrays, which may be lazy. To be cached, they must own their memory once they are evaluated.

        `scale`: what to multiply and to divide their size by, which counts for the prefix cache.
        """
        self.arrays = dict(arrays)
        self.scale = scale
        self.nbytes = sum(array.nbytes for array in self.arrays.values()) * scale[0] // scale[1]

    def to_host(self) -> HostArrays:
        """Wait for the arrays; return copies in host memory."""
        mx.eval(*self.arrays.values())
        host: HostArrays = {}
        for name, own in self.arrays.items():
            dtype = _NAMES[own.dtype]
            plain: Any = own.view(mx.uint16) if dtype == "BF16" else own  # a buffer has no bfloat16
            host[name] = HostArray(dtype, tuple(own.shape), memoryview(plain).tobytes())
        raise_late_errors()
        return host

    @classmethod
    def from_host(cls, arrays: HostArrays) -> Self:
        """Copy arrays from host memory. Raise KeyError or ValueError if `to_host` can't have returned them."""
        made: dict[str, mx.array] = {}
        for name, (dtype, shape, data) in arrays.items():
            mlx_type, numpy_type = _TYPES[dtype]
            plain = mx.array(np.frombuffer(data, numpy_type).reshape(shape))
            made[name] = plain.view(mlx_type) if plain.dtype != mlx_type else plain
        return cls(made)


_MOST_STACKED = 8  # arrays; a prefix that is read takes as much memory again for so many


class Stack(NamedTuple):
    """Arrays of one form, (1, heads, tokens, width), and their names, as one array (names, heads, tokens, width)."""

    names: tuple[str, ...]
    array: mx.array

    def split(self) -> dict[str, mx.array]:
        """Return the arrays, which share the stack's memory."""
        return {name: self.array[place : place + 1] for place, name in enumerate(self.names)}


class Cut(State):
    """The keys and values of a run of tokens: arrays (1, heads, tokens, width)."""

    stacks: Sequence[Stack] = ()
    """All arrays, if they lie in stacks."""

    def part(self, begin: int, end: int) -> "Cut":
        """Copy the tokens from `begin` to `end` into stacks; the device may still copy when this returns."""
        if self.stacks:
            stacks = [Stack(names, mx.contiguous(array[:, :, begin:end])) for names, array in self.stacks]
        else:
            alike: dict[object, list[str]] = {}
            for name, array in self.arrays.items():
                alike.setdefault((array.dtype, array.shape[1], array.shape[3]), []).append(name)
            stacks = [
                Stack(names, mx.contiguous(mx.concatenate([self.arrays[name][:, :, begin:end] for name in names])))
                for same in alike.values()
                for names in (tuple(same[at : at + _MOST_STACKED]) for at in range(0, len(same), _MOST_STACKED))
            ]
        # `concatenate` does not copy a single array. A view or a lazy copy would keep all of this alive, uncounted.
        mx.async_eval(*[stack.array for stack in stacks])  # type: ignore[no-untyped-call]
        arrays = {name: array for stack in stacks for name, array in stack.split().items()}
        made = Cut({name: arrays[name] for name in self.arrays}, self.scale)
        made.stacks = stacks
        return made


MEDIUM = 1 << 63
"""The least id of media; ids of tokens are below 2^31."""
_HALVES = MEDIUM | 1 << 31  # both halves of a medium's id are greater than any token
_UPPER_SHIFT = 32  # bits of the lower half
_TOKEN = (1 << 31) - 1
_SALT_WORDS = 4


class CacheScope(Struct, frozen=True):
    """Who may use what is cached of a prompt: prompts with the same `salt`; b"": all prompts without one.

    The first `shared` tokens may be used for all prompts.
    """

    salt: bytes = b""
    shared: int = 0

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Return the scope with this name; "" is everybody's."""
        return cls(hashlib.blake2b(name.encode(), digest_size=4 * _SALT_WORDS).digest() if name else b"")

    def add_salt(self, text: Sequence[int]) -> Sequence[int]:
        """Return a text with the salt in the upper halves of its first ids that are not shared.

        So the texts of different scopes differ from there on.
        """
        if not self.salt:
            return text
        salted = list(text)
        for place, upper in self._salt_words():
            if place < len(salted):
                salted[place] = upper << _UPPER_SHIFT | salted[place] & ((1 << _UPPER_SHIFT) - 1)
        return salted

    def shows(self, place: int, id_: int) -> bool:
        """Return whether prompts of this scope may learn that a cached text has this id at a place."""
        if place < self.shared:
            return id_ < MEDIUM
        upper = dict(self._salt_words()).get(place)
        return (id_ < MEDIUM or is_medium(id_)) if upper is None else id_ >> _UPPER_SHIFT == upper

    def _salt_words(self) -> Iterator[tuple[int, int]]:
        """Yield the places of the salt and the upper halves of the ids there, which are greater than any token."""
        for place, word in enumerate(array("I", self.salt), self.shared):
            yield place, MEDIUM >> _UPPER_SHIFT | word


EVERYBODY = CacheScope()
"""The scope of prompts that may be used for all others of this scope."""


def is_medium(id_: int) -> bool:
    """Return whether an id stands for a medium."""
    return id_ & _HALVES == _HALVES


def token_of(id_: int) -> int:
    """Return the token of an id that may have a salt; ids of media stay as they are."""
    return id_ if is_medium(id_) else id_ & _TOKEN


def media_ids(digest: bytes, count: int) -> list[int]:
    """Return the ids that replace the `count` tokens of a medium with this digest of its content.

    Each id has 62 bits of a hash of the digest and of the id's place, so that media differ from the first token on.
    """
    return [_HALVES | part for part in array("Q", hashlib.shake_128(digest).digest(8 * count))]


def pack_tokens(tokens: Sequence[int]) -> bytes:
    """Return token ids as unsigned 64-bit integers in bytes, which compare and hash at memory speed.

    Raise OverflowError if an id doesn't fit.
    """
    return array("Q", tokens).tobytes()


def condense_text(text: bytes) -> bytes:
    """Return packed text with four bytes per token and eight per other id; different texts give different bytes.

    File names are hashes of this. They stay the same as those of versions in which all ids had four bytes.
    """
    halves = np.frombuffer(text, np.uint32)
    needed = np.ones(halves.shape, np.bool_)
    needed[1::2] = halves[1::2] != 0
    return halves[needed].tobytes()


def unpack_tokens(text: bytes) -> list[int]:
    """Return the token ids of a packed text."""
    return array("Q", text).tolist()
