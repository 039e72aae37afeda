"""`orchard models`."""

import sys

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard.config import Settings
from orchard.gateway.models.registry import Registry


def models(settings: Settings) -> None:
    """Print a table of the models that are here."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Model", no_wrap=True)
    table.add_column("Kind", no_wrap=True)
    table.add_column("Context", justify="right", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Aliases", overflow="fold")
    table.add_column("Folder", overflow="fold")
    for entry in Registry.from_settings(settings).all():
        window = "unknown" if entry.context_window is None else f"{entry.context_window:,}"
        cells = entry.id, entry.kind, window, decimal(entry.size_bytes), ", ".join(entry.aliases), entry.path
        table.add_row(*map(Text, cells))
    # What goes into a pipe or a file has no screen to fit.
    Console(width=None if sys.stdout.isatty() else 1000).print(table)
