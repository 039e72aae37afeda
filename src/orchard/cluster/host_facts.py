"""What must be the same on all hosts of a model: the versions of some packages, and the model's files."""

import hashlib
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct, json

from orchard import __version__, folder_files

_PACKAGES = ("mlx", "mlx-lm")
# The files of a model that decide what ranks compute, and when answers end.
_WHOLE_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    folder_files.INDEX,
)
_MOST_NAMES = 4


class HostFacts(Struct, frozen=True):
    """The versions of packages on a host, and a digest of each of the model's files there.

    The digest of a file of weights covers only its size and its header. `problem`: why the files can't be read; empty:
    they can.
    """

    versions: dict[str, str]
    files: dict[str, str]
    problem: str = ""

    def find_differences(self, other: "HostFacts") -> list[str]:
        """Return what another host has that is different, each as a part of a sentence about that host."""
        found = [
            f"it has {name} {other.versions.get(name, 'of an unknown version')}, and this machine has {own}"
            for name, own in self.versions.items()
            if other.versions.get(name) != own
        ]
        if other.problem:
            return [*found, other.problem]
        names = sorted(self.files.keys() | other.files.keys())
        missing = [name for name in names if name not in other.files]
        further = [name for name in names if name not in self.files]
        changed = [name for name in names if name not in missing + further and self.files[name] != other.files[name]]
        for problem, concerned in (
            ("it has no {}", missing),
            ("it has {}, which this machine does not have", further),
            ("its {} is not that of this machine", changed),
        ):
            if concerned:
                shown = ", ".join(concerned[:_MOST_NAMES]) + (" and others" if concerned[_MOST_NAMES:] else "")
                found.append(problem.format(shown))
        return found


def read_facts(folder: str | None) -> HostFacts:
    """Read the versions here and the files of a model's folder, if there is one. Reads only the headers of weights."""
    versions = {"orchard": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    if folder is None:
        return HostFacts(versions, {})
    place = Path(folder).expanduser()
    try:
        return HostFacts(versions, _read_digests(place))
    except OSError as error:
        problem = f"the model's folder {place} can't be read there: {error.strerror or error}"
    except ValueError as error:
        problem = f"the model's files in {place} can't be read there: {error}"
    return HostFacts(versions, {}, problem)


def _read_digests(folder: Path) -> dict[str, str]:
    digests: dict[str, str] = {}
    for name in sorted(folder_files.list_names(folder)):
        if name in _WHOLE_FILES:
            digests[name] = _digest(folder_files.read_file(folder / name))
        elif name.endswith(".safetensors"):
            try:
                header = json.encode(folder_files.read_header(folder / name), order="sorted")
            except ValueError:
                raise ValueError(f"{name} is not in safetensors format") from None
            digests[name] = _digest(header, os.stat(folder / name).st_size.to_bytes(8, "big"))
    return digests


def _digest(*parts: bytes) -> str:
    known = hashlib.blake2b(digest_size=16)
    for part in parts:
        known.update(part)
    return known.hexdigest()
