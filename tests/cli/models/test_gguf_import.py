"""`orchard import`: folders that are listed, served, made once, and deleted."""

import io
import json
import re
import signal
import sys
from pathlib import Path

import pytest
from rich.console import Console

from orchard.cli.models import gguf_import
from orchard.cli.models.gguf_import import import_models, offer_import, print_stores
from orchard.cli.models.local import print_models, remove_model
from orchard.cli.models.pull import fetch_missing
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models.gguf import imported_root
from orchard.gateway.models.registry import Registry, resolve_model
from tests.cli.models.test_gguf_stores import add_ollama_model
from tests.gguf_import.tiny_models import CASES, write_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Path(imported_root())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.Q8.gguf", CASES["qwen3"], pre="qwen2").file


def test_a_model_of_ollama_comes_with_its_modelfile(
    cache: Path, file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(gguf_import, "Console", lambda **_: Console(file=screen, force_terminal=True, width=40))
    parameters = {"stop": ["<think>", "no token"], "temperature": 0.25, "num_ctx": 4096}
    texts = {"system": b"Be kind.", "license": b"MIT", "params": json.dumps(parameters).encode()}
    add_ollama_model(
        tmp_path / "ollama", "registry.ollama.ai/library/tiny/1b", model=file.read_bytes(), template=b"", **texts
    )
    import_models("ollama", ["tiny:1b"], None, exact=False, sure=False)
    out = capsys.readouterr().err
    assert "its logits differ from the file's by " in out
    assert "measuring the error of its logits" in screen.getvalue()
    assert "its stops 'no token' are no tokens" in out
    folder = cache / "tiny:1b"
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["temperature"] == 0.25
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    assert next(one["id"] for one in added if one["content"] == "<think>") in generation["eos_token_id"]
    assert (folder / "LICENSE").read_text() == "MIT"
    assert "Be kind." in (folder / "chat_template.jinja").read_text()
    # It is listed and found like any other, and a second import does nothing.
    registry = Registry.from_settings(Settings())
    assert registry.find("tiny:1b").path == str(folder)
    assert resolve_model("tiny:1b").path == str(folder)
    print_stores()
    assert re.search(r"orchard import ollama tiny:1b  \S+ \S+  \(imported\)", capsys.readouterr().out)
    before = (folder / "model.safetensors").stat()
    import_models("ollama", [], None, exact=False, sure=False)
    assert "tiny:1b is here already" in capsys.readouterr().err
    assert (folder / "model.safetensors").stat() == before
    print_models(Settings())
    assert "tiny:1b" in capsys.readouterr().out
    remove_model("tiny:1b", sure=True)
    assert list(cache.iterdir()) == []


def test_serve_and_run_take_the_file_once_it_is_imported(cache: Path, file: Path, tmp_path: Path) -> None:
    for name in (str(file), str(tmp_path / "only")):
        if name.endswith("only"):
            (tmp_path / "only").mkdir()
            file.rename(tmp_path / "only" / file.name)
        with pytest.raises(OrchardError, match=f"{name} is in GGUF.*; 'orchard import {name}' makes it a model"):
            offer_import(name)
    moved = tmp_path / "only" / file.name
    folder = offer_import(str(tmp_path / "only"), sure=True)
    assert folder == str(cache / "tiny.Q8")
    assert offer_import(str(moved)) == folder
    assert resolve_model(str(moved)).path == folder
    assert offer_import("other") == "other"
    moved.touch()  # another file now
    with pytest.raises(OrchardError, match="orchard import"):
        offer_import(str(moved))


def test_run_takes_what_ollama_has(
    cache: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_ollama_model(tmp_path / "ollama", "registry.ollama.ai/library/tiny/latest", model=file.read_bytes())
    add_ollama_model(tmp_path / "ollama", "registry.ollama.ai/library/broken/1b", model=b"GGUF")
    with pytest.raises(OrchardError, match="tiny is in Ollama's store; --yes imports it"):
        fetch_missing("tiny", sure=False)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    with pytest.raises(OrchardError, match="no model 'tiny'"):
        fetch_missing("tiny", sure=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert fetch_missing("tiny", sure=False) == str(cache / "tiny")
    assert fetch_missing("tiny", sure=False) == "tiny"  # it is here now
    assert fetch_missing("tiny:latest", sure=False) == "tiny:latest"
    with pytest.raises(OrchardError, match="no model 'broken:1b'"):
        fetch_missing("broken:1b", sure=True)
    said = capsys.readouterr()
    assert "can't be imported" in said.err
    assert said.out == ""  # it is for answers


def test_ollamas_users_leave_the_tag_latest_out(cache: Path, file: Path, tmp_path: Path) -> None:
    with pytest.raises(OrchardError, match=re.escape(f"there are no GGUF models in {tmp_path / 'ollama'}")):
        import_models("ollama", [], None, exact=False, sure=False)
    add_ollama_model(tmp_path / "ollama", "registry.ollama.ai/library/tiny/latest", model=file.read_bytes())
    import_models("ollama", ["tiny:latest"], None, exact=False, sure=False)
    registry = Registry.from_settings(Settings())
    for name in ("tiny", "tiny:latest"):
        assert resolve_model(name).path == registry.find(name).path == str(cache / "tiny")


def test_a_failed_import_leaves_nothing(cache: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(OrchardError, match=r"tiny\.Q8\.gguf can't be imported: it is not complete"):
        import_models(str(file), [], None, exact=False, sure=False)
    assert list(cache.iterdir()) == []


def test_a_killed_import_leaves_nothing(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_import, "_PROGRAM", "nonsuch")
    with pytest.raises(OrchardError, match=r"the import of tiny\.Q8 broke off \(exit code 1\)"):
        import_models(str(file), [], None, exact=False, sure=False)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_leaves_nothing(
    number: signal.Signals, cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = signal.getsignal(number)
    monkeypatch.setattr(gguf_import, "_run_importer", lambda *_: signal.raise_signal(number))
    with pytest.raises(SystemExit):
        import_models(str(file), [], None, exact=False, sure=False)
    assert list(cache.iterdir()) == []
    assert signal.getsignal(number) is handler


def test_another_model_keeps_its_name(cache: Path, file: Path) -> None:
    (cache / "tiny.Q8").mkdir(parents=True)
    with pytest.raises(OrchardError, match=r"there is a model 'tiny\.Q8' already; 'orchard rm tiny\.Q8' deletes it"):
        import_models(str(file), [], None, exact=False, sure=False)


def test_several_models_are_imported_only_after_a_question(cache: Path, file: Path) -> None:
    (file.parent / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(OrchardError, match=r"has 2 models, .* Import them all\? --yes does"):
        import_models(str(file.parent), [], None, exact=False, sure=False)
    with pytest.raises(OrchardError, match=r"has no model 'nonsuch'; it has: other, tiny\.Q8"):
        import_models(str(file.parent), ["nonsuch"], None, exact=False, sure=False)


def test_the_extra_is_named_where_it_is_missing(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_import, "find_spec", lambda name: None)
    with pytest.raises(OrchardError, match=r"importing needs the extra gguf: pip install 'mlx-orchard\[gguf\]'"):
        import_models(str(file), [], None, exact=False, sure=False)
