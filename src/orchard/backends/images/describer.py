"""FIBO's own language model, which turns plain text into the JSON that FIBO needs."""

import gc
import json
import pkgutil
from pathlib import Path

import mlx.core as mx

from orchard.core.errors import OrchardError

REPOSITORY = "briaai/FIBO-vlm"
_TYPE = "mflux.models.fibo_vlm.model.fibo_vlm:FiboVLM"
_SEED = 42  # mflux's own


def is_json_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def describer_folder() -> Path | None:
    """Return the folder of the model in the local Hugging Face cache; None if it is not there."""
    try:
        return Path(pkgutil.resolve_name("huggingface_hub:snapshot_download")(REPOSITORY, local_files_only=True))
    except Exception:  # whatever the cache lacks
        return None


def describe_image(text: str, folder: Path, bits: int | None) -> str:
    """Return the description of an image as JSON. Load the model for it, and free it again.

    Raise OrchardError if the model doesn't write JSON.
    """
    model = pkgutil.resolve_name(_TYPE)(model_path=str(folder), quantize=bits)
    try:
        written: str = model.generate(prompt=text, seed=_SEED)
    finally:
        del model
        gc.collect()
        mx.clear_cache()
    if not is_json_object(written):
        message = f"{REPOSITORY} made no JSON out of `prompt`: say it in other words, or send a JSON object"
        raise OrchardError("invalid_request", message, param="prompt")
    return written
