"""The settings of a server, from what a file, the environment and flags set."""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.inspect import StructType

from orchard.cli.settings.report import report_settings
from orchard.cli.settings.table import Setting, flag_of, settings_by_name, settings_by_variable
from orchard.cli.settings.values import fields_of, printable_text
from orchard.config import ModelSettings, SettingReport, Settings
from orchard.core.setting import Scope

_ON_DEMAND_TTL = 60.0
# The variables of other commands and of workers.
_OTHER_VARIABLES = {"ORCHARD_CONFIG", "ORCHARD_URL", "ORCHARD_CACHE_DIR"}
_PREFIXES = ("ORCHARD_", "MLX_VLM_")
_DEMO = "demo"
S = TypeVar("S", bound=Struct)


class PlacedValue(NamedTuple):
    """A value and its place, such as "orchard.yaml:12: kv_bits", "ORCHARD_KV_BITS" or "--kv-bits"."""

    value: Any
    where: str


Layer = dict[str, PlacedValue]
"""The values that one source sets, by `Setting.name`."""


class FileLayers(NamedTuple):
    """What a configuration file sets: for the server and all models, and for each model."""

    server: Layer
    models: list[Layer]


class Places(NamedTuple):
    """Where each model of the settings is named, where the fallback model is, and where all settings come from.

    `has_file`: there is a configuration file.
    """

    models: list[str]
    fallback: str
    settings: tuple[SettingReport, ...]
    has_file: bool


class Mistakes(Exception):
    """The mistakes in the settings: one line for each, with its place."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(dict.fromkeys(map(printable_text, lines)))
        super().__init__("\n".join(self.lines))


def read_environment(variables: Mapping[str, str], mistakes: list[str]) -> Layer:
    """Read the variables that are settings. An empty one counts as absent."""
    layer: Layer = {}
    for variable, text in sorted(variables.items()):
        setting = settings_by_variable().get(variable)
        if setting and text.strip():
            is_list = setting.name == "model_path"  # a list only here: elsewhere it is one name
            try:
                value = tuple(filter(None, map(str.strip, text.split(",")))) if is_list else setting.kind.read(text)
                put_value(layer, setting, PlacedValue(value, variable), mistakes)
            except ValueError as error:
                mistakes.append(f"{variable}: {error}")
    return _resolve_shorthands(layer, mistakes)


def unknown_variables(variables: Iterable[str]) -> list[str]:
    """Return a warning for each variable that looks like a setting and is not one."""
    known = settings_by_variable().keys() | _OTHER_VARIABLES
    strange = sorted(
        (name, prefix) for name in variables for prefix in _PREFIXES if name.startswith(prefix) and name not in known
    )
    return [
        printable_text(f"{name}: is not a setting of Orchard{suggest_name(name, known, prefix)}")
        for name, prefix in strange
    ]


def read_flags(values: Mapping[str, Any], models: Iterable[str], mistakes: list[str]) -> Layer:
    """Read the values of flags, by their names; `models` are the command's arguments."""
    layer: Layer = {}
    names = list(models)
    for name, value in values.items():
        setting = settings_by_name()[name]
        if setting.name == "model_path":
            names += value
            continue
        # The flag of a list may be repeated, and each one may hold several items.
        is_list = setting.kind.shape is list
        read = tuple(dict.fromkeys(item for several in value for item in several)) if is_list else value
        put_value(layer, setting, PlacedValue(read, flag_of(name)), mistakes)
    if names:
        layer["model_path"] = PlacedValue(tuple(names), "MODEL")
    return _resolve_shorthands(layer, mistakes)


def merge_settings(
    file: FileLayers | None, from_environment: Layer, from_flags: Layer, mistakes: list[str]
) -> tuple[Settings, Places]:
    """Return the settings: flags override the environment, which overrides the file. Raise Mistakes if any is wrong."""
    file_server = _resolve_shorthands(file.server, mistakes, file.models) if file else {}
    server = file_server | from_environment | from_flags
    above = _select_scopes(from_environment | from_flags, "all")
    layers = [_select_scopes(file_server, "all") | model | above for model in (file.models if file else ())]
    layers += _model_layers(server, file is not None, mistakes)
    for layer in layers:
        if "on_demand" in layer and layer["on_demand"].value:
            layer.setdefault("ttl", PlacedValue(_ON_DEMAND_TTL, ""))
    models = tuple(_build_struct(ModelSettings, layer, mistakes) for layer in layers)
    _check_names(models, layers, mistakes)
    keys = [key for name in ("api_keys", "api_key_file") if name in server for key in server[name].value]
    of_all = _select_scopes(server, "server", "all")  # without settings of the single model that the command line names
    made = _build_struct(Settings, of_all, mistakes, api_keys=tuple(dict.fromkeys(keys)), models=models)
    if mistakes:
        raise Mistakes(mistakes)
    fallback = server["fallback_model"].where if "fallback_model" in server else ""
    wheres = [{name: one.where for name, one in layer.items()} for layer in (server, *layers)]
    reports = report_settings(made, wheres[0], wheres[1:])
    return made, Places([layer["model_path"].where for layer in layers], fallback, reports, file is not None)


