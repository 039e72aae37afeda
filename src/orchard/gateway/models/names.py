"""The names of models: checks, and suggestions for names that no model has."""

import difflib
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from orchard.core.errors import OrchardError

_MAX_SHOWN = 6
_MAX_CHARS = 200


def closest_names(name: str, names: Sequence[str]) -> list[str]:
    """Return the most similar names. Case and owners don't matter."""
    if len(name) > _MAX_CHARS:
        return []
    plain = {known: known.casefold() for known in names}
    last = {known: text.rpartition("/")[2] for known, text in plain.items()}
    asked = name.casefold()
    whole = difflib.get_close_matches(asked, set(plain.values()), n=3)
    part = difflib.get_close_matches(asked.rpartition("/")[2], set(last.values()), n=3)
    # The same name with another owner comes before one that is only similar.
    pairs = zip_longest(whole, part)
    found = [known for text, end in pairs for known in names if plain[known] == text or last[known] == end]
    return list(dict.fromkeys(found))[:_MAX_SHOWN]


def lenient_spellings(name: str) -> set[str]:
    """Return the names, in lower case, that clients of other servers may mean: `openai/NAME` and `NAME:latest`."""
    if len(name) > _MAX_CHARS:
        return set()
    plain = name.casefold()
    without = {plain, plain.removeprefix("openai/")}
    return without | {text.removesuffix(":latest") for text in without}


def unknown_name_message(name: str, names: Sequence[str]) -> str:
    """Return the message for an unknown model name, with the most similar names of this server."""
    if not (close := closest_names(name, names)):
        return f"no model '{name}' here; this server has {list_names(names) or 'none'}"
    return f"no model '{name}' here; the closest {'name is' if len(close) == 1 else 'names are'} {list_names(close)}"


def list_names(names: Sequence[str]) -> str:
    """Return a limited number of names as a part of a sentence."""
    shown = ", ".join(f"'{name}'" for name in names[:_MAX_SHOWN])
    return shown if len(names) <= _MAX_SHOWN else f"{shown} and {len(names) - _MAX_SHOWN} more"


def check_name(name: str) -> str:
    """Return a model's name. Raise OrchardError if no request could use it."""
    try:
        name.encode()  # JSON must be able to hold it
    except UnicodeEncodeError as error:
        raise OrchardError("model_not_found", f"{name!r} can't be the name of a model: {error}") from None
    if not name:
        raise OrchardError("invalid_request", "the name of a model must not be empty")
    return name


def check_adapter(model: str, name: str, folder: str) -> str:
    """Return the folder of an adapter. Raise OrchardError if it has no adapter in mlx-lm's format."""
    path = Path(folder).expanduser()
    for file in ("adapter_config.json", "adapters.safetensors"):
        if not (path / file).is_file():
            message = f"adapter '{name}' of model '{model}' can't be used: {path} has no {file}"
            raise OrchardError("model_not_found", message)
    return str(path)
