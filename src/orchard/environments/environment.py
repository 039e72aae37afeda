"""Where an environment is, and what belongs in it. `orchard setup` makes it (`cli/setup.py`)."""

import hashlib
import sys
from pathlib import Path

from msgspec import Struct

from orchard.core.cache_folder import cache_folder
from orchard.core.errors import OrchardError

_PACKAGE = Path(__file__).parents[1]


class Environment(Struct, frozen=True):
    """A separate Python environment of a kind's workers, with its own libraries.

    `name` is what `orchard setup` calls it. In the folder `lists`, the file `<name>-<sys.platform>.txt` pins every
    package that it contains.
    """

    name: str
    lists: Path = Path(__file__).parent

    @property
    def packages_file(self) -> Path:
        """The list of its packages for this platform. Raise OrchardError if there is none."""
        file = self.lists / f"{self.name}-{sys.platform}.txt"
        if not file.exists():
            message = f"there is no environment for {self.name} on {sys.platform}; use macOS or Linux"
            raise OrchardError("model_failed", message)
        return file

    @property
    def packages(self) -> dict[str, str]:
        """The version of each package. Raise OrchardError if there is no list for this platform."""
        lines = self.packages_file.read_text().splitlines()
        return dict(line.split("==") for line in lines if line and not line.startswith("#"))

    @property
    def folder(self) -> Path:
        """Its folder. Another list or Python version gives another folder. Raise OrchardError if there is no list."""
        contents = f"{self.packages_file.read_text()}{sys.version_info[:2]}"
        return self.root / f"{self.name}-{hashlib.sha256(contents.encode()).hexdigest()[:12]}"

    @property
    def root(self) -> Path:
        """The folder of all environments."""
        return cache_folder() / "environments"

    @property
    def command(self) -> list[str]:
        """The command that starts a worker in it. Raise OrchardError if it has not been made.

        `-I` ignores PYTHONPATH and the user's site-packages.
        """
        python = self.folder / "bin" / "python"
        if not python.exists():
            raise OrchardError("model_failed", f"its environment is missing: {self.remedy}")
        return [str(python), "-I", str(_PACKAGE / "worker" / "isolated.py")]

    @property
    def remedy(self) -> str:
        """The command that makes or repairs it."""
        return f"run 'orchard setup {self.name}'"


IMAGES = Environment("images")
