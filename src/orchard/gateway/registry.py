"""Which models exist: the bundled demo, folders in mlx-lm's format, and what lies in the local Hugging Face cache."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.model_config import context_window
from orchard.demo import MODEL_PATH

DEMO = "demo"


class ModelEntry(Struct, frozen=True):
    """A model that can be served: its name on the wire, its folder, and the tokens it can attend to (None: unknown)."""

    id: str
    path: str
    context_window: int | None
    backend: Literal["text", "fake"] = "text"


def resolve(name: str) -> ModelEntry:
    """Find a model by what a user types: `demo`, a folder, or the id of a model in the local Hugging Face cache.

    Nothing is downloaded. Raises OrchardError("model_not_found") with a sentence that says what to do.
    """
    if name == DEMO:
        return _entry(DEMO, MODEL_PATH)
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return _entry(folder.resolve().name, folder.resolve())
    if snapshot := _cached(name):
        return _entry(name, snapshot)
    raise OrchardError(
        "model_not_found",
        f"no model '{name}': it is neither 'demo', nor a folder, nor in the local Hugging Face cache "
        "('orchard models' lists what is here; 'hf download ID' fetches a model)",
    )


def installed() -> Iterator[ModelEntry]:
    """The bundled demo and every MLX model of the local Hugging Face cache."""
    yield resolve(DEMO)
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        snapshot = _cached(repo.repo_id) if repo.repo_type == "model" else None
        if snapshot and _problem(snapshot) is None:
            yield _entry(repo.repo_id, snapshot)


def _entry(name: str, folder: Path) -> ModelEntry:
    if problem := _problem(folder):
        raise OrchardError("model_not_found", f"{folder} is not a model that can be served: {problem}")
    config = msgspec.json.decode((folder / "config.json").read_bytes(), type=dict[str, Any])
    return ModelEntry(name, str(folder), context_window(config))


def _problem(folder: Path) -> str | None:
    """Say what keeps a folder from being a model in mlx-lm's format."""
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes())
    except FileNotFoundError:
        return "it has no config.json"
    except (OSError, msgspec.DecodeError) as error:
        return f"its config.json can't be read ({error})"
    if not isinstance(config, dict) or "model_type" not in config:
        return "its config.json names no model_type"
    if not any(folder.glob("model*.safetensors")):
        return "it has no model*.safetensors"
    return None


def _cached(repo_id: str) -> Path | None:
    """Give the snapshot folder of a cached model; the network is never asked."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo_id, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return None
