"""The files of weights that a rank of a pipeline opens: those of its own layers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from orchard.backends.checkpoint import load_checkpoint
from orchard.backends.hidden_weights import find_files_of_others, hide_weights
from orchard.backends.model_folder import Library, load_folder
from orchard.core.tasks.text_options import TextOptions
from tests.support.models import make_architecture, split_by_layers
from tests.support.ring_mixes import SPLIT, in_table

_LAYERS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for each layer, and one for the rest."""
    with in_table("qwen3_moe", SPLIT["qwen3_moe"]):
        make_architecture(tmp_path, "qwen3_moe")
    split_by_layers(tmp_path)
    return tmp_path


def load_rank(folder: Path, rank: int | None) -> Any:
    """Load a rank's layers, one for each; None: all of them. Nothing is sent."""
    group: Any = SimpleNamespace(
        rank=rank,
        is_pipeline=True,
        group=SimpleNamespace(rank=lambda: rank, size=lambda: _LAYERS),
        split_layers=lambda layers, kept: [1] * layers,
    )
    library = Library("mlx-lm", load_checkpoint, lambda network: mx.zeros(()), lambda network, path: set())
    return load_folder(folder, TextOptions(), lambda done: None, library, group=None if rank is None else group).network


def test_a_rank_opens_the_files_of_its_layers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dict(tree_flatten(load_rank(folder, None).parameters()))
    opened: list[Path] = []
    load = mx.load

    def record(file: str, *given: Any, **options: Any) -> Any:
        if Path(file).is_symlink():  # what is no link is a header
            opened.append(Path(file).resolve())
        return load(file, *given, **options)

    monkeypatch.setattr(mx, "load", record)
    for rank in range(_LAYERS):
        opened.clear()
        own = dict(tree_flatten(load_rank(folder, rank).parameters()))
        layer = _LAYERS - 1 - rank  # rank 0 has the last ones
        assert sorted(opened) == [folder / f"model-{layer}.safetensors", folder / "model-rest.safetensors"]
        assert {name.split(".")[2] for name in own if ".layers." in name} == {str(layer)}
        assert all(mx.array_equal(array, whole[name]) for name, array in own.items())


def test_a_hidden_weight_is_never_read_as_something_else(folder: Path) -> None:
    with hide_weights(folder, {"model-1.safetensors"}) as shown:
        network, _ = load_checkpoint(shown)
    assert not shown.exists()
    assert sorted(file.name for file in folder.glob("*.safetensors"))[1] == "model-1.safetensors"
    mx.eval(network.model.layers[0].parameters(), network.model.embed_tokens.parameters())
    with pytest.raises(RuntimeError, match="Unable to read"):
        mx.eval(network.model.layers[1].parameters())


def test_short_stacks_of_layers_are_of_every_rank(tmp_path: Path) -> None:
    files = {"a": ["model.layers.0.w", "model.layers.1.w"], "b": ["model.layers.2.w"], "c": ["adapter.layers.0.w"]}
    for file, names in files.items():
        mx.save_safetensors(str(tmp_path / f"model-{file}.safetensors"), {name: mx.zeros(1) for name in names})
    assert find_files_of_others(tmp_path, range(2), 3) == {"model-b.safetensors"}
    assert find_files_of_others(tmp_path, range(1, 3), 3) == set()
    assert find_files_of_others(tmp_path, range(2, 3), 3) == {"model-a.safetensors"}
