"""Gather the settings of `orchard serve` from all sources; `orchard config check`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from msgspec import structs

from orchard.cli.settings import layers
from orchard.cli.settings.layers import FileLayers, Mistakes, Places
from orchard.cli.settings.values import printable_text
from orchard.config import ModelSettings, Settings
from orchard.core.errors import OrchardError

if TYPE_CHECKING:
    from orchard.gateway.models.registry import Registry


class ServerConfig(NamedTuple):
    """Settings, warnings about values that have no effect, and where the settings come from."""

    settings: Settings
    notes: list[str]
    places: Places


def gather_config(
    config: Path | None, models: Iterable[str], flags: Mapping[str, Any], variables: Mapping[str, str]
) -> ServerConfig:
    """Return the settings of a server. Raise Mistakes with every line that is wrong.

    `models` are the arguments of the command; flags that are None were not given.
    """
    file, mistakes = _read_config(config) if config else (None, [])
    above = layers.read_environment(variables, mistakes)
    top = layers.read_flags({name: value for name, value in flags.items() if value is not None}, models, mistakes)
    settings, places = layers.merge_settings(file, above, top, mistakes)
    from_file = [file.server, *file.models] if file else []
    notes = [*layers.ineffective_values([*from_file, above, top]), *layers.unknown_variables(variables)]
    return ServerConfig(settings, notes, places)


def check_config_file(config: Path) -> None:
    """Print what a file configures and what has no effect. Raise Mistakes if the file is wrong."""
    file, mistakes = _read_config(config)
    settings, places = layers.merge_settings(file, {}, {}, mistakes)
    registry_of(settings, places)
    for note in layers.ineffective_values([file.server, *file.models]):
        typer.echo(note)
    names = [
        (model.served_model_name or model.model_path) + (" (on demand)" if model.on_demand else "")
        for model in settings.models
    ]
    count = "no model" if not names else "1 model: " if len(names) == 1 else f"{len(names)} models: "
    typer.echo(printable_text(f"{config}: OK: {count}{', '.join(names)}; at {settings.host}:{settings.port}"))


def model_file(model: ModelSettings) -> str:
    """Return the text of a configuration file with one model, which has these settings."""
    from orchard.cli.settings import config_file

    return config_file.write_model(model)


def config_has_model(config: Path, model: ModelSettings) -> bool:
    """Return whether a file, which has no mistakes, has an entry for the model."""
    from orchard.cli.settings import config_edit

    return config_edit.has_model(config, model)


def put_model_settings(config: Path, model: ModelSettings, values: Mapping[str, str | int]) -> None:
    """Give the model's entry in a file these settings. Raise OrchardError if that is not possible."""
    from orchard.cli.settings import config_edit

    config_edit.put_settings(config, model, values)


def configured_path(name: str, variables: Mapping[str, str]) -> str:
    """Return the path or id of the model that a configuration file calls `name`, in any case; else `name` itself.

    `ORCHARD_CONFIG` names the file. Raise Mistakes if anything in it is wrong.
    """
    if not (config := variables.get("ORCHARD_CONFIG")):
        return name
    for model in gather_config(Path(config), (), {}, variables).settings.models:
        own = {alias.casefold() for alias in (model.served_model_name, *model.aliases) if alias}
        if name.casefold() in own:
            return model.model_path
    return name


def registry_of(settings: Settings, places: Places) -> "Registry":
    """Return the models of a server. Raise Mistakes with every model that can't be served."""
    from orchard.gateway.models.registry import Registry

    try:
        return Registry.from_settings(settings)
    except OrchardError as error:
        whole = error
    wrong: list[str] = []
    right: list[ModelSettings] = []
    for model, place in zip(settings.models, places.models, strict=True):
        try:
            Registry.from_settings(structs.replace(settings, models=(*right, model), fallback_model=None))
        except OrchardError as error:
            wrong.append(_mistake_line(place, error))
        else:
            right.append(model)
    # If each of them can be served, the fallback model can't be.
    raise Mistakes(wrong or [_mistake_line(places.fallback, whole)])


def _mistake_line(place: str, error: OrchardError) -> str:
    return f"{place}: {' '.join(error.message.split())}"


def _read_config(config: Path) -> tuple[FileLayers, list[str]]:
    from orchard.cli.settings import config_file

    return config_file.read_config_file(config)
