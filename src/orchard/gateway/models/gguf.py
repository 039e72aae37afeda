"""Models in GGUF, which can't be served: they are recognised to tell the user how to get an MLX model."""

import logging
import os
from collections.abc import Iterable

from orchard.gateway.models import hub_cache, subfolders

log = logging.getLogger("orchard.gateway")

GGUF = (
    "it is in GGUF, the format of llama.cpp, and Orchard reads folders in MLX format (config.json and "
    "model*.safetensors): look for the model under mlx-community on the Hugging Face Hub and fetch it with "
    "'orchard pull ID', or convert the original with 'mlx_lm.convert --hf-path ID'"
)
"""Why a GGUF model can't be served, and how to get a model that can."""


def is_gguf(names: Iterable[str]) -> bool:
    """Return whether these are the files of a model that is only in GGUF."""
    ends = {os.path.splitext(name)[1].lower() for name in names}
    return ".gguf" in ends and not ends & {".safetensors", ".npz"}


def is_here(name: str, model_dir: str) -> bool:
    """Return whether the cache or `model_dir` has a GGUF model with this name."""
    repo, folder = hub_cache.folder_of(name), subfolders.subfolder(model_dir, name)
    places = [*(hub_cache.snapshots(repo) if repo else ()), *filter(None, [folder])]
    return any(is_gguf(subfolders.listing(place)) for place in places)


def warn(model_dir: str) -> None:
    """Log which folders of `model_dir` are not served because they hold GGUF."""
    for name in subfolders.folders(model_dir):
        if is_gguf(subfolders.listing(os.path.join(model_dir, name))):
            log.warning("'%s' in %s is not served: %s", name, model_dir, GGUF)
