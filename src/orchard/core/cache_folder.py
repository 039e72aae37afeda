"""The folder for files that Orchard can recreate."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ORCHARD_CACHE_DIR, else `orchard` in XDG_CACHE_HOME, which is ~/.cache by default."""
    if own := os.environ.get("ORCHARD_CACHE_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orchard"
