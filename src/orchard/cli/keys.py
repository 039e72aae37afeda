"""The API keys of `orchard serve`."""

from collections.abc import Iterable
from pathlib import Path

import typer


def api_keys(given: Iterable[str], file: Path | None) -> tuple[str, ...]:
    """Give the keys of the flags (or of the environment; commas separate several) and those of a file.

    Raises typer.BadParameter where one can't be a key, and where the file can't be read or holds none; the message
    never holds a key.
    """
    keys = []
    for words in given:
        found = [key.strip() for key in words.split(",") if key.strip()]
        if not found:
            raise typer.BadParameter("an API key is empty.")
        keys += found
    for key in keys:
        _check(key, "an API key")
    if file:
        keys += _read(file)
    return tuple(dict.fromkeys(keys))


def first_key(given: str | None) -> str | None:
    """Give the first of the keys that commas separate; None where there is none."""
    return (given or "").split(",")[0].strip() or None


def _read(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise typer.BadParameter(f"the keys in {file} can't be read: {reason}.") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise typer.BadParameter(f"{file} holds no key: write one on each line.")
    for key in keys:
        _check(key, f"a key in {file}")
    return keys


def _check(key: str, what: str) -> None:
    """A key travels in a header."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise typer.BadParameter(f"{what} holds something else than printable ASCII characters without spaces.")
