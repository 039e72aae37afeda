"""What several commands are tried with."""

from pathlib import Path

import pytest

from tests.support.model_folders import some_weights


@pytest.fixture
def unloadable(tmp_path: Path) -> Path:
    """A folder that looks like a model from outside."""
    folder = tmp_path / "unloadable"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "none", "max_position_embeddings": 1234}')
    (folder / "model.safetensors").write_bytes(some_weights(100))
    (folder / "tokenizer.json").write_text("{}")
    return folder
