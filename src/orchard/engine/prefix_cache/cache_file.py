"""Reads and writes a file of the disk tier: safetensors, with its place in the radix tree as metadata.

The format (https://huggingface.co/docs/safetensors/index#format) is 8 bytes of header length, a JSON header, and the
bytes of the arrays. The package safetensors is not used, because its `serialize` takes raw pointers (from 0.8), it
opens files by name, following links, and it holds everything in memory twice.
"""

import hashlib
import math
import os
import stat
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchard.engine.prefix_cache.values import HostArray, HostArrays, host_bytes, pack_tokens, unpack_tokens

VERSION = "1"
TEMPORARY = ".tmp"
_MAX_HEADER_BYTES = 16 * 2**20
_NO_CHECKSUM = "0" * 64

Kind = Literal["payload", "snapshot"]


class FileIdentity(Struct, frozen=True):
    """A file's place in the radix tree: its tokens begin at `start`.

    `under`: the hash of the text of the file before it ("": the root). That text may end after `start`, if this file
    shares only the head of it. `key`: the hash of the text up to this file's end. `text`: packed tokens; b"" for a
    snapshot.
    """

    fingerprint: str
    kind: Kind
    key: str
    under: str
    start: int
    text: bytes

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.key}-{self.start}.{self.kind}.safetensors"


class FileError(Exception):
    """A file can't be used; the message is the reason.

    `ours`: this version wrote it for this model, so it may be removed."""

    def __init__(self, reason: str, ours: bool = True) -> None:
        super().__init__(reason)
        self.ours = ours


class FileMetadata(Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata in a file. All are strings, as safetensors requires."""

    version: str
    fingerprint: str
    kind: Kind
    key: str
    under: str
    start: str
    tokens: str
    checksum: str


class _ArraySpan(Struct, frozen=True):
    """An array in the header: safetensors' name of its type, its shape, and its begin and end in the data."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class FoundFile(Struct, frozen=True):
    """A file that was found at the start: its place, the bytes of its arrays and of the file, its last use (ns)."""

    place: FileIdentity
    nbytes: int
    size: int
    last_use: int


def file_size(identity: FileIdentity, arrays: HostArrays) -> int:
    """Return the size of the file in bytes."""
    return len(_encode_header(identity, arrays, _NO_CHECKSUM)) + host_bytes(arrays)


def write_file(folder: Path, identity: FileIdentity, arrays: HostArrays) -> None:
    """Write a temporary file, sync it to the disk, and rename it to its place. Raise OSError."""
    header = _encode_header(identity, arrays, _checksum(_encode_header(identity, arrays, _NO_CHECKSUM), arrays))
    path = folder / identity.name
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(header)
            for array in arrays.values():
                file.write(array.data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_header(path: Path, fingerprint: str) -> FoundFile:
    """Read a file's header, without its arrays. Raise FileError or OSError."""
    with _open_file(path) as file:
        identity, _, _, nbytes = _parse_header(file, fingerprint)
        if path.name != identity.name:
            raise FileError("its name is not what it holds")
        status = os.fstat(file.fileno())
        return FoundFile(identity, nbytes, status.st_size, status.st_mtime_ns)


def read_arrays(path: Path, fingerprint: str) -> HostArrays:
    """Read a file's arrays and check the checksum. Raise FileError or OSError."""
    with _open_file(path) as file:
        identity, checksum, spans, nbytes = _parse_header(file, fingerprint)
        data = memoryview(file.read())
    if len(data) != nbytes:
        raise FileError("it is truncated")
    arrays = {name: HostArray(span.dtype, span.shape, data[slice(*span.data_offsets)]) for name, span in spans.items()}
    if path.name != identity.name or checksum != _checksum(_encode_header(identity, arrays, _NO_CHECKSUM), arrays):
        raise FileError("its checksum is wrong")
    return arrays


def _open_file(path: Path) -> Any:
    # Without O_NONBLOCK, a FIFO would block the thread forever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileError("it is not a regular file", ours=False)
    return open(descriptor, "rb", buffering=0)


def _encode_header(identity: FileIdentity, arrays: HostArrays, checksum: str) -> bytes:
    tokens = " ".join(map(str, unpack_tokens(identity.text)))
    belongs = identity.fingerprint, identity.kind, identity.key, identity.under, str(identity.start)
    header: dict[str, Struct] = {"__metadata__": FileMetadata(VERSION, *belongs, tokens, checksum)}
    offset = 0
    for name, array in arrays.items():
        end = offset + len(array.data)
        header[name] = _ArraySpan(array.dtype, array.shape, (offset, end))
        offset = end
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(header: bytes, arrays: HostArrays) -> str:
    digest = hashlib.blake2b(header, digest_size=32)
    for array in arrays.values():
        digest.update(array.data)
    return digest.hexdigest()


def _parse_header(file: Any, fingerprint: str) -> tuple[FileIdentity, str, dict[str, _ArraySpan], int]:
    """Read and check the header; return the identity, the checksum, the arrays' spans and their size in bytes."""
    length = os.fstat(file.fileno()).st_size
    size = int.from_bytes(file.read(8), "little")
    if length < 8 or size > min(length - 8, _MAX_HEADER_BYTES):
        raise FileError("it is truncated or no safetensors file")
    nbytes = length - 8 - size
    try:
        header = msgspec.json.decode(file.read(size), type=dict[str, Any])
        identity, checksum = _parse_identity(header.pop("__metadata__", None), fingerprint)
        spans = msgspec.convert(header, dict[str, _ArraySpan])
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise FileError("its header is damaged") from error
    at = 0
    for span in spans.values():
        first, last = span.data_offsets
        if first != at or last < first or (last > first) != (math.prod(span.shape) > 0):
            raise FileError("its header is damaged")
        at = last
    if at != nbytes:
        raise FileError("it is truncated")
    return identity, checksum, spans, nbytes


def _parse_identity(raw: Any, fingerprint: str) -> tuple[FileIdentity, str]:
    """Return a file's identity and checksum from its metadata. Raise FileError."""
    if not isinstance(raw, dict) or raw.get("version") != VERSION:
        raise FileError("it is of another version or another program", ours=False)
    if raw.get("fingerprint") != fingerprint:
        raise FileError("it belongs to another model", ours=False)
    metadata = msgspec.convert(raw, FileMetadata)
    text = pack_tokens([int(token) for token in metadata.tokens.split()])
    identity = FileIdentity(fingerprint, metadata.kind, metadata.key, metadata.under, int(metadata.start), text)
    return identity, metadata.checksum
