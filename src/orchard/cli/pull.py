"""`orchard pull`."""

import signal
import sys

from rich import progress
from rich.console import Console
from rich.filesize import decimal

from orchard.core.errors import OrchardError
from orchard.gateway.models.download import pull as download
from orchard.gateway.models.download import stop_on
from orchard.gateway.models.model_files import Folders
from orchard.gateway.models.registry import BUILT_IN_ALIASES, DEMO


def pull(repo: str, revision: str | None = None) -> None:
    """Download a model, by its id or a built-in alias, and say what it is. Raises OrchardError with what went wrong."""
    if repo == DEMO:
        print(f"{DEMO} is bundled with Orchard: there is nothing to download")
        return
    repo = BUILT_IN_ALIASES.get(repo, repo)
    folder = _download(repo, revision)
    try:
        files = Folders().read(folder)
    except ValueError as error:
        raise OrchardError("model_failed", f"{repo} is in {folder}, but can't be served: {error}") from None
    said = f"{repo} is here: {files.kind}, {decimal(files.size_bytes)} in {folder}"
    Console().print(said, soft_wrap=True, markup=False, highlight=False)


def _download(repo: str, revision: str | None) -> str:
    """Give the model's folder. A bar shows how far the download is, from the first bytes that are missing."""
    console = Console(stderr=True)

    def stopped() -> None:
        console.show_cursor()
        print("\norchard: stopped; the next 'orchard pull' goes on from here", file=sys.stderr, flush=True)

    stop_on(signal.SIGINT, stopped)
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    shown = progress.Progress(*columns, console=console)

    def show(done: int, total: int) -> None:
        if shown.task_ids:
            shown.update(shown.task_ids[0], completed=done)
        else:
            shown.start()
            shown.add_task(repo, total=total, completed=done)

    try:
        return download(repo, revision, show)
    finally:
        if shown.task_ids:
            shown.stop()
