"""`orchard pull`."""

import asyncio
import sys

from rich import progress
from rich.console import Console
from rich.filesize import decimal

from orchard.core.errors import OrchardError
from orchard.gateway.models.download import download
from orchard.gateway.models.model_files import Folders
from orchard.gateway.models.sources import BUILT_IN_ALIASES, DEMO


def pull(repo: str, revision: str | None = None) -> None:
    """Download a model, by its id or a built-in alias, and say what it is. Raise OrchardError with what went wrong."""
    if repo == DEMO:
        print(f"{DEMO} is bundled with Orchard: there is nothing to download")
        return
    repo = BUILT_IN_ALIASES.get(repo, repo)
    try:
        folder = _download(repo, revision)
    except KeyboardInterrupt:
        print("\norchard: stopped; the next 'orchard pull' keeps the files that are complete", file=sys.stderr)
        sys.exit(130)
    try:
        files = Folders().read(folder)
    except ValueError as error:
        raise OrchardError("model_failed", f"{repo} is in {folder}, but can't be served: {error}") from None
    said = f"{repo} is here: {files.kind}, {decimal(files.size_bytes)} in {folder}"
    Console().print(said, soft_wrap=True, markup=False, highlight=False)


def _download(repo: str, revision: str | None) -> str:
    """Return the model's folder; while it is downloaded, a bar shows how far that is."""
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
        return asyncio.run(download(repo, revision, show))
    finally:
        if shown.task_ids:
            shown.stop()
