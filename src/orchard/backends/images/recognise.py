"""Finds the preset that runs the model in a folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchard import folder_files
from orchard.backends.images.presets import PRESETS, Preset
from orchard.core.errors import OrchardError

_SNAPSHOTS = "snapshots"
_PIPELINES = {pipeline for preset in PRESETS.values() for pipeline in preset.pipelines}


def preset_for(folder: Path, name: str | None) -> Preset:
    """Return the preset with this name or, if it is None, the preset that a folder's files and name point to.

    Raise OrchardError("model_failed") if there is none, or if the files are those of another kind of model.
    """
    if name is None:
        return _recognise_preset(folder)
    if name not in PRESETS:
        raise OrchardError("model_failed", f"there is no config_name '{name}': it must be one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    if not _matches_files(preset, folder):
        others = ", ".join(other.name for other in PRESETS.values() if _matches_files(other, folder)) or "no preset"
        raise OrchardError("model_failed", f"its files are no model for config_name '{name}'; they fit {others}")
    return preset


def _recognise_preset(folder: Path) -> Preset:
    """Return the preset that fits the files and has the longest repository name that the folder's name contains.

    If there is none, all fitting presets must have the same repository: return the first of them.
    """
    fitting = [preset for preset in PRESETS.values() if _matches_files(preset, folder)]
    called = _plain_name(_name_of(folder))
    named = [preset for preset in fitting if _plain_name(preset.repository.partition("/")[2]) in called]
    if named:
        return max(named, key=lambda preset: len(preset.repository))
    if len({preset.repository for preset in fitting}) == 1:
        return fitting[0]
    message = "its files don't say which kind of image model it is: set config_name to one of "
    raise OrchardError("model_failed", message + ", ".join(preset.name for preset in fitting or PRESETS.values()))


def _matches_files(preset: Preset, folder: Path) -> bool:
    """Return whether no file in the folder contradicts a preset; the files that mflux saves say little."""
    pipeline = _read_json_object(folder / "model_index.json").get("_class_name")
    if pipeline is not None and pipeline not in (preset.pipelines or {pipeline} - _PIPELINES):
        return False
    config = _read_json_object(folder / "transformer" / "config.json")
    return not config or all((config.get(key) or False) == value for key, value in preset.marks.items())


def _name_of(folder: Path) -> str:
    """Return the name of a folder or, for a snapshot in the Hugging Face cache, of its repository."""
    return folder.parent.parent.name if folder.parent.name == _SNAPSHOTS else folder.name


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read_json_object(file: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file; an empty one if it can't be read."""
    try:
        found = folder_files.read_json(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
