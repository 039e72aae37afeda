"""GGUF models on this machine: in files, in folders, and in the stores of Ollama and LM Studio.

Ollama's store: `manifests/HOST/OWNER/NAME/TAG` lists layers, which are files in `blobs`. LM Studio's: files in
`OWNER/NAME`.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from orchard import folder_files
from orchard.core.errors import OrchardError

_PART = re.compile(r"(.*)-(\d{5})-of-\d{5}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LIBRARY = ("registry.ollama.ai", "library")
_KIND = "application/vnd.ollama.image."
_DEFAULT_TAG = ":latest"  # Ollama's users leave it out
_MOST_FILES = 10_000
_STORES = ("ollama", "lmstudio")


class StoredModel(Struct, frozen=True, kw_only=True):
    """A model in GGUF: all its files, and what Ollama's store says besides.

    `name`: what it is called once it is imported; `refusal`: why it can't be imported.
    """

    name: str
    files: list[Path]
    size: int
    system: str = ""
    parameters: dict[str, Any] = {}
    license: str = ""
    refusal: str = ""


class _Layer(Struct):
    mediaType: str
    digest: str


class _Manifest(Struct):
    layers: list[_Layer]


def find_models(source: str) -> list[StoredModel]:
    """Return the models in a file, in a folder, or in `ollama` or `lmstudio`. Raise OrchardError if there are none."""
    path = Path(source).expanduser()
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise OrchardError("invalid_request", f"{source} is no .gguf file")
        parts = _PART.fullmatch(path.stem)
        return [_make_model(parts[1] if parts else path.stem, _parts_of(path))]
    if path.is_dir():
        found = list(_models_in(path))
    elif source == "ollama":
        found = [model for folder in ollama_folders() for model in _ollama_models(folder)]
    elif source == "lmstudio":
        found = [model for folder in lmstudio_folders() for model in _models_in(folder)]
    else:
        raise OrchardError("invalid_request", f"there is no {source}: name a file, a folder, ollama or lmstudio")
    if not found:
        folders = {"ollama": ollama_folders, "lmstudio": lmstudio_folders}.get("" if path.is_dir() else source)
        where = ", ".join(map(str, folders())) if folders else source
        raise OrchardError("model_not_found", f"there are no GGUF models in {where}")
    return found


def find_ollama_model(name: str) -> StoredModel | None:
    """Return the model that Ollama has under a name; None if it has none."""
    stored = (model for folder in ollama_folders() for model in _ollama_models(folder))
    return next((model for model in stored if model.name == name.removesuffix(_DEFAULT_TAG)), None)


def all_stores() -> list[tuple[str, list[StoredModel]]]:
    """Return the models of each store on this machine."""
    stores = []
    for name in _STORES:
        try:
            stores.append((name, find_models(name)))
        except OrchardError:
            continue
    return stores


def ollama_folders() -> list[Path]:
    """Return the folders where Ollama's models may be: OLLAMA_MODELS, else the user's and the system's."""
    if own := os.environ.get("OLLAMA_MODELS"):
        return [Path(own).expanduser()]
    return [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def lmstudio_folders() -> list[Path]:
    """Return the folders where LM Studio's models may be: that of its settings, and those of its versions."""
    home = Path.home()
    chosen = []
    try:
        settings = folder_files.read_json(home / ".lmstudio/settings.json")
        if isinstance(settings, dict) and isinstance(named := settings.get("downloadsFolder"), str):
            chosen.append(Path(named))
    except (OSError, ValueError):
        pass
    return list(dict.fromkeys([*chosen, home / ".lmstudio/models", home / ".cache/lm-studio/models"]))


def _models_in(folder: Path) -> Iterator[StoredModel]:
    """Yield the models in a folder, and in those within it down to `OWNER/NAME`."""
    for file in sorted(_gguf_files(folder, depth=2)):
        parts = _PART.fullmatch(file.stem)
        if parts and int(parts[2]) != 1:
            continue  # it belongs to the first part
        yield _make_model(parts[1] if parts else file.stem, _parts_of(file))


def _gguf_files(folder: Path, depth: int) -> Iterator[Path]:
    try:
        names = folder_files.list_first_names(folder, _MOST_FILES)
    except OSError:
        return
    for name in names:
        path = folder / name
        if path.suffix.lower() == ".gguf" and path.is_file():
            yield path
        elif depth and path.is_dir() and not name.startswith("."):
            yield from _gguf_files(path, depth - 1)


def _parts_of(file: Path) -> list[Path]:
    """Return all parts of a model that are here; the importer says which are missing."""
    parts = _PART.fullmatch(file.stem)
    if not parts:
        return [file]
    names = re.compile(re.escape(parts[1]) + r"-\d{5}-of-" + file.stem[-5:] + r"\.gguf")
    return sorted(one for one in file.parent.iterdir() if names.fullmatch(one.name)) or [file]


def _make_model(name: str, files: list[Path], **more: Any) -> StoredModel:
    refusal = ""
    if "mmproj" in name.lower():
        refusal = "it is a vision projector, which can't be imported"
    elif not name or name.startswith("."):  # its folder would be hidden, or be that of all models
        refusal = f"a model can't be named after its file, {files[0].name}: rename it"
    size = sum(file.stat().st_size for file in files)
    known: dict[str, Any] = {"name": name, "files": files, "size": size, "refusal": refusal}
    return StoredModel(**known | more)


def _ollama_models(root: Path) -> Iterator[StoredModel]:
    for file in sorted(_manifest_files(root / "manifests")):
        host, owner, name, tag = file.relative_to(root / "manifests").parts
        short = name if (host, owner) == _LIBRARY else f"{owner}/{name}"
        try:
            manifest = msgspec.json.decode(folder_files.read_file(file), type=_Manifest)
            yield _ollama_model(root, f"{short}:{tag}".removesuffix(_DEFAULT_TAG), manifest.layers)
        except (OSError, ValueError):  # being downloaded, or no manifest
            continue


def _manifest_files(root: Path) -> Iterator[Path]:
    """Yield the files at `HOST/OWNER/NAME/TAG`."""
    folders: Iterable[Path] = [root]
    for _ in range(4):
        try:
            folders = [
                folder / name
                for folder in folders
                if folder.is_dir()
                for name in folder_files.list_first_names(folder, _MOST_FILES)
                if not name.startswith(".")
            ]
        except OSError:
            return
    yield from (file for file in folders if file.is_file())


def _ollama_model(root: Path, name: str, layers: list[_Layer]) -> StoredModel:
    """Return a model of a manifest. Raise OSError or ValueError if a file is missing or broken."""
    files: dict[str, list[Path]] = {}
    for layer in layers:
        if not _DIGEST.fullmatch(layer.digest):
            raise ValueError("not a digest")
        kind = layer.mediaType.removeprefix(_KIND)
        files.setdefault(kind, []).append(root / "blobs" / layer.digest.replace(":", "-"))
    if not files.get("model"):
        raise ValueError("no model")

    def texts_of(kind: str) -> str:
        return "\n\n".join(folder_files.read_file(file).decode("utf-8", "replace") for file in files.get(kind, ()))

    parameters = msgspec.json.decode(texts_of("params") or "{}", type=dict[str, Any])
    refusal = ""
    if "adapter" in files:
        refusal = "it has an adapter, which can't be imported"
    elif "projector" in files:
        refusal = "it has a vision projector, which can't be imported"
    more = {"system": texts_of("system"), "parameters": parameters, "license": texts_of("license")}
    return _make_model(name, files["model"], refusal=refusal, **more)
