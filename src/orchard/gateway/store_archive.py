"""Conversations that have expired, as JSON files."""

import os
from pathlib import Path
from typing import Any

import msgspec


def write(folder: str, name: str, conversation: dict[str, Any]) -> None:
    """Write `name`.json, which only its owner may read; a file of that name is replaced. Raises OSError."""
    target = Path(folder) / f"{name}.json"
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = target.with_suffix(".tmp")
    file = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(conversation)))
    os.replace(unfinished, target)
