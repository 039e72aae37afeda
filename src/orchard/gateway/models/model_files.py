"""The facts in a model's files, read again when the files change."""

import math
import os
import re
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from orchard import folder_files
from orchard.core.model_config import (
    Capability,
    architecture,
    capabilities,
    context_window,
    layer_bits,
    weight_format,
)
from orchard.core.voices import voices
from orchard.gateway.models.gguf import FIND, GGUF, is_gguf
from orchard.gateway.models.pipeline_files import read_pipeline_weights
from orchard.kinds import KINDS, ModelKind, recognise_kind

# A folder that has just changed may change again without a new mtime, because mtimes are coarse.
_SETTLED_NS = 2 * 10**9
# A file that somebody copies here grows without a new mtime of the folder.
_REFUSED_SECONDS = 10.0
_LAST_DATE = 253_402_300_799  # the end of the year 9999
_WHOLE = "model.safetensors"
_OF_PYTORCH = (".bin", ".pt", ".pth")
_OF_BYTES = {"ByT5Tokenizer"}  # whose tokens are bytes, so that it needs no file
_COPY = "copy tokenizer.json, or the files in its place, from the original model"
_HEAD = "_mtp"  # the end of the model types of heads, which guess for a model with its tokens
_NUMBERED = re.compile(r".*-\d+-of-(\d+)\.safetensors")


NO_MODEL = "it has no config.json"
"""Why a folder is none of a model at all."""

T = TypeVar("T")


class ModelFiles(Struct, frozen=True):
    """The facts in a model's files. `size_bytes`: of its weights; `created`: in seconds since the epoch."""

    kind: str
    context_window: int | None
    capabilities: tuple[Capability, ...]
    size_bytes: int
    created: int
    voices: tuple[str, ...] = ()
    """The voices of a speech model."""
    kept_bytes: int = 0
    """The bytes of weights that are never quantised while a pipeline is loaded."""
    architecture: str = ""
    """The model type that its config.json names."""
    quantization: str = ""
    """The format of most weights, such as 4bit or bf16."""
    parameters: int = 0
    """How many parameters it has; 0: unknown."""


class _NamedTemplate(Struct):
    name: str = ""
    template: str = ""


class _Template(Struct):
    chat_template: str | list[_NamedTemplate] | None = None


class _TokenizerSettings(Struct):
    tokenizer_class: str | None = None


class _SentenceSettings(Struct):
    max_seq_length: int | None = None


class FolderReader:
    """Caches the facts in models' folders, by path. It is thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], ModelFiles | str, float]] = {}

    def read(self, folder: str) -> ModelFiles:
        """Return the facts of the model in a folder. Raise ValueError with the reason if it can't be served."""
        config = os.path.join(folder, "config.json")  # the file that users may edit
        try:
            state = os.stat(folder).st_mtime_ns, os.stat(config).st_mtime_ns if os.path.exists(config) else 0
        except (OSError, ValueError) as error:  # ValueError: a null byte
            raise ValueError(f"it can't be read ({error})") from None
        known = self._known.get(folder)
        if known is None or known[0] != state or known[2] < time.monotonic():
            found = _read_folder(folder)
            known = (state, found, time.monotonic() + _REFUSED_SECONDS if isinstance(found, str) else math.inf)
            if time.time_ns() - max(state) > _SETTLED_NS:
                self._known[folder] = known
        if isinstance(known[1], str):
            raise ValueError(known[1])
        return known[1]


def _read_folder(folder: str) -> ModelFiles | str:
    try:
        names = set(folder_files.list_names(folder))
        if is_gguf(names):
            return GGUF
        folder_files.check_folder(folder)
        if "model_index.json" in names or "config.json" not in names:
            return _read_folders(folder, recognise_kind({}, names), names)
        config = _decode_file(folder, "config.json", Any)
        if not isinstance(config, dict):
            return "its config.json is not a JSON object"
        kind = recognise_kind(config, names)
        if "model_type" not in config and kind != "transcription":  # OpenAI's Whisper and NeMo name no type
            return "its config.json names no model_type"
        size = _weights_bytes(folder, names, KINDS[kind])
        if KINDS[kind].has_tokenizer and not str(config.get("model_type")).endswith(_HEAD):
            _check_tokenizer(folder, names)
        able = capabilities(kind, read_chat_template(folder, names))
        window = _context_window(folder, names, config)
        form, bits = weight_format(config)
        weights = [os.path.join(folder, name) for name in names if KINDS[kind].weights.fullmatch(name)]
        return ModelFiles(
            kind,
            window,
            able,
            size,
            _creation_time(folder, "config.json"),
            voices(config, [os.path.relpath(path, folder) for path in folder_files.walk_folder(folder)]),
            architecture=architecture(config),
            quantization=form,
            parameters=folder_files.count_parameters(weights, bits, layer_bits(config)),
        )
    except (OSError, ValueError) as error:
        return str(error)


