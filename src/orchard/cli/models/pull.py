"""`orchard pull`: download a model; for `orchard run`, only if it is missing, and after asking."""

import asyncio
import os
import sys
from contextlib import suppress

import typer
from rich import progress
from rich.console import Console
from rich.filesize import decimal

from orchard.cli.config import configured_path
from orchard.cli.models.gguf_import import offer_import, offer_stored
from orchard.cli.word_wrap import print_line
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models import catalogue, hub_info
from orchard.gateway.models.download import download_model
from orchard.gateway.models.model_files import FolderReader
from orchard.gateway.models.registry import Registry, resolve_model
from orchard.gateway.models.sources import BUNDLED, source_of


def pull_model(repo: str, revision: str | None = None) -> None:
    """Download a model, by its id, a short name or an alias, and say what it is. Raise OrchardError if that fails."""
    repo = configured_path(repo, os.environ)
    if repo in BUNDLED:
        print(f"{repo} is bundled with Orchard: there is nothing to download")
        return
    named, repo = repo, catalogue.find_repo(repo) or repo
    _tell_other_file(named, repo)
    folder = _download(repo, revision)
    try:
        files = FolderReader().read(folder)
    except ValueError as error:
        raise OrchardError("model_failed", f"{repo} is in {folder}, but can't be served: {error}") from None
    print_line(f"{repo} is here: {files.kind}, {decimal(files.size_bytes)} in {folder}")


def fetch_missing(name: str, *, sure: bool) -> str:
    """Download or import a model that is not here after the user has confirmed, and return its path or id.

    Raise OrchardError if the name stands for no model, or if nobody can be asked; typer.Abort if the user refuses.
    """
    path = offer_import(configured_path(name, os.environ), sure=sure)
    try:
        resolve_model(path)
    except OrchardError as error:
        with suppress(OrchardError):  # its name in another case
            return Registry.from_settings(Settings()).find_local(path).id
        if imported := offer_stored(name, sure=sure):
            return imported
        repo = source_of(path).repo
        if repo is None:
            raise
        size = hub_info.missing_bytes(repo, hub_info.read_info(repo))
        if not size:
            raise error from None  # it is whole, and can't be served
    else:
        return path
    _tell_other_file(name, repo)
    if not sure:
        if not sys.stdin.isatty():
            message = f"{repo} is not on this machine; --yes downloads it ({decimal(size)})"
            raise OrchardError("model_not_found", message)
        print_line(f"{repo} is not on this machine.", sys.stderr)
        if not typer.confirm(f"Download {decimal(size)}?", default=True, err=True):
            raise typer.Abort
    _download(repo, None)
    return repo


def _tell_other_file(name: str, repo: str) -> None:
    """Say on stderr that a tag of Ollama's library stands for another file here."""
    if ":" in name and "/" not in name:
        text = f"'{name}' is {repo} here; Ollama's file of this name is quantised in another way."
        print_line(text, sys.stderr)


def _download(repo: str, revision: str | None) -> str:
    """Download a model, and return its folder. Raise OrchardError; end the process after Ctrl-C."""
    try:
        return _download_with_bar(repo, revision)
    except KeyboardInterrupt:
        message = "\norchard: stopped; the next 'orchard pull' keeps the files that are complete"
        print(message, end="", file=sys.stderr)  # `main` ends the line
        sys.exit(130)


def _download_with_bar(repo: str, revision: str | None) -> str:
    """Download a model with a progress bar, and return its folder."""
    columns = (
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    shown = progress.Progress(*columns, console=Console(stderr=True))

    def show(done: int, total: int) -> None:
        if not shown.task_ids:
            print(f"Downloading {repo}", file=sys.stderr)  # beside the bar, it would leave no room for it
            shown.start()
            shown.add_task("")
        shown.update(shown.task_ids[0], completed=done, total=total)

    try:
        return asyncio.run(download_model(repo, revision, show))
    finally:
        if shown.task_ids:
            shown.stop()
