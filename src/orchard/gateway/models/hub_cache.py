"""The local Hugging Face cache, read from its folders, because huggingface_hub's own scan reads every file.

Layout: `models--ORG--NAME/refs/REVISION` holds the name of a folder in `models--ORG--NAME/snapshots`, which links to
the files: https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
"""

import os
import re
from collections.abc import Iterator

from orchard import folder_files
from orchard.folder_files import is_name
from orchard.gateway.models.subfolders import file_names

_PREFIX = "models--"
# huggingface_hub's rules, without importing it: letters, digits and `-_.` between letters or digits, at most one slash,
# no `--` and no `..`.
_REPO_ID = re.compile(r"(?!.*(--|\.\.))(?:\w([\w.-]*\w)?/)?\w([\w.-]*\w)?", re.ASCII)
_MAX_REPO_ID = 96
_MAIN = "main"


def cache_root() -> str:
    """Return the folder of the cache, which may not exist."""
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def is_repo_id(name: str) -> bool:
    """Return whether a model on the Hub can have this name, with or without an owner."""
    return len(name) <= _MAX_REPO_ID and _REPO_ID.fullmatch(name) is not None


def list_repos() -> list[tuple[str, str]]:
    """Return the id and the folder of every model of which the cache has any files, in order."""
    found = (
        (name.removeprefix(_PREFIX).replace("--", "/"), name)
        for name in file_names(cache_root())
        if name.startswith(_PREFIX)
    )
    return sorted((repo_id, os.path.join(cache_root(), name)) for repo_id, name in found if is_repo_id(repo_id))


def repo_folder(repo_id: str) -> str | None:
    """Return a model's folder in the cache; None if it has none."""
    name = _PREFIX + repo_id.replace("/", "--")
    # Look in a listing: on file systems that ignore case, a model would have several ids.
    return os.path.join(cache_root(), name) if is_repo_id(repo_id) and name in file_names(cache_root()) else None


def snapshot_folders(repo: str, revision: str | None = None) -> Iterator[str]:
    """Yield the folders within a model's folder that may have its files: that of a branch, a tag or a commit.

    Without a revision it is that of the main branch. Then the others follow, newest first, because a download may not
    be complete, and there may be none of the main branch.
    """
    commit = _snapshot_name(repo, revision or _MAIN)
    if revision and commit is None:
        commit = revision if is_name(revision) else None
    wanted = os.path.join(repo, "snapshots", commit) if commit else None
    if wanted and os.path.isdir(wanted):
        yield wanted
    if revision is None:
        yield from (folder for folder in _newest_snapshots(repo) if folder != wanted)


def _snapshot_name(repo: str, revision: str) -> str | None:
    """Return the name of the snapshot of a branch or a tag."""
    if not all(map(is_name, revision.split("/"))):  # as in refs/pr/1
        return None
    try:
        commit = folder_files.read_file(os.path.join(repo, "refs", revision), _MAX_REPO_ID).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return commit if is_name(commit) else None


def _newest_snapshots(repo: str) -> list[str]:
    try:
        inner = [os.path.join(repo, "snapshots", name) for name in folder_files.list_first_names(f"{repo}/snapshots")]
        return sorted(filter(os.path.isdir, inner), key=os.path.getmtime, reverse=True)
    except OSError:
        return []
