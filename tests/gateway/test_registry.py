import json
from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway import registry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like a model."""
    path = tmp_path / "Tiny-1B"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "qwen3", "max_position_embeddings": 4096}))
    (path / "model.safetensors").write_bytes(b"")
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hugging Face cache."""
    from huggingface_hub import constants

    path = tmp_path / "hub"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    return path


def _cache_model(cache: Path, folder: Path, repo_id: str) -> None:
    repo = cache / f"models--{repo_id.replace('/', '--')}"
    snapshot = repo / "snapshots" / "abc123"
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc123")


def test_the_demo_is_always_here() -> None:
    entry = registry.resolve("demo")
    assert entry.id == "demo"
    assert entry.context_window


def test_a_folder_is_served_under_its_name(folder: Path) -> None:
    assert registry.resolve(str(folder)) == registry.ModelEntry("Tiny-1B", str(folder), 4096)


def test_a_cached_model_is_found_by_its_id(folder: Path, cache: Path) -> None:
    _cache_model(cache, folder, "org/Tiny-1B")
    entry = registry.resolve("org/Tiny-1B")
    assert (entry.id, entry.context_window) == ("org/Tiny-1B", 4096)
    assert [model.id for model in registry.installed()] == ["demo", "org/Tiny-1B"]


def test_a_cache_that_is_a_file_holds_nothing(cache: Path) -> None:
    cache.rmdir()
    cache.write_text("no folder")
    assert [model.id for model in registry.installed()] == ["demo"]


def test_a_name_must_fit_into_json(folder: Path) -> None:
    odd = folder.rename(folder.parent / "caf\udce9")
    with pytest.raises(OrchardError, match="surrogates not allowed"):
        registry.resolve(str(odd))


def test_what_is_no_model_is_not_listed(folder: Path, cache: Path) -> None:
    (folder / "model.safetensors").unlink()
    _cache_model(cache, folder, "org/data")
    assert [model.id for model in registry.installed()] == ["demo"]


@pytest.mark.parametrize(
    "name", ["nowhere", "org/nowhere", "not a name!", "/no/such/folder", "", "~nobody/model", "a" * 5000, "a\0b"]
)
def test_a_name_that_is_nothing(name: str, cache: Path) -> None:
    with pytest.raises(OrchardError, match="no model") as raised:
        registry.resolve(name)
    assert raised.value.kind == "model_not_found"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("config.json", None, "no config.json"),
        ("config.json", "{", "can't be read"),
        ("config.json", "[" * 100_000, "can't be read"),
        ("config.json", b'{"model_type": "\xff"}', "can't be read"),
        ("config.json", "[]", "model_type"),
        ("config.json", "{}", "model_type"),
        ("model.safetensors", None, "safetensors"),
    ],
)
def test_a_folder_that_is_no_model_says_why(folder: Path, file: str, content: str | bytes | None, reason: str) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(OrchardError, match=reason):
        registry.resolve(str(folder))
