"""Reads the files of a model's folder, which anybody may have written: only regular files, and only up to a size."""

import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

MOST_NAMES = 10_000
"""The most files and folders in a model's folder."""
MOST_BYTES = 64 * 2**20
"""The most bytes of a file that is read as a whole: the longest vocabularies have half of that."""
MOST_JSON_BYTES = 16 * 2**20
"""The most bytes of a JSON file whose values Orchard reads; in memory, they can take twenty times as much."""
INDEX = "model.safetensors.index.json"
_POINTER = b"version https://git-lfs"
# Names of files with tokens, in transformers and in models. The excluded files only describe a tokenizer.
_TOKEN_FILES = re.compile(
    r"(?!(tokenizer_config|added_tokens|special_tokens_map)\.json)"
    r".*(token(s|izer)|vocab|merges|spm|sentencepiece|spiece|bpe|tekken).*\.(json|model|txt|bin|vocab)|.*\.(tiktoken|model)"
)
_PACKED_BITS = 32  # of an integer with several quantised weights
# Anybody may have written a file; more is nonsense.
_MOST_DIMENSIONS, _MOST_PARAMETERS = 8, 10**15
_LENGTH_BYTES = 8  # of the header's length, which precedes it
# The files that libraries read as a whole.
_WHOLE_SUFFIXES = (".json", ".jsonl", ".jinja", ".txt", ".model", ".tiktoken")


class _Index(Struct):
    weight_map: dict[str, str]


_INDEX_DECODER = msgspec.json.Decoder(_Index)  # it skips the rest of the file, which may be large


@contextmanager
def open_regular_file(file: str | Path) -> Iterator[BinaryIO]:
    """Open a regular file to read. Raise OSError, or ValueError if it is something else.

    Opening a pipe doesn't wait until somebody writes to it.
    """
    number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("it is not a regular file")
        with open(number, "rb", closefd=False) as regular:
            yield regular
    finally:
        os.close(number)


