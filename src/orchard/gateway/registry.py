"""Which models exist: the bundled demo, folders in mlx-lm's format, and what lies in the local Hugging Face cache."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.model_config import context_window
from orchard.core.options import TextOptions
from orchard.demo import MODEL_PATH

if TYPE_CHECKING:
    from huggingface_hub import HFCacheInfo

DEMO = "demo"


Kind = Literal["text", "vision", "embeddings", "whisper", "image"]


class ModelEntry(Struct, frozen=True):
    """A model that can be served: its name on the wire, its folder, and the tokens it can attend to (None: unknown).

    `configured`: it was named by the configuration or the command line, not found. `base`: the id of the model that it
    is with an adapter. `ttl`: seconds without a request after which it is unloaded. `size_bytes`: of its weights.
    """

    id: str
    path: str
    context_window: int | None
    backend: Literal["text", "fake"] = "text"
    kind: Kind = "text"
    aliases: tuple[str, ...] = ()
    capabilities: tuple[Literal["vision", "tools", "thinking"], ...] = ()
    size_bytes: int = 0
    options: TextOptions = TextOptions()
    base: str | None = None
    configured: bool = False
    on_demand: bool = False
    pinned: bool = False
    ttl: float | None = None


class Registry:
    """Which models a server has, by the names that clients have for them."""

    def __init__(self, entries: Sequence[ModelEntry]) -> None:
        self._entries = {entry.id: entry for entry in entries}

    def all(self) -> list[ModelEntry]:
        """Give every model, the configured ones first."""
        return list(self._entries.values())

    def find(self, name: str, adapter: str | None = None) -> ModelEntry:
        """Give the model of that name or alias, with that adapter. Raises OrchardError("model_not_found")."""
        try:
            return self._entries[name]
        except KeyError:
            names = ", ".join(f"'{known}'" for known in self._entries)
            message = f"no model '{name}' here; this server has {names}"
            raise OrchardError("model_not_found", message, param="model") from None


def resolve(name: str) -> ModelEntry:
    """Find a model by what a user types: `demo`, a folder, or the id of a model in the local Hugging Face cache.

    Nothing is downloaded. Raises OrchardError("model_not_found") with a sentence that says what to do.
    """
    if name == DEMO:
        return _entry(DEMO, MODEL_PATH)
    if folder := _folder(name):
        return _entry(folder.name, folder)
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
    found = cache()
    for repo in sorted(found.repos, key=lambda repo: repo.repo_id) if found else ():
        snapshot = _cached(repo.repo_id) if repo.repo_type == "model" else None
        with contextlib.suppress(OrchardError):
            if snapshot:
                yield _entry(repo.repo_id, snapshot)


def cache() -> "HFCacheInfo | None":
    """Look through the local Hugging Face cache; None where there is none."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        return scan_cache_dir()
    except (CacheNotFound, ValueError):  # ValueError: a file stands where the folder should be
        return None


def _folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser()
        return folder.resolve() if name and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, a home of nobody, a null byte
        return None


def _entry(name: str, folder: Path) -> ModelEntry:
    try:
        name.encode()  # it must fit into JSON
        return ModelEntry(name, str(folder), context_window(_config(folder)))
    except ValueError as error:
        raise OrchardError("model_not_found", f"{folder} is not a model that can be served: {error}") from None


def _config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a folder in mlx-lm's format. Raises ValueError saying what keeps it from being one."""
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes())
    except FileNotFoundError:
        raise ValueError("it has no config.json") from None
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise ValueError(f"its config.json can't be read ({error})") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise ValueError("its config.json names no model_type")
    if not any(folder.glob("model*.safetensors")):
        raise ValueError("it has no model*.safetensors")
    return config


def _cached(repo_id: str) -> Path | None:
    """Give the snapshot folder of a cached model; the network is never asked."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo_id, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError, OSError):  # OSError: a name too long for a folder
        return None
