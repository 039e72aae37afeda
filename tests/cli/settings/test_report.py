"""What GET /v1/settings says of each source, and what it keeps to itself."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchard.cli.config import gather_config

FILE = """server:
  api_keys: [secret-1, secret-2]
  prompt_cache_sharing: {friends: [secret-1, secret-2]}
  kv_bits: 8
models:
  - model_path: demo
    kv_bits: 4
  - model_path: demo-vision
    on_demand: true
"""


def told(
    models: tuple[str, ...] = (), *, file: Path | None = None, flags: dict[str, Any] | None = None, **variables: str
) -> dict[str, tuple[Any, str]]:
    """The value and the source of each setting, by its name."""
    reports = gather_config(file, models, flags or {}, variables).places.settings
    text = msgspec.json.encode(reports)
    assert b"secret" not in text
    return {one["name"]: (one["value"], one["source"]) for one in json.loads(text)}


def test_every_source(tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_text(FILE)
    found = told(file=file, flags={"port": 0}, ORCHARD_LOG_LEVEL="debug", ORCHARD_ADMIN_KEY="secret-3")
    assert found["host"] == ("127.0.0.1", "default")
    assert found["port"] == (0, "command line")
    assert found["log_level"] == ("debug", "environment")
    assert found["kv_bits"] == (8, f"file {file}:4")
    assert found["api_keys"] == ("2 keys", f"file {file}:2")
    assert found["admin_keys"] == ("1 key", "environment")
    assert found["prompt_cache_sharing"] == (["friends"], f"file {file}:3")
    assert found["responses_path"] == ("~/.orchard/responses.db", "default")
    assert "trust_remote_code" not in found  # has no effect
    own = {name: value for name, value in found.items() if name.startswith("models[")}
    assert own == {
        "models[0].model_path": ("demo", f"file {file}:6"),
        "models[0].kv_bits": (4, f"file {file}:7"),
        "models[1].model_path": ("demo-vision", f"file {file}:8"),
        "models[1].on_demand": (True, f"file {file}:9"),
    }


def test_the_models_of_the_command_line() -> None:
    found = told(("demo",), flags={"kv_bits": 4, "served_model_name": "me"})
    assert found["kv_bits"] == (4, "command line")
    assert found["models[0].model_path"] == ("demo", "command line")
    assert found["models[0].served_model_name"] == ("me", "command line")
    assert "models[0].kv_bits" not in found


def test_a_file_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("secret-1\n")
    found = told(ORCHARD_API_KEY_FILE=str(tmp_path / "keys"))
    assert found["api_keys"] == ("1 key", "environment")


def test_shorthands_are_what_they_set() -> None:
    found = told(flags={"debug": True, "no_log_file": True})
    assert found["log_level"] == ("debug", "command line")
    assert found["log_file"] == (None, "command line")
    assert not {"debug", "no_log_file"} & found.keys()
