"""`python -m tools.release_check.owner NAME`: put the owner of the repository where OWNER stands, once and for all.

`make release OWNER=NAME` runs it before it checks the release. Files that are about the placeholder itself keep it.
"""

import re
import subprocess
import sys
from pathlib import Path

from tools.release_check.address import PLACEHOLDER, ROOT

_NAME = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}")  # as GitHub allows it
_ABOUT_IT = ("tests/", "tools/", "CONTRIBUTING.md")


def fill(text: str, owner: str) -> str:
    """Return a text with the owner. Raise ValueError if this is no name of a user or an organisation on GitHub."""
    if not _NAME.fullmatch(owner) or owner == PLACEHOLDER.partition("/")[0]:
        raise ValueError(f"OWNER must be the name of a user or an organisation on GitHub, not '{owner}'")
    return text.replace(PLACEHOLDER, PLACEHOLDER.replace("OWNER", owner))


def places(root: Path) -> list[Path]:
    """Return the files of the repository in which the placeholder stands for its owner."""
    command = ["git", "grep", "--files-with-matches", "--fixed-strings", PLACEHOLDER]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # 1: there is none
    names = [name for name in found.stdout.splitlines() if not name.startswith(_ABOUT_IT)]
    return [root / name for name in names if (root / name).suffix in (".md", ".toml", ".rb")]


def main() -> None:
    """Fill the owner in, and name the files."""
    try:
        fill("", owner := sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))
    for file in places(ROOT):
        file.write_text(fill(file.read_text(), owner))
        print(f"{file.relative_to(ROOT)}: {owner}")


if __name__ == "__main__":
    main()
