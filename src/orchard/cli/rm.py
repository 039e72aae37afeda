"""`orchard rm`."""

import os
import shutil
from pathlib import Path

import typer
from rich.console import Console
from rich.filesize import decimal

from orchard.core.errors import OrchardError
from orchard.gateway.models import hub_cache
from orchard.gateway.models.sources import BUILT_IN_ALIASES


def rm(repo: str, *, sure: bool = False) -> None:
    """Delete all that the cache has of a model, named by its id or a built-in alias, once that is confirmed.

    Raises OrchardError where it has nothing of it.
    """
    repo = BUILT_IN_ALIASES.get(repo, repo)
    folder = hub_cache.folder_of(repo)
    if folder is None:
        where = f"the local Hugging Face cache ({hub_cache.root()})"
        raise OrchardError("model_not_found", f"'{repo}' is not in {where}; only what is there can be removed")
    size = decimal(_size(Path(folder)))
    if not sure and not typer.confirm(f"Remove {repo}, {size} in {folder}?"):
        raise typer.Abort
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OrchardError("internal", f"{folder} can't be removed: {error.strerror}") from None
    Console().print(f"{repo} is removed; {size} are free again", soft_wrap=True, markup=False, highlight=False)


def _size(folder: Path) -> int:
    """Give the bytes of the files in a folder. Links count nothing: what they point to is counted where it is."""
    return sum(
        os.lstat(os.path.join(place, name)).st_size
        for place, _, names in os.walk(folder)
        for name in names
        if not os.path.islink(os.path.join(place, name))
    )
