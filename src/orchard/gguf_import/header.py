"""Reads the header of GGUF files, which anybody may have written: everything in it is bounded.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The package's own reader follows any count that a
file has, and makes an array of numpy for each string: for Gemma 3's vocabulary, this takes 23 s and 800 MB.
"""

import itertools
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFValueType
from numpy.typing import NDArray

from orchard import folder_files

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_FIELDS = 65_536
_MOST_TENSORS = 65_536
_MOST_ITEMS = 2**22  # of all arrays; Gemma 3 has 0.8 million
_MOST_STRING_BYTES = 2**24
_MOST_NAME_BYTES = 1024
_MOST_HEADER_BYTES = 2**26  # Gemma 3 has 8 million
_MOST_INTEGER = 2**31 - 1
_MOST_ALIGNMENT = 2**20
_SCALARS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}


class UnusableFileError(ValueError):
    """A file can't be imported. The message is the end of a sentence that begins with the file."""


class Tensor(NamedTuple):
    """A tensor of a file. `shape`: the longest step first, as numpy has it; `offset`: its first byte in the file."""

    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    file: Path
    offset: int

    @property
    def row_bytes(self) -> int:
        """The bytes of a row, which is what lies along the last axis."""
        items, size = GGML_QUANT_SIZES[self.kind]
        return self.shape[-1] // items * size

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return math.prod(self.shape[:-1])

    def read_rows(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the bytes of some rows: (rows, row_bytes). Raise OSError, or UnusableFileError if the file is cut."""
        count = (stop - start) * self.row_bytes
        with self.file.open("rb") as file:
            file.seek(self.offset + start * self.row_bytes)
            content = file.read(count)
        if len(content) != count:
            raise UnusableFileError("it ends too early")
        return np.frombuffer(content, np.uint8).reshape(stop - start, self.row_bytes)


class Metadata:
    """The metadata of a file, of which each value is checked when it is asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """Return a whole number. Raise UnusableFileError if it is missing, too small or large, or something else."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_INTEGER:
            raise self._wrong(key, f"a whole number from {least} to {_MOST_INTEGER:,}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number. Raise UnusableFileError if it is missing, or something else."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._wrong(key, "a positive number")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text. Raise UnusableFileError if it is missing, or something else."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return whether it is so. Raise UnusableFileError if it is neither true nor false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts. Raise UnusableFileError if it is missing, or something else."""
        value = self._values.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list of texts")
        return value

    def numbers(self, key: str) -> NDArray[Any]:
        """Return a list of numbers. Raise UnusableFileError if it is missing, or something else."""
        value = self._values.get(key)
        if not isinstance(value, np.ndarray):
            raise self._wrong(key, "a list of numbers")
        return value

    def _wrong(self, key: str, wanted: str) -> UnusableFileError:
        known = "is something else" if key in self._values else "is missing"
        return UnusableFileError(f"its {key}, {wanted}, {known}")


class GgufModel(NamedTuple):
    """A model in GGUF: its metadata, and its tensors by name."""

    metadata: Metadata
    tensors: dict[str, Tensor]


def read_model(files: list[Path]) -> GgufModel:
    """Return the model in these files. The first one has the metadata. Raise OSError or UnusableFileError."""
    values: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for file in files:
        found, own = _read_file(file)
        values = values or found
        if twice := tensors.keys() & own.keys():
            raise UnusableFileError(f"it has {min(twice)} twice")
        tensors |= own
    metadata = Metadata(values)
    if (missing := metadata.integer("split.count", 1) - len(files)) > 0:
        raise UnusableFileError(f"{missing} of its {len(files) + missing} parts are not here")
    return GgufModel(metadata, tensors)


def _read_file(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with folder_files.open_regular_file(file) as opened:
        reader = _Reader(opened)
        values, tensors = reader.read_header()
        start = opened.tell()
    alignment = values.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
        raise UnusableFileError("its general.alignment is not a power of two")
    start = -(-start // alignment) * alignment
    found = {}
    for name, kind, shape, offset in tensors:
        tensor = Tensor(name, kind, shape, file, start + offset)
        if tensor.offset + tensor.rows * tensor.row_bytes > reader.size:
            raise UnusableFileError(f"it is not complete: {name} lies beyond its end")
        found[name] = tensor
    if len(found) < len(tensors):
        raise UnusableFileError("two of its tensors have the same name")
    in_order = sorted(found.values(), key=lambda tensor: tensor.offset)
    for before, after in itertools.pairwise(in_order):
        if before.offset + before.rows * before.row_bytes > after.offset:
            raise UnusableFileError(f"two of its tensors, {before.name} and {after.name}, lie in the same place")
    return values, found


class _Reader:
    """Reads the parts of a header, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self._items = 0
        self._bytes = 0

    def read_header(self) -> tuple[dict[str, Any], list[tuple[str, GGMLQuantizationType, tuple[int, ...], int]]]:
        """Return the metadata, and of each tensor the name, kind, shape and offset."""
        if self._take(4) != _MAGIC:
            raise UnusableFileError("it is not in GGUF format")
        version = self._integer("<I")
        if version not in _VERSIONS:
            order = " with the bytes of each number in reverse order" if version & 0xFFFF == 0 else f" {version}"
            raise UnusableFileError(f"it is in a version of GGUF{order} that can't be read")
        tensor_count, field_count = self._integer("<Q"), self._integer("<Q")
        if tensor_count > _MOST_TENSORS or field_count > _MOST_FIELDS:
            raise UnusableFileError(f"it says that it has {tensor_count:,} tensors and {field_count:,} fields")
        values: dict[str, Any] = {}
        for _ in range(field_count):
            name = self._string(_MOST_NAME_BYTES)
            if name in values:
                raise UnusableFileError(f"it has {name} twice")
            values[name] = self._value(self._kind())
        return values, [self._tensor() for _ in range(tensor_count)]

    def _tensor(self) -> tuple[str, GGMLQuantizationType, tuple[int, ...], int]:
        name = self._string(_MOST_NAME_BYTES)
        if not 1 <= (count := self._integer("<I")) <= 4:
            raise UnusableFileError(f"its {name} has {count} dimensions")
        shape = tuple(reversed([self._integer("<Q") for _ in range(count)]))
        number = self._integer("<I")
        try:
            kind = GGMLQuantizationType(number)
            items, _ = GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise UnusableFileError(f"its {name} is quantised in a way that is not known ({number})") from None
        if not all(0 < size < 2**40 for size in shape) or shape[-1] % items:
            raise UnusableFileError(f"its {name} has the shape {shape}, which {kind.name} can't have")
        offset = self._integer("<Q")
        return name, kind, shape, offset

    def _value(self, kind: GGUFValueType) -> Any:
        if kind == GGUFValueType.STRING:
            return self._string()
        if kind != GGUFValueType.ARRAY:
            return np.frombuffer(self._take(np.dtype(_SCALARS[kind]).itemsize), _SCALARS[kind])[0].item()
        kind, count = self._kind(), self._integer("<Q")
        self._items += count
        if self._items > _MOST_ITEMS:
            raise UnusableFileError(f"its lists have more than {_MOST_ITEMS:,} values")
        if kind == GGUFValueType.STRING:
            return [self._string() for _ in range(count)]
        if kind == GGUFValueType.ARRAY:
            raise UnusableFileError("it has lists of lists")
        return np.frombuffer(self._take(count * np.dtype(_SCALARS[kind]).itemsize), _SCALARS[kind])

    def _kind(self) -> GGUFValueType:
        number = self._integer("<I")
        try:
            return GGUFValueType(number)
        except ValueError:
            raise UnusableFileError(f"it has values of an unknown type ({number})") from None

    def _string(self, most: int = _MOST_STRING_BYTES) -> str:
        length = self._integer("<Q")
        if length > most:
            raise UnusableFileError(f"it has a text of {length:,} bytes")
        return self._take(length).decode("utf-8", "replace")

    def _integer(self, layout: str) -> int:
        (number,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return int(number)

    def _take(self, count: int) -> bytes:
        self._bytes += count
        if _MOST_HEADER_BYTES < self._bytes <= self.size:
            raise UnusableFileError(f"its metadata have more than {_MOST_HEADER_BYTES:,} bytes")
        content = self._file.read(count) if count <= self.size else b""
        if len(content) != count:
            raise UnusableFileError("it ends too early")
        return content
