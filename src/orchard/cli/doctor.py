"""`orchard doctor`: check everything that Orchard needs, and say how to fix what is wrong."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import httpx
from packaging.requirements import Requirement
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard import __version__
from orchard.cli import machine
from orchard.cli.endpoint import first_key, http_options
from orchard.cli.machine import Finding
from orchard.cli.serve import server_url
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.environments.environment import Environment
from orchard.kinds import KINDS

_PACKAGES = ("mlx", "mlx-lm", "transformers", "fastapi", "uvicorn")
_BACKENDS = ("mlx-cpu", "mlx-cuda-12", "mlx-cuda-13")
ANSWER_SECONDS = 2.0
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def print_findings(settings: Settings, notes: Sequence[str] = ()) -> bool:
    """Print each finding as soon as it is made. Return False if one is a problem.

    `notes` are warnings about the settings.
    """
    console = Console()
    well = True
    for finding in _examine_all(settings, notes):
        well = well and finding.status != "problem"
        print_finding(console, finding)
    console.print("Orchard can run here." if well else "Orchard can't run here until the problems are solved.")
    return well


def print_finding(console: Console, finding: Finding) -> None:
    """Print what was checked, the result, and how to fix it."""
    row = Table.grid(padding=(0, 2))
    row.add_column(width=7, style=_COLOURS[finding.status])
    row.add_column(width=12)
    row.add_column(overflow="fold")
    row.add_row(finding.status, Text(finding.name), Text(finding.seen))
    if finding.advice:
        row.add_row("", "", Text(finding.advice, style="italic"))
    console.print(row)


def _examine_all(settings: Settings, notes: Sequence[str]) -> Iterator[Finding]:
    yield Finding("ok", "system", f"{platform.platform()}, Python {platform.python_version()}")
    if wrong := _wrong_packages():
        yield Finding("problem", "packages", "; ".join(wrong), "Reinstall Orchard.")
        return
    installed = {"orchard": __version__} | {name: version(name) for name in _PACKAGES}
    yield Finding("ok", "packages", ", ".join(f"{name} {found}" for name, found in installed.items()))
    yield from map(_check_extra, sorted({kind.backend.extra for kind in KINDS.values() if kind.backend.extra}))
    yield from _check_conflicts()
    probed = machine.probe_mlx()
    if isinstance(probed, Finding):
        yield probed
    else:
        yield from _check_mlx(probed)
        yield machine.check_memory(probed, settings.memory_limit)
        if sys.platform == "darwin" and probed["wired_bytes"]:
            yield machine.check_wired_limit(probed)
    yield from (Finding("warning", "setting", note) for note in notes)
    own = dict.fromkeys(kind.backend.environment for kind in KINDS.values() if kind.backend.environment)
    yield from map(_check_environment, own)
    yield from _check_models(settings, None if isinstance(probed, Finding) else probed)
    yield _check_address(settings.host, settings.port)


def _check_models(settings: Settings, probed: dict[str, Any] | None) -> Iterator[Finding]:
    """Check the bundled models, the others and the disk. `probed`: what is known of MLX's device."""
    from orchard.gateway.models import hub_cache
    from orchard.gateway.models.registry import Registry, resolve_model
    from orchard.gateway.models.sources import BUNDLED

    try:
        size = sum(resolve_model(name).size_bytes for name in BUNDLED)
    except OrchardError as error:
        yield Finding("problem", "bundled", error.message, "Reinstall Orchard: the bundled models belong to it.")
    else:
        yield Finding("ok", "bundled", f"the models {', '.join(BUNDLED)}: {decimal(size)}")
    root, repos = hub_cache.cache_root(), hub_cache.list_repos()
    advice = "'orchard models' lists those that can be served" if repos else "'orchard pull ID' downloads a model"
    yield Finding(
        "ok", "model cache", f"{len(repos) or 'no'} model{'' if len(repos) == 1 else 's'} in {root}; {advice}"
    )
    yield machine.check_disk(root)
    try:
        registry = Registry.from_settings(settings)
        found = registry.list_models()
    except OrchardError as error:
        yield Finding("problem", "models", error.message, "Correct the configuration, or download the model.")
    else:
        for name, reason in registry.refused.items():
            yield Finding("warning", "model", f"'{name}' is not served: {reason}")
        if probed:
            models = (entry for entry in found if entry.path and not entry.is_bundled)
            most = machine.models_budget(probed, settings.memory_limit)
            yield from machine.check_room(models, most, on_device=probed["backend"] == "cuda")


