"""What is found wrong in a wheel and in an sdist."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools.release_check.archives import wrong_metadata, wrong_sdist, wrong_tag, wrong_wheel

from tools.release_check import archives

METADATA = """\
Metadata-Version: 2.4
Name: mlx-orchard
Version: 1.2.3
Summary: A server
License-Expression: Apache-2.0 AND MIT AND BSD-3-Clause
License-File: LICENSE
Requires-Python: >=3.11
Requires-Dist: httpx>=0.27
Requires-Dist: mlx-audio>=0.6; extra == "audio"
Requires-Dist: mlx-orchard[audio]; extra == "all"
Provides-Extra: all
Provides-Extra: audio
Provides-Extra: embeddings
Provides-Extra: gguf
Provides-Extra: vision
Description-Content-Type: text/markdown

# Orchard
"""
INFO = "mlx_orchard-1.2.3.dist-info/"
WHEEL = {
    "orchard/a.py": "",
    "orchard/demo/model/model.safetensors": "weights",
    f"{INFO}METADATA": METADATA,
    f"{INFO}entry_points.txt": "[console_scripts]\norchard = orchard.cli:main\n",
    f"{INFO}licenses/LICENSE": "Apache",
    f"{INFO}RECORD": "",
}
TRACKED = {"src/orchard/a.py", "src/orchard/demo/model/model.safetensors", "README.md", "tests/test_a.py"}
SDIST = dict.fromkeys(TRACKED, "") | {"PKG-INFO": METADATA}


def wheel(folder: Path, files: dict[str, str]) -> list[str]:
    """What is wrong with a wheel of these files, without its name."""
    file = folder / "a.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return [why.removeprefix("a.whl: ") for why in wrong_wheel(file, TRACKED, "1.2.3")]


def sdist(folder: Path, files: dict[str, str]) -> list[str]:
    """What is wrong with an sdist of these files, without its name."""
    file = folder / "a.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"mlx_orchard-1.2.3/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return [why.removeprefix("a.tar.gz: ") for why in wrong_sdist(file, TRACKED, "1.2.3")]


def test_good_ones(tmp_path: Path) -> None:
    assert wheel(tmp_path, WHEEL) == []
    assert sdist(tmp_path, SDIST) == []


def test_files_that_are_missing_or_strange(tmp_path: Path) -> None:
    strange = {"orchard/secret.env": "", "tests/test_a.py": ""}
    weights = "orchard/demo/model/model.safetensors"
    found = wheel(tmp_path, {name: text for name, text in WHEEL.items() if name != weights} | strange)
    assert found == [
        f"{weights} is missing",
        "orchard/secret.env is not in the repository",
        "tests/test_a.py is not in the repository",
    ]
    files = {name: text for name, text in SDIST.items() if name != "README.md"} | {".env": ""}
    assert sdist(tmp_path, files) == ["README.md is missing", ".env is not in the repository"]


@pytest.mark.parametrize("name", ["METADATA", "entry_points.txt", "licenses/LICENSE"])
def test_a_wheel_that_is_not_whole(name: str, tmp_path: Path) -> None:
    files = {path: text for path, text in WHEEL.items() if path != INFO + name}
    assert wheel(tmp_path, files) == [f"{INFO}{name} is missing"]


def test_an_sdist_without_metadata(tmp_path: Path) -> None:
    assert sdist(tmp_path, dict.fromkeys(TRACKED, "")) == ["PKG-INFO is missing"]


def test_a_command_that_is_another(tmp_path: Path) -> None:
    other = WHEEL | {f"{INFO}entry_points.txt": "[console_scripts]\napple = orchard.cli:main\n"}
    (why,) = wheel(tmp_path, other)
    assert "apple" in why


def test_archives_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert archives.MOST_BYTES == 27_000_000
    monkeypatch.setattr(archives, "MOST_BYTES", 300)
    assert any("300 are allowed" in why for why in wheel(tmp_path, WHEEL))
    assert any("300 are allowed" in why for why in sdist(tmp_path, SDIST))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Name: mlx-orchard", "Name: orchard", "its name is 'orchard', not 'mlx-orchard'"),
        ("Version: 1.2.3", "Version: 1.2.4", "its version is '1.2.4', not '1.2.3'"),
        (
            "Apache-2.0 AND MIT AND BSD-3-Clause",
            "MIT",
            "its license is 'MIT', not 'Apache-2.0 AND MIT AND BSD-3-Clause'",
        ),
        ("Summary: A server\n", "", "its summary is missing"),
        ("Requires-Python: >=3.11\n", "", "it doesn't say which Python it needs"),
        ("\n# Orchard\n", "", "its description is missing"),
        ("text/markdown", "text/plain", "its type of its description is 'text/plain', not 'text/markdown'"),
        ("Provides-Extra: vision\n", "", "its extras is "),
        ("httpx>=0.27", "httpx", "it takes every version of httpx"),
        ("httpx>=0.27", "httpx @ https://example.org/x.whl", "an index refuses requirements with a URL: "),
        ("httpx>=0.27", "httpx>=>1", "its metadata is wrong: "),
        ("Version: 1.2.3", "Version: one", "its metadata is wrong: "),
    ],
)
def test_metadata(old: str, new: str, why: str) -> None:
    assert wrong_metadata(METADATA.encode(), "1.2.3") == []
    assert old in METADATA
    found = wrong_metadata(METADATA.replace(old, new, 1).encode(), "1.2.3")
    assert any(one.startswith(why) for one in found), found


def test_a_released_description_leads_somewhere() -> None:
    lost = f"{METADATA}\nSee [the guide](docs/guide.md), [this](https://example.com) and [that](#here).\n"
    assert wrong_metadata(lost.encode(), "1.2.3") == []
    (found,) = wrong_metadata(lost.encode(), "1.2.3", released=True)
    assert "docs/guide.md" in found
    assert wrong_metadata(f"{METADATA}\nFrom OWNER/orchard\n".encode(), "1.2.3", released=True)


def test_the_tag() -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n"
    assert wrong_tag("v1.2.3", "1.2.3", changelog) == []
    assert wrong_tag("1.2.3", "1.2.3", changelog) == ["the tag is 1.2.3, and the version 1.2.3"]
    assert wrong_tag("v1.2", "1.2", changelog) == ["CHANGELOG.md has no section [1.2]"]
