"""`make release-check`: build the sdist and the wheel, inspect them, and try each in empty environments.

The files are in dist/ afterwards. The exit code is 1 if something is wrong.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from orchard import __version__
from tools.release_check.address import copy_with_address
from tools.release_check.archives import wrong_sdist, wrong_tag, wrong_wheel
from tools.release_check.trial import try_out

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"


def main() -> int:
    """Check everything; print what is wrong. Return the exit code."""
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--tag", help="the tag of the release, such as v0.1.0")
    parser.add_argument("--repository", help="check a copy with this repository's addresses, such as owner/orchard")
    given = parser.parse_args()
    tag, repository = given.tag, given.repository
    uv = Path(shutil.which("uv") or Path(sys.executable).parent / "uv")
    shutil.rmtree(DIST, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607
    tracked = set(filter(None, listed.stdout.split("\0")))
    with tempfile.TemporaryDirectory() as folder:
        root = copy_with_address(tracked, Path(folder), repository, tag) if tag and repository else ROOT
        subprocess.run([uv, "build", "--quiet", "--no-create-gitignore", "--out-dir", DIST, root], check=True)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    wrong = wrong_tag(tag, __version__, (ROOT / "CHANGELOG.md").read_text()) if tag else []
    wrong += wrong_sdist(sdist, tracked, __version__, released=bool(tag))
    wrong += wrong_wheel(wheel, tracked, __version__, released=bool(tag))
    for package in (wheel, sdist):
        print(f"{package.name}: {package.stat().st_size:,} bytes")
        for extra in (None, "all"):
            print(f"{package.name}: installing it {f'with {extra}' if extra else 'without extras'}", flush=True)
            wrong += try_out(uv, package, extra)
    print("\n".join(wrong) or "ready to be published")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
