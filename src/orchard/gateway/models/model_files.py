"""The description of a model in its folder's files, read again when these change."""

import os
import re
import time
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from orchard.core.model_config import Capability, capabilities, context_window
from orchard.gateway.models.gguf import GGUF, is_gguf
from orchard.kinds import KINDS, kind_of

# A folder that has just changed may change again without a new time: file systems count in steps.
_SETTLED_NS = 2 * 10**9
_MAX_JSON_BYTES = 64 * 1024 * 1024
_LAST_DATE = 253_402_300_799  # the end of the year 9999
_NUMBERED = re.compile(r".*-\d+-of-(\d+)\.safetensors")


T = TypeVar("T")


class ModelFiles(Struct, frozen=True):
    """The facts in a model's files. `size_bytes`: of its weights; `created`: in seconds since the epoch."""

    kind: str
    context_window: int | None
    capabilities: tuple[Capability, ...]
    size_bytes: int
    created: int


class _NamedTemplate(Struct):
    name: str = ""
    template: str = ""


class _Template(Struct):
    chat_template: str | list[_NamedTemplate] | None = None


class _Index(Struct):
    weight_map: dict[str, str]


_template_decoder = msgspec.json.Decoder(_Template)


class Folders:
    """Models' folders by their paths. Several threads may use it at once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], ModelFiles | str]] = {}

    def read(self, folder: str) -> ModelFiles:
        """Return what the model in a folder is. Raise ValueError with the reason why the folder is no model."""
        try:
            state = _state(folder)
        except (OSError, ValueError) as error:  # ValueError: a null byte
            raise ValueError(f"it can't be read ({error})") from None
        known = self._known.get(folder)
        if known is None or known[0] != state:
            known = (state, _read(folder))
            if time.time_ns() - max(state) > _SETTLED_NS:
                self._known[folder] = known
        if isinstance(known[1], str):
            raise ValueError(known[1])
        return known[1]


def _state(folder: str) -> tuple[int, int]:
    """Return the times of a folder and of the file in it that somebody may edit. Raise OSError, ValueError."""
    try:
        edited = os.stat(os.path.join(folder, "config.json")).st_mtime_ns
    except FileNotFoundError:
        edited = 0
    return os.stat(folder).st_mtime_ns, edited


def _read(folder: str) -> ModelFiles | str:
    try:
        names = set(os.listdir(folder))
        if is_gguf(names):
            return GGUF
        if "model_index.json" in names or "config.json" not in names:
            return _read_folders(folder, kind_of({}, names))
        config = _config(folder)
        kind = kind_of(config, names)
        size = _weights(folder, names, KINDS[kind].weights)
        return ModelFiles(
            kind,
            context_window(config),
            capabilities(kind, _template(folder, names)),
            size,
            _created(folder, "config.json"),
        )
    except (OSError, ValueError) as error:
        return str(error)


def _read_folders(folder: str, kind: str) -> ModelFiles:
    """Read a model whose weights lie in sub-folders. Raise ValueError, OSError."""
    if not KINDS[kind].in_folders:
        raise ValueError("it has no config.json")
    sizes = [
        os.stat(os.path.join(place, name)).st_size
        for place, _, files in os.walk(folder)
        for name in files
        if name.endswith(".safetensors")
    ]
    if not sizes:
        raise ValueError("it has no weights in safetensors files")
    return ModelFiles(kind, None, (), sum(sizes), _created(folder))


def _config(folder: str) -> dict[str, Any]:
    """Return the config.json of a folder in mlx-lm's format. Raise ValueError if it is none."""
    config = _json(folder, "config.json", Any)
    if not isinstance(config, dict):
        raise ValueError("its config.json is no JSON object")
    if "model_type" not in config:
        raise ValueError("its config.json names no model_type")
    return config


def _weights(folder: str, names: Collection[str], pattern: re.Pattern[str]) -> int:
    """Return the size of all weights. Raise ValueError if there are none, or only some of them."""
    found = {name for name in names if pattern.fullmatch(name)}
    if not found:
        raise ValueError("it has no model*.safetensors")
    wanted = set(found)
    if "model.safetensors.index.json" in names:
        wanted |= set(_json(folder, "model.safetensors.index.json", _Index).weight_map.values())
    totals = [int(numbered[1]) for name in found if (numbered := _NUMBERED.fullmatch(name))]
    total = max([len(wanted), *totals])
    sizes = [size for name in wanted if (size := _size(folder, name)) is not None]
    if len(sizes) < total:
        raise ValueError(f"it is not complete: {total - len(sizes)} of its {total} files of weights are not here")
    return sum(sizes)


def _json(folder: str, name: str, as_type: type[T]) -> T:
    """Return a JSON file as that type. Raise ValueError if it can't be read."""
    try:
        return msgspec.json.decode(_bytes(folder, name), type=as_type)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"its {name} can't be read ({error})") from None


def _size(folder: str, name: str) -> int | None:
    try:
        return os.stat(os.path.join(folder, name)).st_size
    except (OSError, ValueError):
        return None


def _template(folder: str, names: Collection[str]) -> str:
    """Return the chat template as text, from where transformers takes it; empty if none can be read."""
    try:
        if "chat_template.jinja" in names:
            return _bytes(folder, "chat_template.jinja").decode(errors="replace")
        for name in ("chat_template.json", "tokenizer_config.json"):
            if name in names and (text := _template_in(_bytes(folder, name))):
                return text
    except OSError:
        pass
    return ""


def _template_in(content: bytes) -> str:
    """Return the chat template of a JSON file, or all of them; empty if there is none."""
    try:
        template = _template_decoder.decode(content).chat_template
    except (ValueError, RecursionError):
        return ""
    return "\n".join(one.template for one in template) if isinstance(template, list) else template or ""


def _created(folder: str, name: str = "") -> int:
    """Return the time of a folder, or of a file in it, limited to what can be written as a date."""
    return min(max(0, int(os.stat(os.path.join(folder, name)).st_mtime)), _LAST_DATE)


def _bytes(folder: str, name: str) -> bytes:
    """Return a file of limited size. Raise OSError, ValueError."""
    with open(os.path.join(folder, name), "rb") as file:
        content = file.read(_MAX_JSON_BYTES + 1)
    if len(content) > _MAX_JSON_BYTES:
        raise ValueError(f"{name} is longer than {_MAX_JSON_BYTES} bytes")
    return content
