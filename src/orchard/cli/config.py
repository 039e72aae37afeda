"""The settings of `orchard serve`, from all that says something of them; `orchard config check`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from orchard.cli import layers
from orchard.cli.layers import File
from orchard.config import Settings


def gather(
    config: Path | None, models: Iterable[str], flags: Mapping[str, Any], variables: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """Give the settings, and what was said to no effect, a line each. Raises Mistakes with every line that is wrong.

    `models` are the arguments of the command; of `flags` those that are None were not given.
    """
    file, mistakes = _read(config) if config else (None, [])
    above = layers.environment(variables, mistakes)
    top = layers.flags({name: value for name, value in flags.items() if value is not None}, models, mistakes)
    settings = layers.settings(file, above, top, mistakes)
    return settings, [*_notes(file), *layers.notes([above, top]), *layers.strange_variables(variables)]


def check(config: Path) -> None:
    """Say that a file is right, what it configures, and what of it has no effect. Raises Mistakes."""
    file, mistakes = _read(config)
    settings = layers.settings(file, {}, {}, mistakes)
    for note in _notes(file):
        typer.echo(note)
    typer.echo(f"{config}: OK: {_summary(settings)}")


def _read(config: Path) -> tuple[File, list[str]]:
    from orchard.cli import config_file

    return config_file.read(config)


def _notes(file: File | None) -> list[str]:
    return layers.notes([file.server, *file.models]) if file else []


def _summary(settings: Settings) -> str:
    names = [
        (model.served_model_name or model.model_path) + (" (on demand)" if model.on_demand else "")
        for model in settings.models
    ]
    count = "no model" if not names else "1 model: " if len(names) == 1 else f"{len(names)} models: "
    return f"{count}{', '.join(names)}; at {settings.host}:{settings.port}"
