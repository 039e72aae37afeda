"""`orchard rm`."""

import shutil
from pathlib import Path

import typer
from rich.console import Console
from rich.filesize import decimal

from orchard.core.errors import OrchardError
from orchard.gateway.models import hub_cache
from orchard.gateway.models.sources import BUILT_IN_ALIASES


def rm(repo: str, *, sure: bool = False) -> None:
    """Delete a model, named by its id or a built-in alias, from the cache, once the user confirms it.

    Raise OrchardError if the cache has nothing of it.
    """
    repo = BUILT_IN_ALIASES.get(repo, repo)
    folder = hub_cache.folder_of(repo)
    if folder is None:
        where = f"the local Hugging Face cache ({hub_cache.root()})"
        raise OrchardError("model_not_found", f"'{repo}' is not in {where}; 'orchard rm' deletes only from there")
    # Links count nothing: what they point to is counted where it is.
    files = (file for file in Path(folder).rglob("*") if file.is_file() and not file.is_symlink())
    size = decimal(sum(file.stat().st_size for file in files))
    if not sure and not typer.confirm(f"Delete {repo}, {size} in {folder}?"):
        raise typer.Abort
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OrchardError("internal", f"{folder} can't be deleted: {error.strerror}") from None
    Console().print(f"{repo} is deleted; {size} are free again", soft_wrap=True, markup=False, highlight=False)
