"""Models in GGUF, the format of llama.cpp: they are recognised, and what `orchard import` has made of them is found.

Imported models are folders in MLX format in `imported` of the cache folder.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from orchard import folder_files
from orchard.core.cache_folder import cache_folder
from orchard.gateway.models import subfolders

_ORIGIN = "import.json"
VERSION = 1
"""Of the importer: a model of an earlier one is imported again."""


FIND = "look for the model under mlx-community on the Hugging Face Hub and fetch it with 'orchard pull ID'"
"""How to get a model that Orchard can serve."""

GGUF = (
    "it is in GGUF, the format of llama.cpp, and Orchard serves folders in MLX format (config.json and "
    f"model*.safetensors): 'orchard import FILE' makes one of a .gguf file that is on this machine; or {FIND}"
)
"""Why a GGUF model can't be served, and how to get a model that can."""


class SourceFile(Struct, frozen=True):
    """A file that was imported, by its path with links followed."""

    path: str
    size: int
    mtime_ns: int


class Origin(Struct, frozen=True, kw_only=True):
    """What an imported model was made of, and how. `details`: what Ollama's store says of it."""

    files: list[SourceFile]
    bits: int | None = None
    exact: bool = False
    version: int = VERSION
    details: dict[str, object] = {}


def is_gguf(names: Iterable[str]) -> bool:
    """Return whether these are the files of a model that is only in GGUF."""
    ends = {os.path.splitext(name)[1].lower() for name in names}
    return ".gguf" in ends and not ends & {".safetensors", ".npz"}


def is_gguf_path(name: str) -> bool:
    """Return whether a user names a GGUF file, or a folder with nothing else."""
    path = os.path.expanduser(name)
    try:
        return is_gguf([path]) if os.path.isfile(path) else is_gguf(folder_files.list_first_names(path))
    except (OSError, ValueError):
        return False


def imported_root() -> str:
    """Return the folder of all imported models, which may not exist."""
    return str(cache_folder() / "imported")


def describe_files(files: Sequence[Path]) -> list[SourceFile]:
    """Return files as an origin names them. Raise OSError."""
    found = [(file.resolve(), file.stat()) for file in files]
    return [SourceFile(str(path), status.st_size, status.st_mtime_ns) for path, status in found]


def read_origin(folder: str | Path) -> Origin | None:
    """Return what an imported model was made of; None if that is not known."""
    try:
        return msgspec.json.decode(folder_files.read_file(os.path.join(folder, _ORIGIN)), type=Origin)
    except (OSError, ValueError):
        return None


def write_origin(folder: str | Path, origin: Origin) -> None:
    """Say in a folder what its model was made of. Raise OSError."""
    Path(folder, _ORIGIN).write_bytes(msgspec.json.encode(origin))


def find_imported(file: Path) -> str | None:
    """Return the folder of the model that was made of a file as it is now; None if there is none."""
    try:
        (source,) = describe_files([file])
    except (OSError, ValueError):
        return None
    for name in subfolders.model_folders(imported_root()):
        folder = os.path.join(imported_root(), name)
        origin = read_origin(folder)
        if origin and source in origin.files and origin.version == VERSION:
            return folder
    return None
