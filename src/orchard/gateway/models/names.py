"""The names that clients may have for models, and what is said of names that no model has."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from orchard.core.errors import OrchardError

_MAX_SHOWN = 6
_MAX_CHARS = 200
_NO_RANK = 99


def closest(name: str, names: Sequence[str]) -> list[str]:
    """Give the names most like one, whatever their capitals and whoever's they are."""
    if len(name) > _MAX_CHARS:
        return []
    plain = {known: known.casefold() for known in names}
    last = {known: text.rpartition("/")[2] for known, text in plain.items()}
    asked = name.casefold()
    whole = difflib.get_close_matches(asked, set(plain.values()), n=3)
    part = difflib.get_close_matches(asked.rpartition("/")[2], set(last.values()), n=3)
    # Whoever has the same name but for its owner's comes before one that is merely like it.
    ranks = {known: min(_rank(plain[known], whole), _rank(last[known], part)) for known in plain}
    return sorted((known for known in plain if ranks[known] < _NO_RANK), key=ranks.__getitem__)[:_MAX_SHOWN]


def unknown(name: str, names: Sequence[str]) -> str:
    """Say that no model has a name, and which of those that are here are most like it."""
    if not (close := closest(name, names)):
        return f"no model '{name}' here; this server has {listed(names) or 'none'}"
    return f"no model '{name}' here; the closest {'name is' if len(close) == 1 else 'names are'} {listed(close)}"


def _rank(name: str, matches: Sequence[str]) -> int:
    return matches.index(name) if name in matches else _NO_RANK


def listed(names: Sequence[str]) -> str:
    """Give names as a part of a sentence, not too many of them."""
    shown = ", ".join(f"'{name}'" for name in names[:_MAX_SHOWN])
    return shown if len(names) <= _MAX_SHOWN else f"{shown} and {len(names) - _MAX_SHOWN} more"


def spellings(path: str) -> tuple[str, ...]:
    """Return the ways to write a folder's path: as it was configured, in full, and with links followed."""
    full = Path(path).expanduser().absolute()
    return path.rstrip("/"), str(full), str(full.resolve())


def folder_at(name: str) -> Path | None:
    """Return the folder that a user's text means, with links followed; None where there is none."""
    try:
        folder = Path(name).expanduser()
        return folder.resolve() if name and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, a home of nobody, a null byte
        return None


def checked_name(name: str) -> str:
    """Return a model's name. Raises OrchardError where no request can ask for it."""
    try:
        name.encode()  # it must fit into JSON
    except UnicodeEncodeError as error:
        raise OrchardError("model_not_found", f"{name!r} can't be the name of a model: {error}") from None
    if not name:
        raise OrchardError("invalid_request", "the name of a model must not be empty")
    return name


def checked_adapter(model: str, name: str, folder: str) -> str:
    """Return the folder of an adapter. Raises OrchardError where there is none in mlx-lm's format."""
    path = Path(folder).expanduser()
    for file in ("adapter_config.json", "adapters.safetensors"):
        if not (path / file).is_file():
            message = f"adapter '{name}' of model '{model}' can't be used: {path} has no {file}"
            raise OrchardError("model_not_found", message)
    return str(path)
