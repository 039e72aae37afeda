"""What lies in a model's folder, read once for as long as it does not change."""

import os
import re
import time
from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.model_config import Capability, capabilities, context_window
from orchard.gateway.models.gguf import GGUF, is_gguf
from orchard.kinds import KINDS, kind_of

# A folder that changed a moment ago may change again without its time telling: file systems count in steps.
_SETTLED_NS = 2 * 10**9
_MAX_JSON_BYTES = 64 * 1024 * 1024
_LAST_DATE = 253_402_300_799  # the end of the year 9999
_NUMBERED = re.compile(r".*-\d+-of-(\d+)\.safetensors")


class ModelFiles(Struct, frozen=True):
    """What the files of a model say of it. `size_bytes`: of its weights; `created`: in seconds since the epoch."""

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
_index_decoder = msgspec.json.Decoder(_Index)


class Folders:
    """Models' folders by their paths. May be used by several threads at once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], ModelFiles | str]] = {}

    def read(self, folder: str) -> ModelFiles:
        """Say what the model in a folder is. Raises ValueError saying what keeps the folder from being one."""
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
    """Give the times of a folder and of the file in it that somebody may edit. Raises OSError, ValueError."""
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
    """Read a model whose weights lie in sub-folders. Raises ValueError, OSError."""
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
    """Read the config.json of a folder in mlx-lm's format. Raises ValueError saying what keeps it from being one."""
    try:
        config = msgspec.json.decode(_bytes(folder, "config.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"its config.json can't be read ({error})") from None
    if not isinstance(config, dict):
        raise ValueError("its config.json is no JSON object")
    if "model_type" not in config:
        raise ValueError("its config.json names no model_type")
    return config


def _weights(folder: str, names: Collection[str], pattern: re.Pattern[str]) -> int:
    """Give the size of all weights. Raises ValueError where there are none, or only some of them."""
    found = {name for name in names if pattern.fullmatch(name)}
    if not found:
        raise ValueError("it has no model*.safetensors")
    wanted = found | _indexed(folder, names)
    totals = [int(numbered[1]) for name in found if (numbered := _NUMBERED.fullmatch(name))]
    total = max([len(wanted), *totals])
    sizes = [size for name in wanted if (size := _size(folder, name)) is not None]
    if len(sizes) < total:
        raise ValueError(f"it is not complete: {total - len(sizes)} of its {total} files of weights are not here")
    return sum(sizes)


def _indexed(folder: str, names: Collection[str]) -> set[str]:
    """Give the files that the index of the weights names. Raises ValueError where it can't be read."""
    if "model.safetensors.index.json" not in names:
        return set()
    try:
        index = _index_decoder.decode(_bytes(folder, "model.safetensors.index.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"its model.safetensors.index.json can't be read ({error})") from None
    return set(index.weight_map.values())


def _size(folder: str, name: str) -> int | None:
    try:
        return os.stat(os.path.join(folder, name)).st_size
    except (OSError, ValueError):
        return None


def _template(folder: str, names: Collection[str]) -> str:
    """Give the chat template as text, from where transformers takes it; empty where none can be read."""
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
    """Give the chat template, or all of them, that a JSON file holds; empty where there is none."""
    try:
        template = _template_decoder.decode(content).chat_template
    except (ValueError, RecursionError):
        return ""
    return "\n".join(one.template for one in template) if isinstance(template, list) else template or ""


def _created(folder: str, name: str = "") -> int:
    """Give the time of a folder, or a file in it, if it is one that can be written as a date."""
    return min(max(0, int(os.stat(os.path.join(folder, name)).st_mtime)), _LAST_DATE)


def _bytes(folder: str, name: str) -> bytes:
    """Read a file that is to be small. Raises OSError, ValueError."""
    with open(os.path.join(folder, name), "rb") as file:
        content = file.read(_MAX_JSON_BYTES + 1)
    if len(content) > _MAX_JSON_BYTES:
        raise ValueError(f"{name} is longer than {_MAX_JSON_BYTES} bytes")
    return content
