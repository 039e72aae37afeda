"""`orchard models`, `orchard pull` and `orchard rm`: the models on this machine."""

import asyncio
import shutil
import sys
from pathlib import Path

import typer
from rich import progress
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard.cli.settings.values import printable_text
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models import hub_cache
from orchard.gateway.models.download import download_model
from orchard.gateway.models.model_files import FolderReader
from orchard.gateway.models.registry import Registry
from orchard.gateway.models.sources import BUILT_IN_ALIASES, BUNDLED


def print_models(settings: Settings) -> None:
    """Print a table of the models on this machine."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Model", no_wrap=True)
    table.add_column("Kind", no_wrap=True)
    table.add_column("Context", justify="right", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Aliases", overflow="fold")
    table.add_column("Folder", overflow="fold")
    registry = Registry.from_settings(settings)
    named = map(registry.find_exact, BUNDLED)  # of the bundled models, `all` has only the first one
    for entry in {entry.id: entry for entry in (*registry.list_models(), *named)}.values():
        window = "unknown" if entry.context_window is None else f"{entry.context_window:,}"
        cells = entry.id, entry.kind, window, decimal(entry.size_bytes), ", ".join(entry.aliases), entry.path
        table.add_row(*map(Text, cells))
    # Don't fit the table to a screen if the output is a pipe or a file.
    Console(width=None if sys.stdout.isatty() else 1000).print(table)
    for name, reason in registry.refused.items():
        print(printable_text(f"'{name}' is not served: {reason}"))


def pull_model(repo: str, revision: str | None = None) -> None:
    """Download a model, by its id or a built-in alias, and say what it is. Raise OrchardError if that fails."""
    if repo in BUNDLED:
        print(f"{repo} is bundled with Orchard: there is nothing to download")
        return
    repo = BUILT_IN_ALIASES.get(repo, repo)
    try:
        folder = _download_with_bar(repo, revision)
    except KeyboardInterrupt:
        message = "\norchard: stopped; the next 'orchard pull' keeps the files that are complete"
        print(message, end="", file=sys.stderr)  # `main` ends the line
        sys.exit(130)
    try:
        files = FolderReader().read(folder)
    except ValueError as error:
        raise OrchardError("model_failed", f"{repo} is in {folder}, but can't be served: {error}") from None
    typer.echo(f"{repo} is here: {files.kind}, {decimal(files.size_bytes)} in {folder}")


def _download_with_bar(repo: str, revision: str | None) -> str:
    """Download a model with a progress bar, and return its folder."""
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    shown = progress.Progress(*columns, console=Console(stderr=True))

    def show(done: int, total: int) -> None:
        if not shown.task_ids:
            shown.start()
            shown.add_task(repo)
        shown.update(shown.task_ids[0], completed=done, total=total)

    try:
        return asyncio.run(download_model(repo, revision, show))
    finally:
        if shown.task_ids:
            shown.stop()


def remove_model(repo: str, *, sure: bool = False) -> None:
    """Delete a model, named by its id or a built-in alias, from the cache after the user has confirmed.

    Raise OrchardError if no file of the model is in the cache.
    """
    repo = BUILT_IN_ALIASES.get(repo, repo)
    folder = hub_cache.repo_folder(repo)
    if folder is None:
        where = f"the local Hugging Face cache ({hub_cache.cache_root()})"
        raise OrchardError("model_not_found", f"'{repo}' is not in {where}; 'orchard rm' deletes only from there")
    # Don't count links: what they point to is counted in its own place.
    files = (file for file in Path(folder).rglob("*") if file.is_file() and not file.is_symlink())
    size = decimal(sum(file.stat().st_size for file in files))
    if not sure and not typer.confirm(f"Delete {repo}, {size} in {folder}?"):
        raise typer.Abort
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OrchardError("internal", f"{folder} can't be deleted: {error.strerror}") from None
    typer.echo(f"{repo} is deleted; {size} are free again")
