"""The sub-folders of `model_dir` that are models: `name`, or `org/name`. An empty root has none."""

import os
from collections.abc import Iterator

from orchard import folder_files


def model_folders(root: str) -> Iterator[str]:
    """Yield the names of the folders that may be models, in order: `name`, and `org/name` if `org` is not a model."""
    for name in _subfolder_names(root):
        yield name
        if not _looks_like_a_model(os.path.join(root, name)):
            yield from (f"{name}/{inner}" for inner in _subfolder_names(os.path.join(root, name)))


def find_subfolder(root: str, name: str) -> str | None:
    """Return the folder with a name from a client. Each part must be in a listing, so no part leads elsewhere."""
    parts = name.split("/")
    if len(parts) > 2:
        return None
    folder = root
    for part in parts:
        if (folder != root and _looks_like_a_model(folder)) or part not in _subfolder_names(folder):
            return None
        folder = os.path.join(folder, part)
    return folder


def holds_folders(folder: str) -> bool:
    """Return whether a folder has others in it, as that of an organisation has."""
    return bool(_subfolder_names(folder))


def file_names(folder: str) -> list[str]:
    """Return the names of a folder's files, or the first ones of very many; none if it can't be read."""
    try:
        return folder_files.list_first_names(folder)
    except (OSError, ValueError):
        return []


def _subfolder_names(folder: str) -> list[str]:
    # Not `DirEntry.is_dir`: it raises OSError for a link to itself.
    return sorted(
        name for name in file_names(folder) if not name.startswith(".") and os.path.isdir(os.path.join(folder, name))
    )


def _looks_like_a_model(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in ("config.json", "model_index.json"))
