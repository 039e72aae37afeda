"""What the process that imports a GGUF file is told, and what it reports."""

from typing import Any

from msgspec import Struct


class ImportJob(Struct, frozen=True, kw_only=True):
    """A model to import: all its files, and the folder to write, which exists and is empty.

    `bits`: see `orchard import --bits`; `exact`: numbers in float32. The others come from Ollama.
    """

    files: list[str]
    folder: str
    bits: int | None = None
    exact: bool = False
    system: str = ""
    parameters: dict[str, Any] = {}
    license: str = ""


class ImportReport(Struct, omit_defaults=True):
    """The progress of an import, in bytes of its weights, or what it does after them; at the end, how it ended.

    `notes`: what the user should know; `failed`: the end of a sentence that begins with the file.
    """

    done: int = 0
    total: int = 0
    note: str = ""
    is_whole: bool = False
    notes: list[str] = []
    failed: str = ""
