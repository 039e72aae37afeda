"""`orchard models`."""

from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard.gateway.registry import ModelEntry, installed


def models() -> None:
    """Print a table of the models that can be served."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Model", no_wrap=True)
    table.add_column("Context", justify="right", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Folder", overflow="fold")
    for entry in installed():
        table.add_row(*map(Text, _row(entry)))
    console = Console()
    # What goes into a pipe or a file has no screen to fit.
    console.print(table, width=None if console.is_terminal else 1000)


def folder_size(folder: Path) -> int:
    """Give the bytes of a folder's files; links count as what they point to, as in the Hugging Face cache."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _row(entry: ModelEntry) -> tuple[str, str, str, str]:
    window = "unknown" if entry.context_window is None else f"{entry.context_window:,}"
    return entry.id, window, decimal(folder_size(Path(entry.path))), entry.path
