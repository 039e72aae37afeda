"""Environments small enough for a test: what is installed here, as wheels in a folder."""

import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from orchard.environments.environment import Environment

_NOT_IN_WHEELS = {"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"}


def toy_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Return an environment with what every worker imports, installed without a network. Its cache is in `folder`."""
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(folder / "cache"))
    wheels = folder / "wheels"
    wheels.mkdir()
    for tool in ("UV", "PIP"):
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(folder / "uv"))
    _write_picky(wheels)
    pinned = ["picky==1.0", *(f"{name}=={_repack(name, wheels)}" for name in ("msgspec", "psutil"))]
    (folder / f"toy-{sys.platform}.txt").write_text("# What the toy needs.\n" + "\n".join(pinned) + "\n")
    return Environment("toy", folder)


def site_packages(environment: Environment) -> Path:
    (found,) = environment.folder.glob("lib/python*/site-packages")
    return found


def _write_picky(folder: Path) -> None:
    """Write the wheel of a package that asks for another, which is nowhere."""
    info = "picky-1.0.dist-info"
    files = {
        "picky.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: picky\nVersion: 1.0\nRequires-Dist: nowhere>=1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{info}/RECORD"
    with zipfile.ZipFile(folder / "picky-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in (files | {record: "".join(f"{name},,\n" for name in (*files, record))}).items():
            wheel.writestr(name, text)


def _repack(name: str, folder: Path) -> str:
    """Write the wheel that an installed package came from; return its version."""
    found = distribution(name)
    tag = (found.read_text("WHEEL") or "").split("Tag: ")[1].split()[0]
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as wheel:
        for file in found.files or ():
            if file.name not in _NOT_IN_WHEELS and file.suffix != ".pyc" and ".." not in file.parts:
                wheel.write(str(file.locate()), str(file))
    return found.version