def ineffective_values(layers: Iterable[Layer]) -> list[str]:
    """Return a warning for each value that has no effect."""
    found = []
    for name, (value, where) in chain.from_iterable(layer.items() for layer in layers):
        setting = settings_by_name()[name]
        if setting.group == "ignored" and value != setting.default:
            found.append(f"{where}: does nothing. {setting.help}")
    return list(dict.fromkeys(map(printable_text, found)))


def suggest_name(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Continue a sentence about an unknown name with the most similar known one; empty if none is similar.

    `prefix`, with which all of them begin, doesn't count for the similarity.
    """
    rests = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
    found = difflib.get_close_matches(name.removeprefix(prefix), rests, n=1)
    return f"; did you mean `{prefix}{found[0]}`?" if found else ""


def put_value(layer: Layer, setting: Setting, given: PlacedValue, mistakes: list[str]) -> None:
    """Put a value into a layer. Add a mistake if another name of the setting has set a different value."""
    other = layer.get(setting.name)
    if other and other.value != given.value:
        mistakes.append(f"{given.where}: sets the same as {other.where}, but to another value")
    layer[setting.name] = given


def _resolve_shorthands(layer: Layer, mistakes: list[str], models: Iterable[Layer] = ()) -> Layer:
    """Replace `no_log_file` by `log_file` None, and `debug`, also that of a model, by `log_level` "debug"."""
    for debug in (one["debug"] for one in (layer, *models) if "debug" in one):
        if debug.value:
            layer = layer | {"log_level": PlacedValue("debug", debug.where)}
    off = layer.get("no_log_file")
    if not off or not off.value:
        return layer
    if other := layer.get("log_file"):
        mistakes.append(f"{off.where}: can't be combined with {other.where}")
    return layer | {"log_file": PlacedValue(None, off.where)}


def _select_scopes(layer: Layer, *scopes: Scope) -> Layer:
    return {name: given for name, given in layer.items() if settings_by_name()[name].scope in scopes}


def _model_layers(server: Layer, has_file: bool, mistakes: list[str]) -> list[Layer]:
    """Return the models of the command line or the environment. If there are none and no file, return the demo."""
    names = server["model_path"].value if "model_path" in server else () if has_file else (_DEMO,)
    here = _select_scopes(server, "named", "all")
    where = here.pop("model_path").where if "model_path" in here else ""
    wrong = f"applies to one model, but {len(names)} are named" if names else "needs a MODEL on the command line"
    for name, given in _select_scopes(here, "named").items():
        if not names or (len(names) > 1 and name != "model_type"):
            mistakes.append(f"{given.where}: {wrong}; in a file, each model has its own `{name}`")
            del here[name]
    return [here | {"model_path": PlacedValue(name, where)} for name in names]


def _build_struct(struct: type[S], layer: Layer, mistakes: list[str], **values: Any) -> S:
    """Return a Struct with `values`; a layer sets its other fields and those of the Structs in it."""
    given = {name: one for name, one in layer.items() if struct in settings_by_name()[name].homes}
    for name, field in fields_of(struct).items():
        if name in given and name not in values:
            value = given[name].value
            values[name] = (value or None) if settings_by_name()[name].zero_is_none else value
        elif isinstance(field.type, StructType) and name not in values:
            values[name] = _build_struct(field.type.cls, layer, mistakes)
    try:
        return struct(**values)
    except ValueError as error:  # two settings can't be combined; the message names them
        where = [place for name, (_, place) in given.items() if name in str(error)]
        mistakes.append(": ".join([*where[-1:], str(error)]))
        return struct()


def _check_names(models: Iterable[ModelSettings], layers: Iterable[Layer], mistakes: list[str]) -> None:
    seen: set[str] = set()
    for model, layer in zip(models, layers, strict=True):
        for name in dict.fromkeys((_wire_name(model), *model.aliases)):
            if name in seen:
                where = layer["model_path"].where
                mistakes.append(f"{where}: another model is named '{name}' too: give one of them a `served_model_name`")
            seen.add(name)


def _wire_name(model: ModelSettings) -> str:
    if model.served_model_name:
        return model.served_model_name
    with contextlib.suppress(OSError, RuntimeError):  # a path that is too long, or the home of an unknown user
        folder = Path(model.model_path).expanduser()
        if folder.is_dir():
            return folder.resolve().name
    return model.model_path
