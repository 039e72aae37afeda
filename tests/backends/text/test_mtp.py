"""Loading MTP heads: from the model's own folder or a drafter's, if they fit the model."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_vlm.speculative.drafters.qwen3_5_mtp.split import split_qwen3_5_mtp

from orchard.backends.kernels import fused
from orchard.backends.text.draft import load_draft
from orchard.backends.text.model import TextModel, load_text_model
from orchard.backends.text.mtp import MtpHead, load_head
from orchard.backends.vision.model import load_vision_model as load_seeing
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from tests.support.models import add_head, make_architecture
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import make_vision_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the Qwen3.5 family with a head."""
    folder = tmp_path_factory.mktemp("headed")
    make_architecture(folder, "qwen3_5")
    add_head(folder)
    return folder


@pytest.fixture(scope="module")
def headed(folder: Path) -> TextModel:
    return load_text_model(str(folder))


def said(head: object) -> mx.array:
    """What a head makes of two tokens."""
    assert isinstance(head, MtpHead)
    hidden = head.read(mx.array([[1, 2]]), mx.ones((1, 2, 64)), None, 0)
    return head.logits(hidden)


def test_a_drafters_head_is_that_of_the_folder_it_was_made_from(
    folder: Path, headed: TextModel, tmp_path: Path
) -> None:
    split_qwen3_5_mtp(str(folder), str(tmp_path))
    own = load_draft(str(folder), headed, TextOptions())
    drafters = load_draft("", headed, TextOptions(draft_model_path=str(tmp_path)))
    assert mx.array_equal(said(own), said(drafters))
    assert load_draft(str(folder), headed, TextOptions(speculation="off")) is None


def test_transformers_norms_are_read_as_the_library_does(folder: Path, headed: TextModel, tmp_path: Path) -> None:
    """They are written there as what is to be added to one."""
    make_architecture(tmp_path, "qwen3_5")
    weights: Any = mx.load(str(folder / "model-mtp.safetensors"))
    stored = {name: array - 1 if array.ndim == 1 else array for name, array in weights.items()}
    mx.save_safetensors(str(tmp_path / "mtp.safetensors"), stored)
    found = said(load_draft(str(tmp_path), headed, TextOptions()))
    assert mx.allclose(found, said(load_draft(str(folder), headed, TextOptions())), atol=1e-4)


def test_a_folder_without_a_head(model: TextModel, model_folder: Path, tmp_path: Path, headed: TextModel) -> None:
    make_architecture(tmp_path, "qwen3_5")
    assert load_draft(str(tmp_path), headed, TextOptions()) is None
    assert load_draft(str(model_folder), model, TextOptions()) is None


@pytest.mark.parametrize(("layers", "words"), [(1, "weights do not fit"), (2, "it has 2 layers")])
def test_a_models_own_head_that_cannot_be_used_is_left_out(
    headed: TextModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, layers: int, words: str
) -> None:
    make_architecture(tmp_path, "qwen3_5")
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config"]["mtp_num_hidden_layers"] = layers
    (tmp_path / "config.json").write_text(json.dumps(config))
    add_head(tmp_path, layers=2)
    assert load_draft(str(tmp_path), headed, TextOptions()) is None
    assert "MTP head is not used" in caplog.text
    assert words in caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "glm5_next_mtp"}, "of the kind 'glm5_next_mtp', which is not served"),
        ({"text_config": {}}, "its drafter can't be used: the model in .* can't be loaded"),
        ({"model_file": "evil.py"}, "code of its own"),
    ],
)
def test_a_drafter_that_cannot_be_used(
    folder: Path, headed: TextModel, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    split_qwen3_5_mtp(str(folder), str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(OrchardError, match=words) as caught:
        load_draft("", headed, TextOptions(draft_model_path=str(tmp_path)))
    assert caught.value.kind == "model_failed"


def test_a_head_for_models_of_another_width(folder: Path, model: TextModel, tmp_path: Path) -> None:
    split_qwen3_5_mtp(str(folder), str(tmp_path))
    with pytest.raises(OrchardError, match="its hidden_size is 64, and the model's is 32"):
        load_draft("", model, TextOptions(draft_model_path=str(tmp_path)))


def test_a_quantised_heads_layers_that_read_the_same_are_joined(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    make_vision_model(folder, FAMILIES["qwen3_5"], bits=4)
    add_head(folder)
    head = load_head(load_seeing(str(folder)), folder)
    joined = [name for name, layer in head._draft.named_modules() if isinstance(layer, fused._JoinedLayer)]
    assert {name.rpartition(".")[2] for name in joined} == {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
