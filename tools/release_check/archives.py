"""Check a wheel and an sdist: the repository's files, correct metadata, and no excess size."""

import tarfile
import zipfile
from collections.abc import Collection
from pathlib import Path

from packaging.errors import ExceptionGroup
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from tools.release_check.address import PLACEHOLDER, relative_links

MOST_BYTES = 27 * 10**6  # of which the bundled models and the detector of speech take 23
NAME = "mlx-orchard"
EXTRAS = {"all", "audio", "embeddings", "gguf", "vision"}
_SOURCE = "src/"
_COMMAND = "[console_scripts]\norchard = orchard.cli:main"


def wrong_wheel(file: Path, tracked: Collection[str], version: str, *, released: bool = False) -> list[str]:
    """Say what is wrong with a wheel. `tracked` are the repository's files, by their paths.

    `released`: it goes to an index, so that it must say where its repository is.
    """
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        inside = f"mlx_orchard-{version}.dist-info/"
        package = {name for name in names if not name.startswith(inside)}
        wanted = {name.removeprefix(_SOURCE) for name in tracked if name.startswith(_SOURCE)}
        wrong = _differences(package, wanted)
        for name in ("METADATA", "entry_points.txt", "licenses/LICENSE"):
            if inside + name not in names:
                return [*wrong, f"{inside}{name} is missing"]
        commands = archive.read(f"{inside}entry_points.txt").decode().strip()
        if commands != _COMMAND:
            wrong.append(f"its commands are {commands!r}")
        wrong += wrong_metadata(archive.read(f"{inside}METADATA"), version, released=released)
    return [f"{file.name}: {why}" for why in (*wrong, *_wrong_size(file))]


def wrong_sdist(file: Path, tracked: Collection[str], version: str, *, released: bool = False) -> list[str]:
    """Say what is wrong with an sdist, as `wrong_wheel` does."""
    folder = f"mlx_orchard-{version}/"
    with tarfile.open(file) as archive:
        names = {member.name.removeprefix(folder) for member in archive if not member.isdir()}
        wrong = _differences(names - {"PKG-INFO"}, set(tracked))
        told = archive.extractfile(f"{folder}PKG-INFO") if "PKG-INFO" in names else None
        wrong += wrong_metadata(told.read(), version, released=released) if told else ["PKG-INFO is missing"]
    return [f"{file.name}: {why}" for why in (*wrong, *_wrong_size(file))]


def wrong_metadata(text: bytes, version: str, *, released: bool = False) -> list[str]:
    """Say what is wrong with the metadata of a distribution, by the rules of an index and by ours."""
    try:
        found = Metadata.from_email(text)
    except ExceptionGroup as group:
        return [f"its metadata is wrong: {error}" for error in group.exceptions]
    wrong = []
    seen = {
        "name": (found.name, NAME),
        "version": (str(found.version), version),
        "license": (found.license_expression, "Apache-2.0 AND MIT AND BSD-3-Clause"),
        "extras": (set(found.provides_extra or ()), EXTRAS),
        "type of its description": ((found.description_content_type or "").partition(";")[0], "text/markdown"),
    }
    wrong += [f"its {name} is {is_!r}, not {wanted!r}" for name, (is_, wanted) in seen.items() if is_ != wanted]
    wrong += [f"its {name} is missing" for name in ("summary", "description") if not getattr(found, name)]
    wrong += [f"an index refuses requirements with a URL: {one}" for one in found.requires_dist or () if one.url]
    if not found.requires_python:
        wrong.append("it doesn't say which Python it needs")
    return wrong + _without_bound(found.requires_dist or ()) + (_without_address(text) if released else [])


def _without_address(metadata: bytes) -> list[str]:
    text = metadata.decode()
    wrong = [f"its description links to {path}, which an index doesn't have" for path in relative_links(text)]
    return wrong + ([f"it names {PLACEHOLDER} as its repository"] if PLACEHOLDER in text else [])


def wrong_tag(tag: str, version: str, changelog: str) -> list[str]:
    """Say what is wrong with the tag of a release: it must be that of the version, and the changelog must have it."""
    wrong = [] if tag == f"v{version}" else [f"the tag is {tag}, and the version {version}"]
    if f"\n## [{version}]" not in changelog:
        wrong.append(f"CHANGELOG.md has no section [{version}]")
    return wrong


def _without_bound(needed: Collection[Requirement]) -> list[str]:
    return [f"it takes every version of {one.name}" for one in needed if one.name != NAME and not one.specifier]


def _differences(found: Collection[str], wanted: Collection[str]) -> list[str]:
    lacks = [f"{name} is missing" for name in sorted(set(wanted) - set(found))]
    return lacks + [f"{name} is not in the repository" for name in sorted(set(found) - set(wanted))]


def _wrong_size(file: Path) -> list[str]:
    size = file.stat().st_size
    return [f"it has {size:,} bytes; {MOST_BYTES:,} are allowed"] if size > MOST_BYTES else []
