"""The files of the disk tier: safetensors that any program can read, and that are checked byte by byte."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.prefix_cache import cache_file
from orchard.engine.prefix_cache.cache_file import FileError, FileIdentity, FoundFile
from orchard.engine.prefix_cache.values import HostArray, HostArrays, pack_tokens

PLACE = FileIdentity("model-4bit", "payload", "ab" * 32, "", 0, pack_tokens([1, 2, 150_000]))
ARRAYS = {
    "layers.0.keys": HostArray("BF16", (1, 2, 3, 2), bytes(range(24))),
    "layers.0.values": HostArray("U32", (1, 1, 3, 1), bytes(range(100, 112))),
    "nothing": HostArray("F32", (0, 4), b""),
}


def plain(arrays: HostArrays) -> dict[str, Any]:
    return {name: (array.dtype, array.shape, bytes(array.data)) for name, array in arrays.items()}


def test_roundtrip(tmp_path: Path) -> None:
    cache_file.write_file(tmp_path, PLACE, ARRAYS)
    (path,) = tmp_path.iterdir()
    status = path.stat()
    assert path.name == PLACE.name
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_size == cache_file.file_size(PLACE, ARRAYS)
    assert cache_file.read_header(path, "model-4bit") == FoundFile(PLACE, 36, status.st_size, status.st_mtime_ns)
    assert plain(cache_file.read_arrays(path, "model-4bit")) == plain(ARRAYS)


def test_the_safetensors_package_reads_it(tmp_path: Path) -> None:
    import safetensors

    package: Any = safetensors
    cache_file.write_file(tmp_path, PLACE, ARRAYS)
    read = package.deserialize((tmp_path / PLACE.name).read_bytes())
    found = {name: (value["dtype"], tuple(value["shape"]), bytes(value["data"])) for name, value in read}
    assert found == plain(ARRAYS)


def test_every_byte_counts(tmp_path: Path) -> None:
    cache_file.write_file(tmp_path, PLACE, ARRAYS)
    path = tmp_path / PLACE.name
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FileError):
            cache_file.read_arrays(path, "model-4bit")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError):
            cache_file.read_header(path, "model-4bit")
    path.write_bytes(whole + b"!")
    with pytest.raises(FileError, match="truncated"):
        cache_file.read_header(path, "model-4bit")


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, with_length: bool) -> None:
    path = tmp_path_factory.getbasetemp() / PLACE.name
    path.write_bytes(len(data).to_bytes(8, "little") + data if with_length else data)
    for read in (cache_file.read_arrays, cache_file.read_header):
        with pytest.raises(FileError):
            read(path, "model-4bit")


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "[" * 100_000,
        "{}",
        '{"__metadata__": 3}',
        '{"__metadata__": {"version": "1", "fingerprint": "model-4bit"}}',
        '{"__metadata__": {"version": "1", "fingerprint": "model-4bit", "kind": "pickle", "key": "", "under": "", '
        '"start": "0", "tokens": "1", "checksum": ""}}',
        '{"__metadata__": {"version": "1", "fingerprint": "model-4bit", "kind": "payload", "key": "", "under": "", '
        '"start": "0", "tokens": "1 -1", "checksum": ""}}',
        '{"__metadata__": {"version": "1", "fingerprint": "model-4bit", "kind": "payload", "key": "", "under": "", '
        '"start": "0", "tokens": "1", "checksum": ""}, "a": {"dtype": "U8", "shape": "x", "data_offsets": [0, 1]}}',
    ],
)
def test_headers_that_mean_nothing_are_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"0")
    for read in (cache_file.read_arrays, cache_file.read_header):
        with pytest.raises(FileError):
            read(path, "model-4bit")


def test_other_models_files_are_not_ours(tmp_path: Path) -> None:
    cache_file.write_file(tmp_path, PLACE, ARRAYS)
    with pytest.raises(FileError, match="another model") as raised:
        cache_file.read_header(tmp_path / PLACE.name, "model-8bit")
    assert not raised.value.ours


def test_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    cache_file.write_file(tmp_path, PLACE, ARRAYS)
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / PLACE.name)
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path):
        with pytest.raises((FileError, OSError)):
            cache_file.read_arrays(path, "model-4bit")


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        cache_file.write_file(tmp_path, PLACE, ARRAYS)
    assert list(tmp_path.iterdir()) == []
