"""Models in GGUF, which can't be served: they are recognised to tell the user how to get an MLX model."""

import os
from collections.abc import Iterable

FIND = "look for the model under mlx-community on the Hugging Face Hub and fetch it with 'orchard pull ID'"
"""How to get a model that Orchard can serve."""

GGUF = (
    "it is in GGUF, the format of llama.cpp, and Orchard reads folders in MLX format (config.json and "
    f"model*.safetensors): {FIND}, or convert the original with 'mlx_lm.convert --hf-path ID'"
)
"""Why a GGUF model can't be served, and how to get a model that can."""


def is_gguf(names: Iterable[str]) -> bool:
    """Return whether these are the files of a model that is only in GGUF."""
    ends = {os.path.splitext(name)[1].lower() for name in names}
    return ".gguf" in ends and not ends & {".safetensors", ".npz"}
