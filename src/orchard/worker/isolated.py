"""Starts a worker in an environment of its own. The gateway runs this file by its path."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def add_orchard() -> None:
    """Make the package `orchard` importable, but no other package that is installed beside it."""
    package = Path(__file__).parents[1]
    spec = spec_from_file_location("orchard", package / "__init__.py", submodule_search_locations=[str(package)])
    assert spec
    assert spec.loader
    sys.modules["orchard"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["orchard"])


if __name__ == "__main__":
    add_orchard()
    from orchard.worker.main import main

    main()
