"""The size of the weights of a pipeline: an image model whose parts are in sub-folders."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from orchard import folder_files

_INDEX = "model_index.json"
_MAIN_PART = "transformer"
# mflux does not quantise this part of the pipelines `_KEPT_BY`, because their quality would suffer.
_KEPT_PART = "text_encoder"
_KEPT_BY = "QwenImage"


class PipelineWeights(Struct, frozen=True):
    """The bytes of all weights that are loaded, and of those that are never quantised."""

    size_bytes: int
    kept_bytes: int


def read_pipeline_weights(folder: str) -> PipelineWeights:
    """Return the size of a pipeline. Raise ValueError if it has no weights, or OSError."""
    files = sorted(Path(path) for path in folder_files.walk_folder(folder) if path.endswith(".safetensors"))
    if not files:
        raise ValueError("it has no weights in safetensors files")
    main = [file for file in files if file.parent == Path(folder) / _MAIN_PART]
    if main:  # then weights at the top are a copy for other programs
        files = [file for file in files if file.parent != Path(folder)]
    if problem := folder_files.find_weights_problem(files):
        raise ValueError(problem)
    size = _total_bytes(files)
    if main and _is_quantised(main[0]):
        return PipelineWeights(size, size)
    keeps = _pipeline_class(folder).startswith(_KEPT_BY)
    return PipelineWeights(size, _total_bytes(file for file in files if keeps and file.parent.name == _KEPT_PART))


def _total_bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _is_quantised(file: Path) -> bool:
    """Return whether a file has weights that mflux has quantised."""
    metadata = folder_files.read_header(file).get("__metadata__")
    return isinstance(metadata, dict) and str(metadata.get("quantization_level", "None")).isdigit()


def _pipeline_class(folder: str) -> str:
    """Return the name of a pipeline's class; an empty text if its index can't be read."""
    try:
        found = folder_files.read_json(os.path.join(folder, _INDEX))
    except (OSError, ValueError):
        found = None
    return str(found.get("_class_name")) if isinstance(found, dict) else ""
