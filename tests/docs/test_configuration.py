"""The documentation and the example name every setting, as it is."""

import re
from pathlib import Path

import pytest

from orchard.cli import config
from orchard.cli.settings.table import TABLE
from orchard.core.setting import GROUPS
from tests.support.config_docs import EXAMPLE, PAGE, ROOT, example, headings, with_tables

WRITE = "`python -m tests.support.config_docs` writes it anew"


def test_the_tables_are_those_of_the_settings() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, WRITE
    assert sorted(headings(page)) == sorted(GROUPS.values())


def test_the_example_is_that_of_the_settings() -> None:
    assert EXAMPLE.read_text() == example(), WRITE


def test_the_example_is_right_as_it_is() -> None:
    settings, notes, _ = config.gather_config(EXAMPLE, (), {}, {})
    assert ([model.model_path for model in settings.models], notes) == (["demo"], [])


def test_every_line_of_the_example_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("path/to/folder").mkdir(parents=True)
    Path("path/to/file").write_text("another-key")
    everything = re.sub(r"^( *)#(- )?(\w+:)", r"\1\2\3", example(), flags=re.MULTILINE)
    # Some lines can't be used beside others, and say so.
    without = everything
    for line in ("  max_kv_size: 8192\n", "    hosts: ./hosts.json\n", "    backend: ring\n", "    parallel: tensor\n"):
        without = without.replace(line, "")
    Path("orchard.yaml").write_text(without)
    settings, notes, _ = config.gather_config(Path("orchard.yaml"), (), {}, {})
    assert ([model.model_path for model in settings.models], notes) == (["demo", "mlx-community/Qwen3-4B-4bit"], [])
    assert settings.api_keys == ("some-key", "another-key")
    assert (settings.port, settings.text.defaults.temperature) == (8000, 0.7)
    keys = re.findall(r"^ *(?:- )?(\w+):", everything.replace("- model_path: demo", ""), flags=re.MULTILINE)
    assert sorted(keys) == sorted(
        ["server", "models", *(setting.name for setting in TABLE if setting.group != "ignored")]
    )


def test_the_page_on_migration_names_flags_that_there_are() -> None:
    page = (ROOT / "docs" / "migrating.md").read_text()
    cells = re.findall(r"^\|.*\|(.*)\|$", page, flags=re.MULTILINE)
    flags = {flag for cell in cells for flag in re.findall(r"--([a-z][a-z-]+)", cell)}
    known = {name.replace("_", "-") for setting in TABLE for name in setting.names}
    assert flags - known - {f"no-{name}" for name in known} == {"config"}