def _context_window(folder: str, names: Collection[str], config: dict[str, Any]) -> int | None:
    """Return a model's context window in tokens: config.json's, or fewer if sentence-transformers cuts texts."""
    windows = [context_window(config)]
    if "sentence_bert_config.json" in names:
        windows.append(_decode_file(folder, "sentence_bert_config.json", _SentenceSettings).max_seq_length)
    return min((window for window in windows if window), default=None)


def _read_folders(folder: str, kind: str, names: Collection[str]) -> ModelFiles:
    """Read a model whose weights are in sub-folders. Raise ValueError or OSError."""
    if not KINDS[kind].in_folders:
        raise ValueError(_describe_adapter(names) or NO_MODEL)
    weights = read_pipeline_weights(folder)
    return ModelFiles(kind, None, (), weights.size_bytes, _creation_time(folder), kept_bytes=weights.kept_bytes)


def _weights_bytes(folder: str, names: Collection[str], kind: ModelKind) -> int:
    """Return the bytes of all weights. Raise ValueError if there are none, or some are missing or broken."""
    found = {name for name in names if kind.weights.fullmatch(name)}
    if not found:
        raise ValueError(_describe_adapter(names) or _describe_pytorch(names, kind) or "it has no model*.safetensors")
    paths = [os.path.join(folder, name) for name in sorted(found)]
    broken = len(paths) - sum(map(os.path.exists, paths))  # links that lead nowhere
    missing, total = (broken, len(paths)) if broken else _count_missing(found, folder_files.read_shard_names(folder))
    if missing:
        raise ValueError(f"it is not complete: {missing} of its {total} files of weights are not here")
    if problem := folder_files.find_weights_problem(path for path in paths if path.endswith(".safetensors")):
        raise ValueError(problem)
    return sum(map(os.path.getsize, paths))


def _count_missing(found: Collection[str], index: Collection[str]) -> tuple[int, int]:
    """Return how many files of weights are missing, and how many there should be.

    An index of other files than those that are here is left from an earlier version of the model. So are numbered files
    beside a whole one. Libraries don't read the index.
    """
    of_totals = Counter(int(numbered[1]) for name in found if (numbered := _NUMBERED.fullmatch(name)))
    if _WHOLE in found:
        return (len(set(index) - set(found)), len({*index, *found})) if _WHOLE in index else (0, 1)
    gaps = [(max(0, total - count), total) for total, count in of_totals.items()]
    if not set(index).isdisjoint(found):
        gaps.append((len(set(index) - set(found)), len({*index, *found})))
    return max(gaps, default=(0, 1))


def _describe_adapter(names: Collection[str]) -> str | None:
    """Return what a folder is if it has no model, but an adapter for one."""
    if "adapter_config.json" not in names:
        return None
    return "it is a LoRA adapter and not a model: name its folder as `adapters` or `adapter_path` of its model" + (
        ", once its weights are in mlx-lm's format: these are PEFT's" if "adapters.safetensors" not in names else ""
    )


def _describe_pytorch(names: Collection[str], kind: ModelKind) -> str | None:
    """Return what a folder is if its weights are PyTorch's, and how to get a model that can be served."""
    file = next((name for name in sorted(names) if name.endswith(_OF_PYTORCH)), None)
    convert = f", or convert the original with '{kind.convert} --hf-path ID'" if kind.convert else ""
    return file and f"its weights are in PyTorch's format ({file}): {FIND}{convert}"


def _check_tokenizer(folder: str, names: Collection[str]) -> None:
    """Raise ValueError if a folder has no tokenizer."""
    if folder_files.has_tokenizer(names):
        return
    if "tokenizer_config.json" not in names:
        raise ValueError(f"it has no tokenizer: {_COPY}")
    if _decode_file(folder, "tokenizer_config.json", _TokenizerSettings).tokenizer_class not in _OF_BYTES:
        raise ValueError(f"it has only the tokenizer's settings, tokenizer_config.json: {_COPY}")


def _decode_file(folder: str, name: str, as_type: type[T]) -> T:
    """Return a JSON file as that type. Raise ValueError if it can't be read."""
    try:
        return msgspec.convert(folder_files.read_json(os.path.join(folder, name)), as_type)
    except (OSError, ValueError) as error:
        raise ValueError(f"its {name} can't be read ({error})") from None


def read_chat_template(folder: str, names: Collection[str]) -> str:
    """Return the chat template, or all of them, as text, from where transformers reads it; empty if there is none."""
    with suppress(OSError, ValueError):
        if "chat_template.jinja" in names:
            return folder_files.read_file(os.path.join(folder, "chat_template.jinja")).decode(errors="replace")
    for name in ("chat_template.json", "tokenizer_config.json"):
        with suppress(ValueError):
            template = _decode_file(folder, name, _Template).chat_template
            if text := "\n".join(one.template for one in template) if isinstance(template, list) else template:
                return text
    return ""


def _creation_time(folder: str, name: str = "") -> int:
    """Return the mtime of a folder, or of a file in it, limited to valid dates."""
    return min(max(0, int(os.stat(os.path.join(folder, name)).st_mtime)), _LAST_DATE)
