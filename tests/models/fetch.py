"""Converts the models of the installed packages, and fetches Debian's voices: `make test-models` runs it once.

With names, such as `smollm2`, it converts these models only, and fetches no voices.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchard.gguf_import.process import run_job
from orchard.gguf_job import ImportJob
from tests.models import ctranslate2_model, sources


def main() -> None:
    """Write what is not there yet."""
    models: dict[str, tuple[list[Path], Callable[[Path, Path], None]]] = {
        "smollm2": (sources.SMOLLM2, _import_exactly),
        "gemma3": (sources.GEMMA3, _import_exactly),
        "whisper-base": (sources.WHISPER_BASE, partial(_convert_whisper, sources.WHISPER_BASE[0])),
        "whisper-tiny.en": (sources.WHISPER_TINY, partial(_convert_whisper, sources.WHISPER_TINY[0])),
    }
    names = sys.argv[1:]
    for name, (parts, convert) in models.items():
        if name in (names or models) and not (sources.ROOT / name).exists():
            with tempfile.TemporaryDirectory(dir=sources.ROOT) as folder:
                convert(sources.join(parts, Path(folder, "whole")), Path(folder, name))
                Path(folder, name).rename(sources.ROOT / name)
    if not names and not sources.VOICES.exists():
        _fetch_voices()


def _import_exactly(source: Path, folder: Path) -> None:
    """Import a GGUF file in float32. Gemma's has weights that would be quantised again: it gets no quantised ones."""
    folder.mkdir()
    bits = 16 if folder.name == "gemma3" else None
    job = ImportJob(files=[str(source)], folder=str(folder), bits=bits, exact=True)
    report = run_job(job, lambda report: None)
    assert report.is_whole, report.failed


def _convert_whisper(part: Path, source: Path, folder: Path) -> None:
    heads = json.loads((part.parent / "config.json").read_text())["alignment_heads"]
    ctranslate2_model.convert(source, folder, heads)


def _fetch_voices() -> None:
    """Fetch Debian's packages of voices, where there is apt-get and it knows them."""
    with tempfile.TemporaryDirectory(dir=sources.ROOT) as name:
        folder = Path(name)
        if not shutil.which("apt-get") or _run("apt-get", "download", *sources.DEBIAN, cwd=folder):
            print("Debian's packages of voices can't be had here: the tests with voices are skipped.")
            return
        for package in folder.glob("*.deb"):
            assert not _run("dpkg-deb", "--extract", package.name, "voices", cwd=folder)
        (folder / "voices").rename(sources.VOICES)


def _run(*command: str, cwd: Path) -> int:
    return subprocess.run(command, check=False, cwd=cwd).returncode


if __name__ == "__main__":
    main()
