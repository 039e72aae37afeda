"""`orchard pull`: download a model."""

import asyncio
import sys

import typer
from rich import progress
from rich.console import Console
from rich.filesize import decimal

from orchard.core.errors import OrchardError
from orchard.gateway.models import catalogue
from orchard.gateway.models.download import download_model
from orchard.gateway.models.model_files import FolderReader
from orchard.gateway.models.sources import BUNDLED


def pull_model(repo: str, revision: str | None = None) -> None:
    """Download a model, by its id or a short name, and say what it is. Raise OrchardError if that fails."""
    if repo in BUNDLED:
        print(f"{repo} is bundled with Orchard: there is nothing to download")
        return
    repo = catalogue.find_repo(repo) or repo
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
