"""`orchard doctor`: check everything that Orchard needs, and say how to fix what is wrong."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

import httpx
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard import __version__
from orchard.cli.endpoint import first_key, http_options
from orchard.cli.serve import url_of
from orchard.core.errors import OrchardError
from orchard.environments.environment import Environment
from orchard.kinds import KINDS

_PACKAGES = ("mlx", "mlx-lm", "transformers", "fastapi", "uvicorn")
_BACKENDS = ("mlx-cpu", "mlx-cuda-12", "mlx-cuda-13")
_PROBE_SECONDS = 120
ANSWER_SECONDS = 2.0
_MLX_NEEDS = "MLX needs macOS 14 or newer and a Python for arm64; on Linux, its CUDA backend needs NVIDIA's driver."
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


class Finding(NamedTuple):
    """What was checked, the result and, if something is wrong, how to fix it."""

    status: Literal["ok", "warning", "problem"]
    name: str
    seen: str
    advice: str = ""


def doctor(host: str, port: int) -> bool:
    """Print each finding as soon as it is made. Return False if one is a problem."""
    console = Console()
    well = True
    for finding in _examine(host, port):
        well = well and finding.status != "problem"
        row = Table.grid(padding=(0, 2))
        row.add_column(width=7, style=_COLOURS[finding.status])
        row.add_column(width=12)
        row.add_column(overflow="fold")
        row.add_row(finding.status, finding.name, Text(finding.seen))
        if finding.advice:
            row.add_row("", "", Text(finding.advice, style="italic"))
        console.print(row)
    console.print("Orchard can run here." if well else "Orchard can't run here until the problems are solved.")
    return well


def _examine(host: str, port: int) -> Iterator[Finding]:
    yield Finding("ok", "system", f"{platform.platform()}, Python {platform.python_version()}")
    versions = {name: _version(name) for name in _PACKAGES}
    if missing := [name for name, found in versions.items() if found is None]:
        yield Finding("problem", "packages", f"missing: {', '.join(missing)}", "Reinstall Orchard.")
        return
    installed = {"orchard": __version__} | versions
    yield Finding("ok", "packages", ", ".join(f"{name} {found}" for name, found in installed.items()))
    yield from _conflicts()
    yield from _mlx()
    own = {kind.backend.environment for kind in KINDS.values() if kind.backend.environment}
    yield from map(_environment, own)
    from orchard.gateway.models import hub_cache
    from orchard.gateway.models.registry import resolve
    from orchard.gateway.models.sources import DEMO

    try:
        entry = resolve(DEMO)
    except OrchardError as error:
        yield Finding("problem", "demo model", error.message, "Reinstall Orchard: the demo model belongs to it.")
    else:
        yield Finding("ok", "demo model", f"{decimal(entry.size_bytes)} in {entry.path}")
    root, repos = hub_cache.root(), hub_cache.repos()
    advice = "'orchard models' lists those that can be served" if repos else "'orchard pull ID' downloads a model"
    yield Finding("ok", "model cache", f"{len(repos) or 'none yet'} in {root}; {advice}")
    yield _address(host, port)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _conflicts() -> Iterator[Finding]:
    found = [name for name in _BACKENDS if _version(name)]
    if len(found) > 1:
        yield Finding(
            "problem",
            "MLX backend",
            f"{' and '.join(found)} contain the same file: Orchard uses the one that was installed last",
            "Uninstall all of them, then install the one you want again (README, 'CUDA on Linux').",
        )


def _mlx() -> Iterator[Finding]:
    command = [sys.executable, "-m", "orchard.worker.probe"]  # MLX may end its process
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True)
    except subprocess.TimeoutExpired:
        yield Finding("problem", "MLX", f"MLX computed nothing within {_PROBE_SECONDS} s", _MLX_NEEDS)
        return
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().rpartition("\n")[2] or f"its process ended with {error.returncode}"
        yield Finding("problem", "MLX", f"MLX doesn't work: {said}", _MLX_NEEDS)
        return
    seen = json.loads(done.stdout)
    memory = decimal(seen["memory_bytes"])
    yield Finding("ok", "MLX", f"computes on {seen['backend']}: {seen['device']}, {memory} of memory")
    if seen["ffmpeg"]:
        yield Finding("ok", "ffmpeg", seen["ffmpeg"])
    else:
        advice = "Install ffmpeg (macOS: brew install ffmpeg; Debian, Ubuntu: apt install ffmpeg)."
        yield Finding("warning", "ffmpeg", "ffmpeg is missing; WAV, MP3 and FLAC audio can be read without it", advice)
    if sys.platform == "darwin" and seen["backend"] == "cpu":
        yield Finding("warning", "Metal", "MLX finds no Metal device", "Use a Python made for Apple Silicon (arm64).")
    if sys.platform == "linux" and seen["backend"] == "cpu" and not shutil.which("g++"):
        advice = "Install g++. Without it everything works, but more slowly."
        yield Finding("warning", "compiler", "g++ is missing; MLX's CPU backend fuses operations with it", advice)


def _environment(environment: Environment) -> Finding:
    """Say whether the environment of a kind's workers is there."""
    try:
        python = environment.command[0]
    except OrchardError as error:
        what = f"models of {environment.name} can't run: {error.message}"
        return Finding("warning", "environment", what, "Do that if you want to use such models.")
    return Finding("ok", "environment", f"for models of {environment.name}: {python}")


def _address(host: str, port: int) -> Finding:
    from orchard.gateway.http.server import bind

    try:
        bind(host, port).close()
    except OrchardError as error:
        if does := _orchard(host, port):
            return Finding("ok", "address", f"an Orchard server answers at {host}:{port} and {does}")
        advice = "Stop the program that listens there, or choose another port: orchard serve --port 8001."
        return Finding("problem", "address", error.message, advice)
    return Finding("ok", "address", f"{host}:{port} is free")


def _orchard(host: str, port: int) -> str | None:
    """Return what the Orchard server at an address does; None if there is no such server."""
    options = http_options(url_of(host, port), first_key(os.environ.get("ORCHARD_API_KEY")))
    try:
        with httpx.Client(**options | {"timeout": ANSWER_SECONDS}) as client:
            if client.get("/").json()["name"] != "Orchard":
                return None
            models = client.get("/health").json().get("models")
    except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if models is None:
        return "asks for an API key (ORCHARD_API_KEY) before it tells what it serves"
    return f"serves {', '.join(models) or 'no model'}"
