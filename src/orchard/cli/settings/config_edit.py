"""Puts settings of a model into a configuration file, and leaves all else in it as it is: comments, order, layout."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node

from orchard.config import ModelSettings
from orchard.core.errors import OrchardError


def has_model(path: Path, model: ModelSettings) -> bool:
    """Return whether the file has an entry for the model. The file has been read without mistakes."""
    return _find_entry(path.read_bytes().decode(), model) is not None


def put_settings(path: Path, model: ModelSettings, values: Mapping[str, str | int]) -> None:
    """Give the model's entry these settings, in place of those that it has.

    Raise OrchardError if the file has no entry for the model, or can't be written.
    """
    text = path.read_bytes().decode()  # unlike read_text, this keeps the ends of lines
    for name, value in values.items():
        entry = _find_entry(text, model)
        if entry is None:
            raise OrchardError("invalid_request", f"{path}: there is no entry for '{model.model_path}'")
        text = _put(text, entry, name, str(value))
    try:
        _replace_file(path, text)
    except OSError as error:
        raise OrchardError("invalid_request", f"{path}: can't be written: {error.strerror}") from error


def _put(text: str, entry: MappingNode, name: str, value: str) -> str:
    for key, old in entry.value:
        if key.value == name:
            return text[: old.start_mark.index] + value + text[old.end_mark.index :]
    first = entry.value[0][0].start_mark
    line_end = "\r\n" if "\r\n" in text else "\n"
    gap = ", " if entry.flow_style else line_end + " " * first.column
    return f"{text[: first.index]}{name}: {value}{gap}{text[first.index :]}"


def _find_entry(text: str, model: ModelSettings) -> MappingNode | None:
    """Return the node of the entry with the model's path and name."""
    named = {"model_path": model.model_path, "served_model_name": model.served_model_name}
    for entry in _entries(yaml.compose(text, Loader=yaml.SafeLoader)):
        found = {key.value: value.value for key, value in entry.value}
        if all(found.get(key) == value for key, value in named.items()):
            return entry
    return None


def _entries(root: Node | None) -> Iterator[MappingNode]:
    """Yield the entries of models."""
    for key, value in root.value if isinstance(root, MappingNode) else ():
        if key.value == "models":
            yield from (entry for entry in value.value if isinstance(entry, MappingNode))


def _replace_file(path: Path, text: str) -> None:
    """Write beside the file, and rename: whoever reads it meanwhile sees the old file or the new one."""
    target = path.resolve()
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8", newline="") as new:
        new.write(text)
    os.chmod(new.name, target.stat().st_mode)
    os.replace(new.name, target)
