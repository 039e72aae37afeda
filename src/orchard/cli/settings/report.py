"""What a server's settings are, and where each comes from, for GET /v1/settings."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from orchard.cli.settings.table import TABLE, Setting, settings_by_name, settings_by_variable
from orchard.config import SettingReport, Settings, Shorthands


def report_settings(
    settings: Settings, server: dict[str, str], models: Iterable[dict[str, str]]
) -> tuple[SettingReport, ...]:
    """Return the settings of a server, then what each model sets for itself, without secrets.

    `server` has the places of what is set for the server and all models, by `Setting.name`; `models` the same of each
    model of `settings`.
    """
    keys = {"api_keys": server["api_key_file"]} if "api_key_file" in server else {}
    reports = list(_report(settings, keys | server, ""))
    for index, (model, places) in enumerate(zip(settings.models, models, strict=True)):
        shared = {name for name, place in places.items() if server.get(name) == place}
        shared = {name for name in shared if settings_by_name()[name].scope == "all"}
        own = {name: place for name, place in places.items() if name not in shared}
        reports += [report for report in _report(model, own, f"models[{index}].") if report.source != "default"]
    return tuple(reports)


def _report(settings: Struct, places: dict[str, str], prefix: str) -> Iterator[SettingReport]:
    owners = {type(owner): owner for owner in inner_structs(settings)}
    for setting in TABLE:
        owner = next((owners[home] for home in setting.homes if home in owners), None)
        if owner is not None and setting.group != "ignored" and setting.homes != (Shorthands,):
            value = _public_value(setting, getattr(owner, setting.name))
            yield SettingReport(prefix + setting.name, value, _source(places.get(setting.name, "")))


def inner_structs(settings: Struct) -> Iterator[Struct]:
    """Yield a Struct and those in it."""
    yield settings
    for value in structs.astuple(settings):
        if isinstance(value, Struct):
            yield from inner_structs(value)


def _public_value(setting: Setting, value: Any) -> Any:
    """Return a value without secrets: of keys their number, of groups of keys their names."""
    if isinstance(value, dict) and setting.kind.secret:
        return list(value)
    if isinstance(value, tuple) and setting.kind.secret:
        return f"{len(value)} key{'s' if len(value) != 1 else ''}"
    return value


def _source(place: str) -> str:
    if not place:
        return "default"
    if place == "MODEL" or place.startswith("--"):
        return "command line"
    return "environment" if place in settings_by_variable() else f"file {place.rpartition(': ')[0]}"
