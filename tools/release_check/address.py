"""`python -m tools.release_check.address OWNER/REPOSITORY TAG`: put a release's URL into the pages that an index shows.

In README.md and pyproject.toml, OWNER/orchard becomes the repository, and README.md's links lead to its files at the
tag: an index shows that page, where relative links don't work.
"""

import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACEHOLDER = "OWNER/orchard"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def relative_links(text: str) -> list[str]:
    """Return where the links of a Markdown text lead that an index could not follow."""
    return [link[2] for link in _LINK.findall(text)]


def readme(text: str, repository: str, tag: str) -> str:
    """Return a page whose links are absolute."""

    def absolute(link: re.Match[str]) -> str:
        shown, words, path = link.groups()
        page = f"https://raw.githubusercontent.com/{repository}/{tag}" if shown else _page(repository, tag)
        return f"{shown}[{words}]({page}/{path})"

    return _LINK.sub(absolute, text).replace(PLACEHOLDER, repository)


def _page(repository: str, tag: str) -> str:
    return f"https://github.com/{repository}/blob/{tag}"


def write_address(root: Path, repository: str, tag: str) -> None:
    """Write both files in a folder."""
    page, project = root / "README.md", root / "pyproject.toml"
    page.write_text(readme(page.read_text(), repository, tag))
    project.write_text(project.read_text().replace(PLACEHOLDER, repository))


def copy_with_address(names: Iterable[str], folder: Path, repository: str, tag: str) -> Path:
    """Copy files of this repository into a folder, as a release has them. Return the folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    write_address(folder, repository, tag)
    return folder


if __name__ == "__main__":
    write_address(ROOT, *sys.argv[1:])
