"""`orchard models` and `orchard rm`, each in a process of its own."""

import sys
from pathlib import Path

import pytest
from rich.text import Text

from orchard.cli.models.local import print_models, remove_model
from orchard.config import Settings
from orchard.core.errors import OrchardError
from tests.support.command import orchard_over_cache
from tests.support.hub import Hub
from tests.support.model_folders import cache_model, make_model


def test_models_lists_what_is_here(tmp_path: Path) -> None:
    cache, folder = tmp_path / "hub", tmp_path / "models"
    snapshot = cache_model(
        cache, "mlx-community/gemma-3-4b-it-4bit", config={"model_type": "gemma3", "vision_config": 1}
    )
    cache_model(cache, "org/half", shards=2, here=1)
    make_model(folder / "mine")
    code, out, error = orchard_over_cache(cache, "models", "--model-dir", str(folder))
    assert (code, error) == (0, "")
    head, demo, gemma, mine, vision, whisper, half = out.splitlines()
    assert head.split() == ["Model", "Kind", "Context", "Size", "Aliases", "Folder"]
    assert demo.split()[:3] == ["demo", "text", "32,768"]
    gemma_row = ["mlx-community/gemma-3-4b-it-4bit", "vision", "131,072", "100", "bytes", str(snapshot)]
    assert gemma.split() == gemma_row
    assert half == "'org/half' is not served: it is not complete: 1 of its 2 files of weights are not here"
    assert mine.split() == ["mine", "text", "4,096", "100", "bytes", str(folder / "mine")]
    assert vision.split()[:2] == ["demo-vision", "vision"]
    assert whisper.split()[:2] == ["demo-whisper", "transcription"]


@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_shows_whole_names_and_no_folders(
    tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    name = "mlx-community/Mistral-Small-3.1-24B-Instruct-2503-4bit"
    cache_model(tmp_path, name)
    print_models(Settings())
    lines = [Text.from_ansi(line).plain for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= columns
    assert "Folder" not in lines[0]
    assert name in "".join(line.split(" ", 1)[0] for line in lines)


def test_models_lists_what_the_configuration_names_first(tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_text("models:\n  - model_path: demo\n    served_model_name: mine\n    aliases: [gpt-4, claude]\n")
    code, out, error = orchard_over_cache(tmp_path / "hub", "models", "--config", str(file))
    assert (code, error) == (0, "")
    assert out.splitlines()[1].split()[:-1] == ["mine", "text", "32,768", "8.5", "MB", "gpt-4,", "claude"]


def test_pull_models_rm(hub: Hub, tmp_path: Path) -> None:
    code, out, _ = orchard_over_cache(tmp_path, "pull", "org/tiny", env=hub.env)
    assert code == 0
    assert out.startswith("org/tiny is here: text, 100 bytes in ")
    assert "org/tiny " in orchard_over_cache(tmp_path, "models")[1]
    code, out, _ = orchard_over_cache(tmp_path, "rm", "org/tiny", answer="n\n")
    assert code == 1
    assert out.startswith("Delete org/tiny, ")
    assert (tmp_path / "models--org--tiny").exists()
    code, out, _ = orchard_over_cache(tmp_path, "rm", "org/tiny", answer="y\n")
    assert code == 0
    assert "org/tiny is deleted; " in out
    assert not (tmp_path / "models--org--tiny").exists()


@pytest.mark.parametrize("name", ["demo", "org/none", "", "..", "../hub", "/tmp", "models--org--a"])  # noqa: S108
def test_rm_refuses_what_is_not_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    cache_model(tmp_path / "hub", "org/a")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OrchardError, match="is not in the local Hugging Face cache"):
        remove_model(name, sure=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_rm_deletes_one_imported_model_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path))
    for name in ("org/one", "org/two"):
        (tmp_path / "imported" / name).mkdir(parents=True)
        (tmp_path / "imported" / name / "config.json").touch()
    with pytest.raises(OrchardError, match="nor imported"):
        remove_model("org", sure=True)
    remove_model("org/one", sure=True)
    assert [folder.name for folder in (tmp_path / "imported" / "org").iterdir()] == ["two"]
    remove_model("org/two", sure=True)
    assert list((tmp_path / "imported").iterdir()) == []


def test_rm_counts_what_lies_on_the_disk(tmp_path: Path) -> None:
    snapshot = cache_model(tmp_path, "org/a", here=0)
    blobs = snapshot.parent.parent / "blobs"
    blobs.mkdir()
    (blobs / "abc").write_bytes(bytes(5_000_000))
    (snapshot / "model.safetensors").symlink_to(blobs / "abc")
    code, out, _ = orchard_over_cache(tmp_path, "rm", "org/a", "-y")
    assert code == 0
    assert "5.0 MB are free again" in out
