from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import LARGE, SIZE, Hub, run_hub
from tests.support.model_folders import make_model, some_weights


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model, beside an empty cache; child processes use both."""
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path / "repo", shards=2)
        (tmp_path / "repo" / LARGE).write_bytes(some_weights(SIZE))
        for name in ("README.md", "consolidated.safetensors", "pytorch_model.bin"):
            (tmp_path / "repo" / name).write_bytes(b"-")
        for name, value in {**hub.env, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")}.items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def blobs(hub: Hub, tmp_path: Path) -> Path:
    """Where the cache has the files of that model."""
    return tmp_path / "hub" / "models--org--tiny" / "blobs"
