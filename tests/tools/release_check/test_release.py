"""The workflow that publishes, the Homebrew formula, and what the README says of both."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.release_check.address import copy_with_address, readme, relative_links
from tools.release_check.formula import FORMULA, formula

ROOT = Path(__file__).parents[3]


@pytest.fixture
def jobs() -> dict[str, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert found[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as true
    assert found["permissions"] == {"contents": "read"}
    jobs: dict[str, Any] = found["jobs"]
    return jobs


def test_only_what_was_tested_and_checked_is_published(jobs: dict[str, Any]) -> None:
    assert set(jobs["publish"]["needs"]) == {"test", "check"}
    assert jobs["release"]["needs"] == "publish"
    runs = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert runs["test"] == ["bash .ci/run"]
    assert runs["check"][:2] == [
        'python -m tools.release_check.address "$GITHUB_REPOSITORY" "$GITHUB_REF_NAME"',
        'make release-check TAG="$GITHUB_REF_NAME"',
    ]
    assert runs["publish"] == []
    kept = [step["with"] for step in jobs["check"]["steps"] if "upload-artifact" in step.get("uses", "")]
    (taken,) = [step["with"] for step in jobs["publish"]["steps"] if "download-artifact" in step["uses"]]
    assert {"name": "dist", "path": "dist/", "if-no-files-found": "error"} in kept
    assert taken == {"name": "dist", "path": "dist"}


def test_publishing_needs_no_password(jobs: dict[str, Any]) -> None:
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()
    rights = {name: job.get("permissions") for name, job in jobs.items()}
    assert rights == {"test": None, "check": None, "publish": {"id-token": "write"}, "release": {"contents": "write"}}
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")


def test_a_released_readme_leads_to_the_repository() -> None:
    released = readme((ROOT / "README.md").read_text(), "someone/orchard", "v1.0.0")
    assert relative_links((ROOT / "README.md").read_text())
    assert not relative_links(released)
    assert "](https://github.com/someone/orchard/blob/v1.0.0/docs/api.md)" in released
    assert "](https://raw.githubusercontent.com/someone/orchard/v1.0.0/docs/terminal.svg)" in released
    assert "OWNER" not in released


def test_a_copy_has_the_addresses_of_a_release(tmp_path: Path) -> None:
    before = (ROOT / "README.md").read_text()
    names = ["README.md", "pyproject.toml", "docs/api.md"]
    assert copy_with_address(names, tmp_path, "someone/orchard", "v1.0.0") == tmp_path
    assert (tmp_path / "README.md").read_text() == readme(before, "someone/orchard", "v1.0.0")
    assert (tmp_path / "docs" / "api.md").read_bytes() == (ROOT / "docs" / "api.md").read_bytes()
    assert "OWNER/orchard" not in (tmp_path / "pyproject.toml").read_text()
    assert (ROOT / "README.md").read_text() == before


def test_the_formula_of_a_release() -> None:
    written = formula(FORMULA.read_text(), "someone/orchard", "2.0.1rc1", b"an sdist")
    url = "https://github.com/someone/orchard/releases/download/v2.0.1rc1/mlx_orchard-2.0.1rc1.tar.gz"
    assert f'url "{url}"' in written
    assert 'homepage "https://github.com/someone/orchard"' in written
    assert f'sha256 "{hashlib.sha256(b"an sdist").hexdigest()}"' in written
    assert "OWNER/orchard" not in written
    assert formula(written, "other/orchard", "3.0.0", b"").count("github.com/other/orchard") == 2
    with pytest.raises(ValueError, match="not the formula"):
        formula("class Other < Formula\nend\n", "someone/orchard", "2.0.1", b"")


def test_the_formula_keeps_the_rules_of_style_that_need_no_homebrew() -> None:
    text = FORMULA.read_text()
    (about,) = re.findall(r'^  desc "(.+)"$', text, re.MULTILINE)
    assert len(about) < 80
    assert not about.endswith(".")
    assert not about.lower().startswith(("a ", "an ", "the ", "mlx-orchard"))
    order = ["desc", "homepage", "url", "sha256", "license", "depends_on", "def install", "def post_install"]
    places = [text.index(f"\n  {word}") for word in [*order, "service do", "test do"]]
    assert places == sorted(places)
    assert text.startswith("# typed: strict\n# frozen_string_literal: true\n\n")  # asked for of a file in no tap
    assert not re.search(r"Formula\[.+\]\.opt_", text)  # Homebrew/FormulaPathMethods wants `formula_opt_bin("uv")`
    dependencies = re.findall(r'^  depends_on "?([\w@.]+)', text, re.MULTILINE)
    assert dependencies == sorted(dependencies)
    assert max(map(len, text.splitlines())) <= 118
    assert not re.search(r"[ \t]$|\t", text, re.MULTILINE)


def test_the_readme_says_from_when_on_it_works() -> None:
    readme = (ROOT / "README.md").read_text()
    before, command, _ = readme.partition("uv tool install --overrides $OVERRIDES 'mlx-orchard[all]'")
    assert command
    assert "from the first release on" in before[-400:].lower()
