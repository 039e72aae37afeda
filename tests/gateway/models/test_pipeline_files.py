"""How large a pipeline's weights are, on the disk and in memory."""

import json
from pathlib import Path

import pytest

from orchard.core.request import LoadOptions
from orchard.core.tasks.images import ImageOptions
from orchard.gateway.models.pipeline_files import PipelineWeights, read_pipeline_weights


def write(file: Path, size: int, **metadata: str) -> None:
    """Write a file of weights of that size."""
    file.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"__metadata__": metadata}).encode()
    file.write_bytes((len(header).to_bytes(8, "little") + header).ljust(size, b"\0"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "transformer" / "0.safetensors", 1000)
    write(tmp_path / "transformer" / "1.safetensors", 600)
    write(tmp_path / "text_encoder" / "model.safetensors", 300)
    write(tmp_path / "vae" / "model.safetensors", 100)
    return tmp_path


def name(folder: Path, pipeline: str) -> None:
    (folder / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))


def test_all_parts_count(folder: Path) -> None:
    assert read_pipeline_weights(str(folder)) == PipelineWeights(2000, 0)


def test_copies_at_the_top_do_not_unless_they_are_a_part(folder: Path, tmp_path: Path) -> None:
    write(folder / "flux1-dev.safetensors", 5000)
    assert read_pipeline_weights(str(folder)).size_bytes == 2000
    for file in (folder / "transformer").iterdir():
        file.unlink()
    assert read_pipeline_weights(str(folder)).size_bytes == 5400


def test_some_parts_are_never_quantised(folder: Path) -> None:
    name(folder, "FluxPipeline")
    assert read_pipeline_weights(str(folder)).kept_bytes == 0
    name(folder, "QwenImageEditPlusPipeline")
    assert read_pipeline_weights(str(folder)).kept_bytes == 300


@pytest.mark.parametrize(("level", "kept"), [("4", 2000), ("None", 0)])
def test_nor_is_what_is_quantised_already(folder: Path, level: str, kept: int) -> None:
    write(folder / "transformer" / "0.safetensors", 1000, quantization_level=level)
    assert read_pipeline_weights(str(folder)).kept_bytes == kept


@pytest.mark.parametrize("start", [b"", b"\xff" * 8, (9).to_bytes(8, "little") + b'{"a": [[[', b"\0" * 8])
def test_broken_weights_are_none(folder: Path, start: bytes) -> None:
    (folder / "transformer" / "0.safetensors").write_bytes(start.ljust(1000, b"\0"))
    with pytest.raises(ValueError, match=r"its 0.safetensors is not in safetensors format"):
        read_pipeline_weights(str(folder))


def test_a_broken_index_is_like_none(folder: Path) -> None:
    (folder / "model_index.json").write_bytes(b"[" * 100_000)
    assert read_pipeline_weights(str(folder)) == PipelineWeights(2000, 0)


def test_without_weights_it_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it has no weights in safetensors files"):
        read_pipeline_weights(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LoadOptions(), 3200),
        (ImageOptions(), 3200),
        (ImageOptions(quantize=16), 3200),
        (ImageOptions(quantize=4), 1600 + 450),
        (ImageOptions(quantize=8), 1600 + 850),
    ],
)
def test_what_is_quantised_while_it_is_loaded_takes_less(options: LoadOptions, expected: int) -> None:
    assert options.loaded_bytes(3200, 1600) == expected