def _wrong_packages(extra: str = "") -> list[str]:
    """Return the packages that are missing or have a version that Orchard, or this extra, doesn't support."""
    wrong = []
    for needed in map(Requirement, requires("mlx-orchard") or ()):
        if needed.marker and not needed.marker.evaluate({"extra": extra}):
            continue
        found = _installed_version(needed.name)
        if found is None:
            wrong.append(f"{needed.name} is missing")
        elif not needed.specifier.contains(found, prereleases=True):
            wrong.append(f"{needed.name} {found} is here, and Orchard needs {needed.specifier}")
    return wrong


def _check_extra(extra: str) -> Finding:
    """Say whether the libraries of an extra are installed."""
    kinds = [name for name, kind in KINDS.items() if kind.backend.extra == extra]
    models = f"for models of {_list_kinds(kinds)}"
    if wrong := _wrong_packages(extra):
        remedy = KINDS[kinds[0]].backend.remedy
        return Finding(
            "warning", "extra", f"{extra}, {models}: {'; '.join(wrong)}", f"If you want to use such models: {remedy}."
        )
    return Finding("ok", "extra", f"{extra}, {models}")


def _list_kinds(names: list[str]) -> str:
    *others, last = names
    return f"the kinds {', '.join(others)} and {last}" if others else f"the kind {last}"


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _check_conflicts() -> Iterator[Finding]:
    found = [name for name in _BACKENDS if _installed_version(name)]
    if len(found) > 1:
        yield Finding(
            "problem",
            "MLX backend",
            f"{' and '.join(found)} contain the same file: Orchard uses the one that was installed last",
            "Uninstall all of them, then install the one you want again (README, 'CUDA on Linux').",
        )


def _check_mlx(seen: dict[str, Any]) -> Iterator[Finding]:
    memory = decimal(seen["memory_bytes"])
    yield Finding("ok", "MLX", f"computes on {seen['backend']}: {seen['device']}, {memory} of memory")
    if seen["ffmpeg"]:
        yield Finding("ok", "ffmpeg", seen["ffmpeg"])
    else:
        advice = "Install ffmpeg (macOS: brew install ffmpeg; Debian, Ubuntu: apt install ffmpeg)."
        lack = "ffmpeg is missing; without it, no videos can be read, and of audio only WAV, MP3 and FLAC"
        yield Finding("warning", "ffmpeg", lack, advice)
    if sys.platform == "darwin" and seen["backend"] == "cpu":
        yield Finding("warning", "Metal", "MLX finds no Metal device", "Use a Python made for Apple Silicon (arm64).")
    if sys.platform == "linux" and seen["backend"] == "cpu" and not shutil.which("g++"):
        advice = "Install g++ (Debian, Ubuntu: apt install g++). Without it, everything works, but more slowly."
        yield Finding("warning", "compiler", "g++ is missing; MLX's CPU backend needs it to fuse operations", advice)


def _check_environment(environment: Environment) -> Finding:
    """Say whether the environment of a kind's workers is installed."""
    models = (
        f"models of {_list_kinds([name for name, kind in KINDS.items() if kind.backend.environment is environment])}"
    )
    try:
        python = environment.command[0]
    except OrchardError:
        what = f"{environment.name} is not installed: {models} can't run"
        return Finding("warning", "environment", what, f"If you want to use such models: {environment.remedy}.")
    return Finding("ok", "environment", f"{environment.name}, for {models}: {python}")


def _check_address(host: str, port: int) -> Finding:
    from orchard.gateway.http.listen import bind_socket

    try:
        bind_socket(host, port).close()
    except OrchardError as error:
        if does := _describe_server(host, port):
            return Finding("ok", "address", f"an Orchard server answers at {host}:{port} and {does}")
        advice = "Stop the program that listens there, or choose another port, such as: orchard serve --port 8001."
        if "--port" not in error.message:
            advice = "Choose an address of this machine, such as: orchard serve --host 127.0.0.1."
        return Finding("problem", "address", error.message, advice)
    return Finding("ok", "address", f"{host}:{port} is free" if port else f"{host}; the system will choose a free port")


def _describe_server(host: str, port: int) -> str | None:
    """Return what the Orchard server at an address is doing; None if there is none."""
    options = http_options(server_url(host, port), first_key(os.environ.get("ORCHARD_API_KEY")))
    try:
        with httpx.Client(**options | {"timeout": ANSWER_SECONDS}) as client:
            if client.get("/").json()["name"] != "Orchard":
                return None
            models = client.get("/health").json().get("models")
    except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if models is None:
        return "needs an API key; set ORCHARD_API_KEY to see what it serves"
    return f"serves {', '.join(models) or 'no model'}"