def read_file(file: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return a file's content. Raise OSError; ValueError if it isn't a regular file or has more than `most` bytes."""
    with open_regular_file(file) as regular:
        content = regular.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def read_json(file: str | Path) -> Any:
    """Return the value in a JSON file, which may contain NaN and Infinity, as Python, and so mlx-lm, writes them.

    Raise OSError, or ValueError if it can't be read as JSON in UTF-8.
    """
    try:
        return json.loads(read_file(file, MOST_JSON_BYTES).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def list_names(folder: str | Path) -> list[str]:
    """Return the names in a folder. Raise OSError, or ValueError if there are more than `MOST_NAMES`."""
    found = list_first_names(folder, MOST_NAMES + 1)
    if len(found) > MOST_NAMES:
        raise ValueError(f"it has more than {MOST_NAMES:,} files")
    return found


def list_first_names(folder: str | Path, most: int = MOST_NAMES) -> list[str]:
    """Return at most `most` of the names in a folder. Raise OSError or ValueError."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, most)]


def walk_folder(folder: str | Path) -> Iterator[str]:
    """Yield the paths in a folder and in its sub-folders, except for hidden sub-folders and deeper ones.

    Raise OSError, or ValueError if there are more than `MOST_NAMES`.
    """
    count = 0
    for name in list_names(folder):
        path = os.path.join(folder, name)
        inner = list_names(path) if os.path.isdir(path) and not name.startswith(".") else []
        if (count := count + 1 + len(inner)) > MOST_NAMES:
            raise ValueError(f"it has more than {MOST_NAMES:,} files")
        yield path
        yield from (os.path.join(path, one) for one in inner)


def check_folder(folder: str | Path) -> None:
    """Check the files that a library may read. Raise OSError, or ValueError with the reason.

    A pipe would make the library wait forever, and a device may never end. Weights may have any size.
    """
    for path in walk_folder(folder):
        name = os.path.relpath(path, folder)
        for status in _stat_file(path):
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise ValueError(f"its {name} is not a regular file")
            if name.endswith(_WHOLE_SUFFIXES) and status.st_size > MOST_BYTES:
                raise ValueError(f"its {name} has more than {MOST_BYTES:,} bytes")
    if elsewhere := next((name for name in sorted(read_shard_names(folder)) if not is_name(name)), None):
        raise ValueError(f"its {INDEX} names a file that is not in its folder ({elsewhere[:100]})")


def read_shard_names(folder: str | Path) -> set[str]:
    """Return the names of the files of weights in a folder's index; no names if it can't be read."""
    try:
        return set(_INDEX_DECODER.decode(read_file(os.path.join(folder, INDEX))).weight_map.values())
    except (OSError, ValueError, RecursionError):
        return set()


def read_header(file: str | Path) -> dict[str, Any]:
    """Return the header of a file in safetensors format. Raise OSError, or ValueError if it has none.

    The format is https://huggingface.co/docs/safetensors/index#format.
    """
    with open_regular_file(file) as regular:
        return _read_open_header(regular)


def _read_open_header(regular: BinaryIO) -> dict[str, Any]:
    """Read the header of an open file, and leave its position where the weights begin."""
    length = int.from_bytes(regular.read(_LENGTH_BYTES), "little")
    try:
        header = msgspec.json.decode(regular.read(length) if length <= MOST_JSON_BYTES else b"")
    except RecursionError:
        header = None
    if not isinstance(header, dict):
        raise ValueError("it is not in safetensors format")
    return header


def count_parameters(files: Iterable[str | Path], bits: float, layer_bits: Mapping[str, int]) -> int:
    """Return the number of parameters in files of weights in safetensors format; 0 if one can't be read.

    `bits`: how many a quantised weight has; several of them are packed into an integer. `layer_bits`: those of layers
    that have others, by name.
    """
    try:
        count = sum(_count_header(read_header(file), bits, layer_bits) for file in _different_files(files))
        return count if count < _MOST_PARAMETERS else 0
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def _count_header(header: dict[str, Any], bits: float, layer_bits: Mapping[str, int]) -> int:
    count = 0.0
    for name, tensor in header.items():
        layer, _, part = name.rpartition(".")
        is_quantised = f"{layer}.scales" in header
        if name == "__metadata__" or (is_quantised and part in ("scales", "biases")):
            continue
        packed = _PACKED_BITS / layer_bits.get(layer, bits) if is_quantised and part == "weight" else 1
        count += math.prod(tensor["shape"][:_MOST_DIMENSIONS]) * packed
    return round(count)


def find_weights_problem(files: Iterable[str | Path]) -> str | None:
    """Return what is wrong with the first broken file of weights; None: all are complete."""
    return next(filter(None, map(_describe_problem, _different_files(files))), None)


def _different_files(files: Iterable[str | Path]) -> list[str | Path]:
    """Return each file once, whatever links to it."""
    return list({(status.st_dev, status.st_ino): file for file in files for status in _stat_file(file)}.values())


def _stat_file(file: str | Path) -> list[os.stat_result]:
    """Return a file's status in a list, which is empty if the file is missing, such as the target of a broken link."""
    try:
        return [os.stat(file)]
    except OSError:
        return []


def _describe_problem(file: str | Path) -> str | None:
    """Return what is wrong with a file of weights in safetensors format, as a sentence; None: nothing."""
    name = os.path.basename(file)
    try:
        with open_regular_file(file) as regular:
            if regular.read(len(_POINTER)) == _POINTER:
                return f"its {name} is a pointer of git-lfs: 'git lfs pull' in the clone fetches the weights"
            regular.seek(0)
            header = _read_open_header(regular)
            ends = (tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__")
            missing = regular.tell() + max(ends, default=0) - os.fstat(regular.fileno()).st_size
    except (ValueError, TypeError, KeyError, IndexError):
        return f"its {name} is not in safetensors format"
    except OSError as error:
        return f"its {name} can't be read ({error.strerror})"
    return f"its {name} is not complete: {missing:,} bytes are missing" if missing > 0 else None


def has_tokenizer(names: Iterable[str]) -> bool:
    """Return whether one of a folder's files may hold the tokens of a tokenizer."""
    return any(_TOKEN_FILES.fullmatch(name) for name in names)


def is_name(text: str) -> bool:
    """Return whether a text is the name of a file, and not a path to another folder."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text
