"""Settings are put into a configuration file, and all else in it stays."""

from pathlib import Path
from typing import Any

import pytest

from orchard.cli.config import gather_config
from orchard.cli.settings.config_edit import has_model, put_settings
from orchard.config import ModelSettings
from orchard.core.errors import OrchardError

MINE = ModelSettings(model_path="demo", served_model_name="mine")
PLAIN = """# All of mine.
server: {port: 8001}   # kept
models:
  - model_path: demo
  - served_model_name: "mine"
    # Why not.
    model_path: demo
    decode_concurrency: 7  # rows
    aliases:
      - other
"""
FLOW = "models: [{model_path: demo-vision}, {model_path: demo, served_model_name: mine}]"


def changed(path: Path) -> Any:
    return next(one for one in gather_config(path, (), {}, {}).settings.models if one.served_model_name == "mine").text


@pytest.mark.parametrize("text", [PLAIN, FLOW])
def test_the_models_entry_gets_the_settings(text: str, tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_bytes(text.encode())
    file.chmod(0o600)
    put_settings(file, MINE, {"decode_concurrency": 1, "speculation": "off", "prompt_cache_bytes": 0})
    made = changed(file)
    assert (made.decode_concurrency, made.speculation, made.prompt_cache_bytes) == (1, "off", 0)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [file]
    others = [one for one in gather_config(file, (), {}, {}).settings.models if one.served_model_name != "mine"]
    assert all(one.text.decode_concurrency == 64 for one in others)


@pytest.mark.parametrize(("begin", "end"), [("", "\n"), ("\ufeff", "\r\n")])
def test_comments_and_layout_stay(begin: str, end: str, tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_bytes(begin.encode() + PLAIN.replace("\n", end).encode())
    put_settings(file, MINE, {"speculation": "off", "decode_concurrency": 1})
    expected = PLAIN.replace("  - served_model_name", "  - speculation: off\n    served_model_name").replace(
        ": 7", ": 1"
    )
    assert file.read_bytes().decode() == begin + expected.replace("\n", end)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file = tmp_path / "real" / "orchard.yaml"
    file.parent.mkdir()
    file.write_text(FLOW)
    (tmp_path / "orchard.yaml").symlink_to(file)
    put_settings(tmp_path / "orchard.yaml", MINE, {"speculation": "off"})
    assert (tmp_path / "orchard.yaml").is_symlink()
    assert changed(file).speculation == "off"


@pytest.mark.parametrize("text", ["", "server: {port: 1}", "models: []", "models: [{model_path: demo}]"])
def test_a_model_that_is_not_in_the_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_text(text)
    assert not has_model(file, MINE)
    with pytest.raises(OrchardError, match="no entry for 'demo'"):
        put_settings(file, MINE, {"speculation": "off"})
    assert file.read_text() == text


def test_a_folder_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_text(FLOW)

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(OrchardError, match="can't be written: Permission denied"):
        put_settings(file, MINE, {"speculation": "off"})
