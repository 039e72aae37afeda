"""The owner of the repository is filled in at all places by one command."""

import subprocess
from pathlib import Path

import pytest
from tools.release_check.address import ROOT
from tools.release_check.owner import fill, places


def test_the_places_are_those_that_users_read() -> None:
    names = {str(file.relative_to(ROOT)) for file in places(ROOT)}
    assert names in (
        {"README.md", "pyproject.toml", "packaging/mlx-orchard.rb"},
        set(),
    )  # before, and after it was filled


def test_a_page_that_is_added_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    texts = {"docs/new.md": "github.com/OWNER/orchard", "docs/other.md": "its OWNER", "code.py": "OWNER/orchard"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for command in (["git", "init", "--quiet"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    assert places(tmp_path) == [tmp_path / "docs" / "new.md"]


def test_the_owner_takes_the_place() -> None:
    assert fill("brew install OWNER/orchard/mlx-orchard; OWNER", "some-one") == (
        "brew install some-one/orchard/mlx-orchard; OWNER"
    )


@pytest.mark.parametrize("name", ["", "OWNER", "a b", "-a", "a/b", "a" * 40])
def test_what_is_no_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="must be the name of a user"):
        fill("", name)
