"""What `make test` leaves out is what it names, not other folders of the same name."""

from pathlib import Path

import pytest
from _pytest.pathlib import fnmatch_ex

_OTHERS = {"browser", "clients", "images", "models"}  # other targets of make run these folders


def test_all_tests_are_collected_but_those_of_other_targets(pytestconfig: pytest.Config) -> None:
    patterns = pytestconfig.getini("norecursedirs")
    root = Path(__file__).parent
    folders = {folder for file in root.rglob("test_*.py") for folder in file.parents if folder.is_relative_to(root)}
    left = {folder.relative_to(root) for folder in folders if any(fnmatch_ex(each, folder) for each in patterns)}
    left = {folder for folder in left if left.isdisjoint(folder.parents)}  # without those of packages that clients need
    assert left == {Path(name) for name in _OTHERS}
