"""Variables, flags and configuration files mean what they meant. New settings are welcome."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.compat.bridge import FIXTURES, Served, expected, served

GIVEN = expected("settings.json")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the values speak of is in the working directory."""
    for name in GIVEN["folders"]:
        (tmp_path / name).mkdir()
    for name, text in GIVEN["files"].items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def differences(found: Served, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not as wanted, with what they are."""
    return {
        path: found.settings.get(path, "is not there")
        for path, value in wanted.items()
        if found.settings.get(path, "is not there") != value
    }


def test_defaults() -> None:
    assert differences(served(), GIVEN["defaults"]) == {}


def test_every_variable_sets_what_it_did() -> None:
    wrong = {}
    for line, sets in GIVEN["variables"].items():
        variable, _, value = line.partition("=")
        wrong[line] = differences(served(**{variable: value}), GIVEN["defaults"] | sets)
    assert {line: found for line, found in wrong.items() if found} == {}


def test_every_variable_is_known() -> None:
    """One that is not is no error, but there is a note on it."""
    variables = dict(line.partition("=")[::2] for line in GIVEN["variables"])
    (note,) = served(ORCHARD_QQQQ="1").notes
    words = note.replace("ORCHARD_QQQQ", "")
    unknown = [name for name, value in variables.items() for note in served(**{name: value}).notes if words in note]
    assert unknown == []


def test_every_flag_sets_what_it_did() -> None:
    wrong = {
        line: differences(served(*line.split()), GIVEN["defaults"] | sets) for line, sets in GIVEN["flags"].items()
    }
    assert {line: found for line, found in wrong.items() if found} == {}


@pytest.mark.parametrize("name", ["orchard.yaml", "synonyms.yaml"])
@pytest.mark.parametrize("by", ["flag", "variable"])
def test_files_set_what_they_did(name: str, by: str) -> None:
    path = str(FIXTURES / name)
    found = served("--config", path) if by == "flag" else served(ORCHARD_CONFIG=path)
    assert differences(found, GIVEN[name]) == {}
    models = [sum(path.endswith(".model_path") for path in of) for of in (found.settings, GIVEN[name])]
    assert models[0] == models[1]
