"""`python -m tools.release_check.formula OWNER/REPOSITORY`: print the Homebrew formula of the release in dist/."""

import hashlib
import re
import sys
from pathlib import Path

from orchard import __version__

ROOT = Path(__file__).parents[2]
FORMULA = ROOT / "packaging" / "mlx-orchard.rb"


def formula(text: str, repository: str, version: str, sdist: bytes) -> str:
    """Return the formula with a release's repository, version and checksum. Raise ValueError if it lacks a place."""
    text, places = re.subn(r"(?<=github\.com/)[\w-]+/orchard\b", repository, text)
    text, versions = re.subn(r"v\d[\w.]*/mlx_orchard-\d[\w.]*(?=\.tar\.gz)", f"v{version}/mlx_orchard-{version}", text)
    text, sums = re.subn(r'(?<=sha256 ")[0-9a-f]{64}(?=")', hashlib.sha256(sdist).hexdigest(), text)
    if (places > 0, versions, sums) != (True, 1, 1):
        raise ValueError("this is not the formula")
    return text


if __name__ == "__main__":
    release = ROOT / "dist" / f"mlx_orchard-{__version__}.tar.gz"
    print(formula(FORMULA.read_text(), sys.argv[1], __version__, release.read_bytes()), end="")
