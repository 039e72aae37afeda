"""Which GGUF models are found: files, folders, and the stores of Ollama and LM Studio."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchard.cli.models import gguf_stores
from orchard.core.errors import OrchardError


def add_ollama_model(root: Path, name: str, **layers: bytes) -> None:
    """Add a model to a store; `name` is HOST/OWNER/NAME/TAG."""
    (root / "blobs").mkdir(parents=True, exist_ok=True)
    found = []
    for number, (kind, content) in enumerate(layers.items()):
        digest = f"{abs(hash((name, number))):064x}"[-64:]
        (root / "blobs" / f"sha256-{digest}").write_bytes(content)
        found.append({"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}", "size": 1})
    manifest = root / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": found}))


@pytest.fixture
def ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    return tmp_path / "ollama"


def test_ollamas_models_have_their_names_and_texts(ollama: Path) -> None:
    texts = {"system": b"Be kind.", "license": b"MIT", "params": b'{"stop": ["<x>"], "temperature": 0.5}'}
    add_ollama_model(ollama, "registry.ollama.ai/library/llama3.2/3b", model=b"GGUF1", template=b"{{ .P }}", **texts)
    add_ollama_model(ollama, "registry.ollama.ai/mannix/own/latest", model=b"GGUF")
    add_ollama_model(ollama, "hf.co/org/name/Q4_K_M", model=b"GGUF")
    add_ollama_model(ollama, "registry.ollama.ai/library/llava/7b", model=b"GGUF", projector=b"GGUF")
    found = {model.name: model for model in gguf_stores.find_models("ollama")}
    assert found.keys() == {"llama3.2:3b", "mannix/own", "org/name:Q4_K_M", "llava:7b"}
    one = found["llama3.2:3b"]
    assert (one.system, one.license, one.parameters) == ("Be kind.", "MIT", {"stop": ["<x>"], "temperature": 0.5})
    assert ([file.read_bytes() for file in one.files], one.size) == ([b"GGUF1"], 5)
    assert "vision projector" in found["llava:7b"].refusal


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc/passwd"}]}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:%s"}]}' % (b"0" * 64),
        b'{"layers": []}',
    ],
)
def test_a_broken_manifest_is_no_model(ollama: Path, content: bytes) -> None:
    add_ollama_model(ollama, "registry.ollama.ai/library/whole/1b", model=b"GGUF")
    broken = ollama / "manifests/registry.ollama.ai/library/broken/1b"
    broken.parent.mkdir()
    broken.write_bytes(content)
    assert [model.name for model in gguf_stores.find_models("ollama")] == ["whole:1b"]


@pytest.mark.parametrize("is_chosen", [False, True])
def test_lmstudios_models_are_where_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_chosen: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".lmstudio").mkdir()
    if is_chosen:
        settings = {"downloadsFolder": str(tmp_path / "elsewhere")}
        (tmp_path / ".lmstudio/settings.json").write_text(json.dumps(settings))
    root = tmp_path / ("elsewhere" if is_chosen else ".lmstudio/models")
    (root / "org/repo").mkdir(parents=True)
    for name in ("one-Q4_K_M.gguf", "mmproj-one.gguf", "readme.md"):
        (root / "org/repo" / name).write_bytes(b"GGUF")
    found = {model.name: model.refusal for model in gguf_stores.find_models("lmstudio")}
    assert found == {"mmproj-one": "it is a vision projector, which can't be imported", "one-Q4_K_M": ""}


def test_a_split_model_is_one(tmp_path: Path) -> None:
    names = [f"big-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for name in [*names, "big-00001-of-00002.gguf.part"]:
        (tmp_path / name).write_bytes(b"GGUF")
    for source in (tmp_path, tmp_path / names[0], tmp_path / names[2]):
        (model,) = gguf_stores.find_models(str(source))
        assert (model.name, [file.name for file in model.files], model.size) == ("big", names, 12)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder / "nothing", "there is no .*nothing: name a file, a folder, ollama or lmstudio"),
        (lambda folder: folder, "there are no GGUF models in"),
        (lambda folder: folder / "text.txt", "text.txt is no .gguf file"),
    ],
)
def test_what_is_no_source_is_refused(make: Callable[[Path], Path], reason: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").touch()
    with pytest.raises(OrchardError, match=reason):
        gguf_stores.find_models(str(make(tmp_path)))


@pytest.mark.parametrize("name", ["..gguf", "...gguf", ".hidden.gguf", "-00001-of-00002.gguf"])
def test_a_file_whose_name_can_not_be_a_models_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"GGUF")
    for source in (tmp_path, tmp_path / name):
        (model,) = gguf_stores.find_models(str(source))
        assert model.refusal == f"a model can't be named after its file, {name}: rename it"
