"""Where a model's files are: in a folder, or in the Hugging Face cache."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.demo import MODEL_PATH, VISION_MODEL_PATH, WHISPER_MODEL_PATH
from orchard.gateway.models import catalogue, gguf, hub_cache, subfolders
from orchard.gateway.models.names import closest_names, list_names

DEMO = "demo"
REAL_MODEL = "qwen3-4b"
"""The short name of what to take if the bundled model knows too little."""


class ModelSource(Struct, frozen=True):
    """A model's folder. If it has an id on the Hugging Face Hub (`repo`), its folder in the cache; None if unknown."""

    name: str
    folder: str | None = None
    repo: str | None = None
    revision: str | None = None


_FOLDERS = {DEMO: MODEL_PATH, "demo-vision": VISION_MODEL_PATH, "demo-whisper": WHISPER_MODEL_PATH}
BUNDLED = {name: ModelSource(name, str(folder)) for name, folder in _FOLDERS.items()}
"""The bundled models. Only the first one is listed; the others can be named."""


def source_of(name: str, revision: str | None = None) -> ModelSource:
    """Return the source of the model that a user names. Raise OrchardError (model_not_found, invalid_request)."""
    bundled = BUNDLED.get(name)
    folder = None if bundled else named_folder(name)
    if (bundled or folder) and revision:
        raise OrchardError("invalid_request", f"'{name}' is a folder: it has no revisions, so leave out 'revision'")
    if bundled:
        return bundled
    if folder:
        return ModelSource(folder.name, str(folder))
    root = gguf.imported_root()
    own = subfolders.find_subfolder(root, name) or subfolders.find_subfolder(root, name.removesuffix(":latest"))
    if own := own or gguf.find_imported(Path(os.path.expanduser(name))):
        return ModelSource(os.path.relpath(own, root), own)
    if gguf.is_gguf([name]):
        reason = gguf.GGUF if "/" not in name or os.path.exists(os.path.expanduser(name)) else "there is no such file"
        raise OrchardError("model_not_found", f"model '{name}' can't be served: {reason}")
    name = catalogue.find_repo(name) or name
    if hub_cache.is_repo_id(name) and ("/" in name or hub_cache.repo_folder(name)):
        return ModelSource(name, repo=name, revision=revision)
    close = closest_names(name, [short for model in catalogue.CATALOGUE for short in model.names])
    examples = f"such as {list_names(close)}; " if close else ""
    raise OrchardError(
        "model_not_found",
        f"no model '{name}': it is neither a bundled model ({list_names([*BUNDLED])}), nor a folder, nor the id of a "
        "model on the Hugging Face Hub, nor a short name for one "
        f"({examples}'orchard models' lists what is here, 'orchard search' what 'orchard pull' can fetch)",
    )


def deletable_folder(name: str) -> str | None:
    """Return the folder of an imported model, or of one in the local Hugging Face cache; None if there is neither.

    Other models are somebody else's to delete.
    """
    imported = subfolders.find_subfolder(gguf.imported_root(), name)
    if imported and not subfolders.holds_folders(imported):
        return imported
    return hub_cache.repo_folder(name)


def delete_folder(folder: str) -> None:
    """Delete the folder of a model, and that of its organisation if it was the last one there.

    Raise OrchardError if the system doesn't allow that.
    """
    try:
        shutil.rmtree(folder)
    except OSError as error:
        # A caller of the API must not learn where the folder is.
        raise OrchardError("internal", f"{os.path.basename(folder)} can't be deleted: {error.strerror}") from None
    parent = os.path.dirname(folder)
    if os.path.dirname(parent) == gguf.imported_root():
        with suppress(OSError):  # it holds other models
            os.rmdir(parent)


def further_names(path: str, source: ModelSource) -> tuple[str, ...]:
    """Return the names of a model besides the configured ones. They are only compared, never opened."""
    is_path = source.folder is not None and path not in BUNDLED
    return (source.name, path, *((Path(path).name, *path_spellings(path)) if is_path else ()))


def path_spellings(path: str) -> tuple[str, ...]:
    """Return the spellings of a folder's path: as configured, absolute, and with links followed."""
    full = Path(path).expanduser().absolute()
    return path.rstrip("/"), str(full), str(full.resolve())


def named_folder(name: str) -> Path | None:
    """Return the folder that a user names, with links followed; None if there is none."""
    try:
        folder = Path(name).expanduser()
        return folder.resolve() if name and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a path that is too long, the home of an unknown user, a null byte
        return None
