"""The documentation and the example name every setting, as it is."""

import re
from pathlib import Path

import pytest

from orchard.cli import config
from orchard.cli.settings.table import TABLE
from tests.support.config_docs import PAGE, groups, with_tables

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "orchard.yaml").read_text()


def test_the_tables_are_those_of_the_settings() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "python -m tests.support.config_docs writes them anew"
    assert sorted(groups(page)) == sorted({setting.group for setting in TABLE})


def test_the_example_is_right_as_it_is() -> None:
    settings, notes, _ = config.gather(ROOT / "examples" / "orchard.yaml", (), {}, {})
    assert ([model.model_path for model in settings.models], notes) == (["demo"], [])


def test_every_line_of_the_example_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("models", "lora/support", "lora/poet", "lora/critic"):
        Path(folder).mkdir(parents=True)
    Path("keys.txt").write_text("fourth-key")
    Path("qwen3.jinja").write_text("{{ messages }}")
    everything = re.sub(r"^( *)#(- )?(\w+:)", r"\1\2\3", EXAMPLE, flags=re.MULTILINE)
    # One line can't be used beside another, and says so.
    Path("orchard.yaml").write_text(everything.replace("    max_kv_size: 8192\n", ""))
    settings = config.gather(Path("orchard.yaml"), (), {}, {}).settings
    assert len(settings.models) == 4
    assert settings.api_keys == ("first-key", "second-key", "fourth-key")
    assert settings.admin_keys == ("third-key",)
    keys = set(re.findall(r"^ *(?:- )?(\w+):", everything, flags=re.MULTILINE)) - {"server", "models"}
    assert keys == {setting.name for setting in TABLE}


def test_the_page_on_migration_names_flags_that_there_are() -> None:
    page = (ROOT / "docs" / "migrating.md").read_text()
    cells = re.findall(r"^\|.*\|(.*)\|$", page, flags=re.MULTILINE)
    flags = {flag for cell in cells for flag in re.findall(r"--([a-z][a-z-]+)", cell)}
    known = {name.replace("_", "-") for setting in TABLE for name in setting.names}
    assert flags - known - {f"no-{name}" for name in known} == {"config"}
