"""`orchard setup`: make, repair and remove the separate environments of workers."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from orchard.core.errors import OrchardError
from orchard.environments.environment import Environment

_LOCK = ".lock"


def set_up_environment(environment: Environment) -> None:
    """Make an environment, or remake it if anything in it is missing. Raise OrchardError if that fails."""
    folder = environment.folder
    with _lock_environments(environment.root):
        if _is_complete(environment, folder):
            print(f"The environment for {environment.name} is complete: {folder}")
            return
        part = folder.with_name(folder.name + ".part")
        _delete_folder(part)
        print(f"Installing {len(environment.packages)} packages for {environment.name} into {folder}", flush=True)
        try:
            _install_packages(environment, part)
            _delete_folder(folder)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    print(f"The environment for {environment.name} is ready.")


def remove_environment(environment: Environment) -> None:
    """Delete an environment, and those that other versions of Orchard or Python have made under the same name."""
    with _lock_environments(environment.root):
        found = sorted(environment.root.glob(f"{environment.name}-*"))
        for folder in found:
            _delete_folder(folder)
    print(f"The environment for {environment.name} is removed." if found else "There is nothing to remove.")


def _install_packages(environment: Environment, folder: Path) -> None:
    """Install its packages, and show the installer's own progress."""
    python = str(folder / "bin" / "python")
    # Without dependencies: the list is complete, and omits dependencies that its packages declare but don't need.
    options = ["install", "--no-deps", "--only-binary", ":all:", "-r", str(environment.packages_file)]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    if uv := shutil.which("uv", path=search):
        _run_installer(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
        _run_installer(uv, "pip", options[0], "--python", python, *options[1:])
    else:
        _run_installer(sys.executable, "-m", "venv", str(folder))
        _run_installer(python, "-I", "-m", "pip", "--disable-pip-version-check", *options)
    if not _is_complete(environment, folder):
        raise OrchardError("model_failed", f"the installer left out packages of the environment {environment.name}")


def _run_installer(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        message = f"the environment can't be made: '{Path(command[0]).name}' failed; see its message above"
        raise OrchardError("model_failed", message) from error


def _is_complete(environment: Environment, folder: Path) -> bool:
    """Return whether the interpreter and every file of every package is there, in the right versions."""
    if not (folder / "bin" / "python").exists():  # the target of the link may have been removed
        return False
    library = folder / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    found = {
        re.sub(r"[-_.]+", "-", one.name.lower()): one.version
        for one in distributions(path=[str(library)])
        if all(file.suffix == ".pyc" or Path(file.locate()).exists() for file in one.files or ())
    }
    return found.items() >= environment.packages.items()


def _delete_folder(folder: Path) -> None:
    """Rename a folder, then delete it, so that an interruption never leaves part of it under its name."""
    removed = folder.with_name(folder.name + ".removed")
    shutil.rmtree(removed, ignore_errors=True)
    if folder.exists():
        folder.rename(removed)
        shutil.rmtree(removed)


@contextlib.contextmanager
def _lock_environments(root: Path) -> Iterator[None]:
    """Hold the lock of all environments. Raise OrchardError if another process holds it, or the disk fails."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise OrchardError("unavailable", "another 'orchard setup' is running; wait for its end") from None
    except OSError as error:
        raise OrchardError("unavailable", f"the environment can't be changed: {error}") from error
