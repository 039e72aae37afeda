"""What several commands are tried with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import Hub, run_hub
from tests.support.model_folders import make_model, some_weights
from tests.support.serving import Server, serve
from tests.support.stub_server import Stub, run_stub


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture
def stub() -> Iterator[Stub]:
    with run_stub() as running:
        yield running


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path_factory.mktemp("repo"))
        hub.repos["org/tiny-GGUF"] = tmp_path_factory.mktemp("gguf")
        for name in ("config.json", "tiny.Q8_0.gguf"):
            (hub.repos["org/tiny-GGUF"] / name).write_text("{}")
        hub.repos["org/data"] = tmp_path_factory.mktemp("data")
        (hub.repos["org/data"] / "data.json").write_text("{}")
        yield hub


@pytest.fixture
def unloadable(tmp_path: Path) -> Path:
    """A folder that looks like a model from outside."""
    folder = tmp_path / "unloadable"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "none", "max_position_embeddings": 1234}')
    (folder / "model.safetensors").write_bytes(some_weights(100))
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def hub_cache(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and the hub that fills it."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for name, value in hub.env.items():
        monkeypatch.setenv(name, value)
    hub.asked.clear()
    return tmp_path
