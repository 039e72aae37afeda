"""What differs between hosts is named."""

from pathlib import Path

import mlx.core as mx
from msgspec.structs import replace

from orchard.cluster.host_facts import read_facts


def make_model(folder: Path, value: float = 0.0, rows: int = 2) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text(str(folder))
    mx.save_safetensors(str(folder / "model.safetensors"), {"a": mx.full((rows, 2), value)})
    return folder


def test_equal_files_in_other_folders_are_equal(tmp_path: Path) -> None:
    """Weights themselves are not read: their files may have hundreds of gigabytes."""
    here, there = read_facts(str(make_model(tmp_path / "a"))), read_facts(str(make_model(tmp_path / "b", 1.0)))
    assert here.files.keys() == {"config.json", "model.safetensors", "tokenizer.json"}
    assert here.find_differences(there) == []


def test_differences_are_named(tmp_path: Path) -> None:
    here = read_facts(str(make_model(tmp_path / "a")))
    other = make_model(tmp_path / "b", rows=3)
    (other / "config.json").write_text("{}")
    (other / "model-2.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    there = read_facts(str(other))
    assert here.find_differences(there) == [
        "it has model-2.safetensors, which this machine does not have",
        "its config.json, model.safetensors is not that of this machine",
    ]
    (other / "config.json").unlink()
    assert "it has no config.json" in here.find_differences(read_facts(str(other)))
    older = replace(here, versions=here.versions | {"mlx": "0.1.0"})
    assert here.find_differences(older) == [f"it has mlx 0.1.0, and this machine has {here.versions['mlx']}"]
    (missing,) = here.find_differences(read_facts(str(tmp_path / "none")))
    assert missing == f"the model's folder {tmp_path}/none can't be read there: No such file or directory"
    (other / "model.safetensors").write_bytes(b"text")
    (broken,) = here.find_differences(read_facts(str(other)))
    assert "not in safetensors format" in broken
