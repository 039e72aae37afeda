"""The last hidden states are what a network's inner part, of whatever name, gives to its output layer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn

from orchard.backends.output_layer import OutputLayer
from orchard.backends.text import model as text
from orchard.backends.text.model import load_text_model
from orchard.backends.vision import model as vision
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from tests.support.models import ARCHITECTURES, PECULIAR, make_architecture
from tests.support.tiny_models import check_close
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import vision_folder

__all__ = ["vision_folder"]

TOKENS = mx.array([[5, 6, 7, 8, 300]], mx.uint32)
EMBEDDINGS = TextOptions(embeddings=True)
SOFTCAP = 30.0


def inner(network: Any) -> Any:
    """What computes the hidden states, by the names that mlx-lm's models have for it."""
    while hasattr(network, "language_model"):
        network = network.language_model
    return getattr(network, "model", None) or network.backbone


@pytest.mark.parametrize("kind", sorted((ARCHITECTURES | PECULIAR).keys() - {"gemma3n"}))
def test_hidden_states_of_text_models(kind: str, tmp_path: Path) -> None:
    make_architecture(tmp_path, kind)
    model = load_text_model(str(tmp_path), EMBEDDINGS)
    expected = inner(model.network)(TOKENS, cache=model.new_cache())
    assert model.output
    assert expected.shape[-1] == model.output.width
    check_close(model.hidden_states(TOKENS, model.new_cache()), expected, kind)


def test_hidden_states_where_the_inner_part_has_other_arguments(tmp_path: Path) -> None:
    make_architecture(tmp_path, "gemma3n")
    model = load_text_model(str(tmp_path), EMBEDDINGS)
    hidden = model.hidden_states(TOKENS, model.new_cache())
    logits = model.network.model.language_model.embed_tokens.as_linear(hidden)
    check_close(mx.tanh(logits / SOFTCAP) * SOFTCAP, model.forward(TOKENS, model.new_cache()))


@pytest.mark.parametrize("family", ["qwen3_vl", "idefics3", "gemma3"])
def test_hidden_states_of_vision_models(family: str, vision_folder: Callable[[str], Path]) -> None:
    model = vision.load_vision_model(str(vision_folder(family)), EMBEDDINGS)
    hidden = model.hidden_states(TOKENS, model.new_cache())
    assert hidden.shape == (1, 5, FAMILIES[family].config["text_config"]["hidden_size"])
    language = model.network.language_model
    head = language.lm_head if "lm_head" in language else language.model.embed_tokens.as_linear
    check_close(head(hidden), model.forward(TOKENS, model.new_cache()))


@pytest.mark.parametrize("kind", sorted(ARCHITECTURES | PECULIAR))
def test_logits_after_one_token_of_each_row(kind: str, tmp_path: Path) -> None:
    make_architecture(tmp_path, kind)
    model = load_text_model(str(tmp_path))
    assert model.logits_at
    both = mx.concatenate([TOKENS, TOKENS[:, ::-1]])
    expected = model.forward(both, model.new_cache())
    for places in ([4, 1], [0, 0]):
        made = model.logits_at(both, model.new_cache(), mx.array(places))
        check_close(made, expected[mx.arange(2), mx.array(places)], kind)
    check_close(
        model.logits_at(TOKENS, model.new_cache(), mx.array([3])), model.forward(TOKENS, model.new_cache())[:, 3], kind
    )


def test_logits_of_a_vision_model(vision_folder: Callable[[str], Path]) -> None:
    model = vision.load_vision_model(str(vision_folder("qwen3_vl")))
    assert model.logits_at
    check_close(
        model.logits_at(TOKENS, model.new_cache(), mx.array([3])), model.forward(TOKENS, model.new_cache())[:, 3]
    )


def test_a_pass_for_hidden_states_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    make_architecture(tmp_path, "qwen3")
    model = load_text_model(str(tmp_path), EMBEDDINGS)
    kinds = [type(module) for module in model.network.modules()]
    logits = model.forward(TOKENS, model.new_cache())
    model.hidden_states(TOKENS, model.new_cache())
    assert model.logits_at
    model.logits_at(TOKENS, model.new_cache(), mx.array([0]))
    assert [type(module) for module in model.network.modules()] == kinds
    assert mx.array_equal(model.forward(TOKENS, model.new_cache()), logits)


class Adapted(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.added = mx.ones((4, 6))

    def __call__(self, inputs: mx.array) -> mx.array:
        made: mx.array = self.layer(inputs) + inputs @ self.added
        return made


def test_a_network_that_adds_to_its_output_layer() -> None:
    """The sum would be that of two tokens."""
    network = Adapted()
    output = OutputLayer(network, lambda: network(mx.zeros((1, 1, 4))))
    with pytest.raises(ValueError, match="not the output of one layer"):
        output.run_at(lambda: network(mx.zeros((1, 3, 4))), mx.array([2]))


def test_a_network_without_an_output_layer() -> None:
    layer = nn.Linear(4, 6)
    with pytest.raises(ValueError, match="makes its logits"):
        OutputLayer(layer, lambda: layer(mx.zeros((1, 1, 4)))[..., :5])


def test_a_model_without_an_output_layer_fails_to_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_architecture(tmp_path, "qwen3")
    made = text._MLX_LM._replace(run=lambda network: text._run_one_token(network)[..., :-1])
    monkeypatch.setattr(text, "_MLX_LM", made)
    with pytest.raises(OrchardError, match="can't give embeddings, as the option `embeddings` says: none of its"):
        load_text_model(str(tmp_path), EMBEDDINGS)
