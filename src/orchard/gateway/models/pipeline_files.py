"""The size of the weights of a pipeline: an image model whose parts are in sub-folders."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

_INDEX = "model_index.json"
_MAIN_PART = "transformer"
# mflux does not quantise this part of the pipelines `_KEPT_BY`, because their quality would suffer.
_KEPT_PART = "text_encoder"
_KEPT_BY = "QwenImage"
_MAX_HEADER_BYTES = 64 * 2**20
_LENGTH_BYTES = 8


class PipelineWeights(Struct, frozen=True):
    """The bytes of all weights that are loaded, and of those that are never quantised."""

    size_bytes: int
    kept_bytes: int


def read_weights(folder: str) -> PipelineWeights:
    """Return the size of a pipeline. Raise ValueError if it has no weights, or OSError."""
    files = sorted(Path(folder).rglob("*.safetensors"))
    if not files:
        raise ValueError("it has no weights in safetensors files")
    main = [file for file in files if file.parent == Path(folder) / _MAIN_PART]
    if main:  # then weights at the top are a copy for other programs
        files = [file for file in files if file.parent != Path(folder)]
    size = _size(files)
    if main and _is_quantised(main[0]):
        return PipelineWeights(size, size)
    keeps = str(_json(Path(folder) / _INDEX).get("_class_name")).startswith(_KEPT_BY)
    return PipelineWeights(size, _size(file for file in files if keeps and file.parent.name == _KEPT_PART))


def _size(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _is_quantised(file: Path) -> bool:
    """Return whether a file has weights that mflux has quantised.

    The format is https://huggingface.co/docs/safetensors/index#format.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
        header = _object(opened.read(length)) if length <= _MAX_HEADER_BYTES else {}
    metadata = header.get("__metadata__")
    return isinstance(metadata, dict) and str(metadata.get("quantization_level", "None")).isdigit()


def _json(file: Path) -> dict[str, Any]:
    return _object(file.read_bytes()) if os.path.exists(file) and file.stat().st_size <= _MAX_HEADER_BYTES else {}


def _object(text: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one if the text is anything else."""
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
