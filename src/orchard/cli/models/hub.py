"""`orchard search` and `orchard recommend`: models of the Hugging Face Hub, with their sizes and whether they fit."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard.cli import machine
from orchard.cli.settings.values import printable_text
from orchard.cli.word_wrap import print_line
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models import catalogue, hub_info
from orchard.gateway.models.hub_search import SIZES_AT_ONCE, search_hub
from orchard.gateway.models.registry import resolve_model

_ADVICE = "'orchard pull NAME' downloads a model; 'orchard run NAME' also talks to it, if it is one for chat or vision."


class _ModelRow(NamedTuple):
    """A model to show: what it is for, its short name (or its id if it has none), and its id."""

    use: str
    name: str
    repo: str


class _Size(NamedTuple):
    """The bytes of a model (None: unknown, and why), and whether it is on this machine."""

    size_bytes: int | None
    is_here: bool = False
    reason: str = ""


def print_hub_models(words: Sequence[str], settings: Settings) -> None:
    """Print the MLX models of the Hub whose ids have the words, the most downloaded first. Raise OrchardError."""
    text = " ".join(words)
    found = search_hub(text)
    if not found:
        raise OrchardError("model_not_found", f"the Hub has no model in MLX's format for '{text}'; try fewer words")
    models = [_ModelRow(model.use, model.id, model.id) for model in found]
    _print_models(models, _models_budget(settings)[0])


def recommend_models(settings: Settings) -> None:
    """Print which models to take on this machine for each use. Raise OrchardError if MLX doesn't work."""
    budget, memory = _models_budget(settings)
    print_line(f"Models may take {decimal(budget)} of {decimal(memory)} here. The choice is of {catalogue.DATE}.")
    models = [
        _ModelRow(use, model.names[0], model.repo)
        for use in catalogue.USES
        for model in catalogue.best_models(use, memory / 10**9)
    ]
    _print_models(models, budget)


def _models_budget(settings: Settings) -> tuple[int, int]:
    """Return the bytes that all models may take, and those of the machine. Raise OrchardError if MLX doesn't work."""
    probed = machine.probe_mlx()
    if isinstance(probed, machine.Finding):
        raise OrchardError("unavailable", f"{probed.seen}; {probed.advice}")
    return machine.models_budget(probed, settings.memory_limit), int(probed["memory_bytes"])


def _print_models(models: Sequence[_ModelRow], budget: int) -> None:
    """Print a table. Ask the Hub for the sizes of models that are not on this machine."""
    with ThreadPoolExecutor(SIZES_AT_ONCE) as pool:
        sizes = list(pool.map(_find_size, (model.repo for model in models)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("For", "Name"):
        table.add_column(heading, overflow="fold")
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Fits", no_wrap=True)
    for model, size in zip(models, sizes, strict=True):
        shown = "unknown" if size.size_bytes is None else decimal(size.size_bytes)
        room = "" if size.size_bytes is None else machine.describe_room(size.size_bytes, budget)
        fits = f"{room}, here" if size.is_here else room
        table.add_row(*map(Text, (model.use, printable_text(model.name), shown, fits)))
    # Don't fit the table to a screen if the output is a pipe or a file.
    Console(width=None if sys.stdout.isatty() else 1000).print(table)
    print_line(_ADVICE)
    if reason := next((size.reason for size in sizes if size.reason), ""):
        print_line(f"orchard: some sizes are unknown: {printable_text(reason)}", sys.stderr)


def _find_size(repo: str) -> _Size:
    try:
        return _Size(resolve_model(repo).size_bytes, is_here=True)
    except OrchardError:
        pass
    try:
        return _Size(hub_info.needed_bytes(hub_info.read_info(repo)))
    except OrchardError as error:
        return _Size(None, reason=error.message)
