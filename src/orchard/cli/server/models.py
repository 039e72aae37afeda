"""`orchard ps`, `orchard load` and `orchard unload`: the models in a server's memory."""

import sys
import threading
import time
from contextlib import suppress
from typing import NamedTuple

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard.cli.endpoint import ServerError
from orchard.cli.server.client import ModelStats, RankStats, ServerClient, ServerStats
from orchard.cli.settings.values import printable_text

_PROCESSORS = {"gpu": "100% GPU", "cpu": "100% CPU"}
_LEAST_COLUMNS = 60  # for all columns of `ps`
_LOOK_SECONDS = 0.5
_PIPE_COLUMNS = 1000
_LOADED = 100  # percent


class ModelRow(NamedTuple):
    """A model that is in memory, or on its way there; `size_bytes`: what it takes with its requests."""

    name: str
    size_bytes: int
    processor: str
    context: int | None
    until: str
    ranks: tuple[tuple[str, int, str], ...] = ()
    """Of the other ranks: name, size in bytes, and how far their load is, or what is free there."""


def model_rows(stats: ServerStats) -> list[ModelRow]:
    """Return a row for each model that is in memory, or on its way there."""
    return [
        ModelRow(
            printable_text(name),
            model.memory.mlx_bytes or model.memory.weights_bytes or 0,
            _PROCESSORS.get(model.processor or "", ""),
            model.context_window,
            printable_text(_stay(model)),
            tuple(map(_rank_row, model.ranks)),
        )
        for name, model in stats.models.items()
        if model.state not in ("unloaded", "failed")
    ]


def _rank_row(rank: RankStats) -> tuple[str, int, str]:
    state = f"{decimal(rank.free_bytes)} free there" if rank.percent == _LOADED else f"loading {rank.percent}%"
    return f"  rank {rank.rank} on {printable_text(rank.host)}", rank.mlx_bytes, state


def _stay(model: ModelStats) -> str:
    """Return how long a model stays in memory, or what it waits for, in Ollama's words."""
    if model.state != "ready":
        return "Stopping..." if model.state == "unloading" else model.note or model.state
    if model.unload_at is None:
        return "in use" if model.running or model.waiting else "Forever"
    return f"{duration(model.unload_at - time.time())} from now"


def duration(seconds: float) -> str:
    """Return a time in the largest unit of which there is at least one: "4 minutes"."""
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    name, length = next((unit for unit in units if seconds >= unit[1]), units[-1])
    count = max(0, int(seconds // length))
    return f"{count} {name}{'' if count == 1 else 's'}"


def print_loaded_models(url: str | None, api_key: str | None) -> None:
    """Print a table of the models in a server's memory. A narrow terminal gets the most important columns."""
    with ServerClient(url, api_key) as server:
        rows = model_rows(server.stats())
    console = Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False)
    is_narrow = console.width < _LEAST_COLUMNS
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NAME", overflow="fold")
    for heading in ("SIZE", "UNTIL") if is_narrow else ("SIZE", "PROCESSOR", "CONTEXT", "UNTIL"):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        middle = () if is_narrow else (row.processor, "?" if row.context is None else str(row.context))
        table.add_row(*map(Text, (row.name, decimal(row.size_bytes), *middle, row.until)))
        for name, size, state in row.ranks:
            table.add_row(*map(Text, (name, decimal(size), *("" for _ in middle), state)))
    console.print(table)


def load_model(name: str, url: str | None, api_key: str | None) -> None:
    """Load a model on a server, and show on a terminal what it waits for. Raise ServerError if that fails."""
    console, done = Console(stderr=True), threading.Event()
    with ServerClient(url, api_key) as server, console.status(Text(f"loading {name}")) as status:

        def show_progress() -> None:
            with suppress(ServerError):  # the load itself says what is wrong
                while not done.wait(_LOOK_SECONDS):
                    notes = [model.note for model in server.stats().models.values() if model.note]
                    status.update(Text(printable_text(f"{name}: {notes[0]}" if notes else f"loading {name}")))

        if console.is_terminal:
            threading.Thread(target=show_progress, daemon=True).start()
        try:
            model = server.load(name)
        finally:
            done.set()
    print(printable_text(f"{model} is loaded"))


def unload_model(name: str, url: str | None, api_key: str | None) -> None:
    """Unload a model from a server's memory. Raise ServerError if that fails."""
    with ServerClient(url, api_key) as server:
        models = server.unload(name)
    print(printable_text(f"{models[0]} is unloaded" if models else f"{name} was not loaded"))
