"""`orchard models` and `orchard rm`: the models on this machine."""

import os
import sys
from pathlib import Path

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard.cli.config import configured_path
from orchard.cli.settings.values import printable_text
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models import catalogue, hub_cache, sources
from orchard.gateway.models.registry import Registry
from orchard.gateway.models.sources import BUNDLED


def print_models(settings: Settings) -> None:
    """Print a table of the models on this machine."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Model", overflow="fold")
    table.add_column("Kind", overflow="fold")
    table.add_column("Context", justify="right", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Aliases", overflow="fold")
    is_terminal = sys.stdout.isatty()
    if not is_terminal:  # a path in the cache is wider than most terminals
        table.add_column("Folder")
    registry = Registry.from_settings(settings)
    named = map(registry.find_exact, BUNDLED)  # of the bundled models, `all` has only the first one
    for entry in {entry.id: entry for entry in (*registry.list_models(), *named)}.values():
        window = "unknown" if entry.context_window is None else f"{entry.context_window:,}"
        cells = entry.id, entry.kind, window, decimal(entry.size_bytes), ", ".join(entry.aliases), entry.path
        table.add_row(*(Text(printable_text(cell)) for cell in cells[: len(table.columns)]))
    # Don't fit the table to a screen if the output is a pipe or a file.
    Console(width=None if is_terminal else 1000).print(table)
    for name, reason in registry.refused.items():
        print(printable_text(f"'{name}' is not served: {reason}"))


def remove_model(repo: str, *, sure: bool = False) -> None:
    """Delete an imported model, or one in the cache, named by its id, a short name or an alias, if the user confirms.

    Raise OrchardError if there is no file of the model.
    """
    repo = configured_path(repo, os.environ)
    folder = sources.deletable_folder(repo)
    if folder is None and (known := catalogue.find_repo(repo)):
        repo, folder = known, sources.deletable_folder(known)
    if folder is None:
        where = f"the local Hugging Face cache ({hub_cache.cache_root()}), nor imported"
        raise OrchardError("model_not_found", f"'{repo}' is not in {where}; 'orchard rm' deletes only such models")
    # Don't count links: what they point to is counted in its own place.
    files = (file for file in Path(folder).rglob("*") if file.is_file() and not file.is_symlink())
    size = decimal(sum(file.stat().st_size for file in files))
    if not sure and not typer.confirm(f"Delete {repo}, {size} in {folder}?"):
        raise typer.Abort
    sources.delete_folder(folder)
    typer.echo(f"{repo} is deleted; {size} are free again")
