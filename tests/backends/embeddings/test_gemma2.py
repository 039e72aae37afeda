"""EmbeddingGemma 2, of which only texts are read: alone and batched, they are mlx-vlm's own vectors."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_vlm.embedding_loader import load_embedding_model
from mlx_vlm.models import embedding_gemma2

from orchard.backends.embeddings.embedder import EmbeddingsService
from orchard.backends.embeddings.service import TokenizedText
from orchard.core.tasks.embed import Embed, EmbeddingOptions
from tests.backends.embeddings.test_service import started
from tests.support.embedding_models import VOCABULARY, make_model
from tests.support.vision_families import FAMILIES

WINDOW = 4
TEXT = {
    "model_type": "embedding_gemma2_text",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_size_per_layer_input": 8,
    "embedding_dim": 48,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "per_layer_config": {"2": {"head_dim": 32}},
    "max_position_embeddings": 128,
}


@pytest.fixture
def gemma2(tmp_path: Path) -> Path:
    """A tiny model that has an encoder of pictures, too."""
    make_model(tmp_path, "bert")
    config = {"model_type": "embedding_gemma2", "text_config": TEXT, "audio_config": None}
    vision = FAMILIES["gemma4"].config["vision_config"]
    mx.random.seed(7)
    network = embedding_gemma2.Model(embedding_gemma2.ModelConfig.from_dict({**config, "vision_config": vision}))
    weights: dict[str, mx.array] = dict(tree_flatten(network.parameters()))
    strong = {name: weight * 6 if weight.ndim == 2 else weight for name, weight in weights.items()}
    mx.save_safetensors(str(tmp_path / "model.safetensors"), strong)
    (tmp_path / "config.json").write_text(json.dumps(config | {"vision_config": vision}))
    return tmp_path


async def test_vectors_are_those_of_mlx_vlm_alone_and_batched(gemma2: Path) -> None:
    lists = [tuple(3 + (7 * place + length) % 60 for place in range(length)) for length in (1, 2, 9, 24, 30)]
    asked = await started(EmbeddingsService(str(gemma2), EmbeddingOptions()))
    network: Any = load_embedding_model(gemma2)
    expected = [np.array(network(mx.array([tokens])).text_embeds[0]) for tokens in lists]
    for name, one, wanted in zip("abcde", lists, expected, strict=True):
        assert (await asked.vectors(name, Embed((one,))))[0] == pytest.approx(wanted, abs=1e-4)
    # All in one pass, where the padding of the shortest is far behind it.
    texts = asked.service._model.compute([TokenizedText(tokens) for tokens in lists])
    assert np.allclose(texts, expected, atol=1e-4)
    assert not np.allclose(expected[3][:40], expected[4][:40], atol=1e-2)
    await asked.service.close(0)


async def test_padding_sees_a_token_too(gemma2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what its places hold may be no numbers, and spoil those of the text."""
    attend, blind = mx.fast.scaled_dot_product_attention, []

    def spy(*args: Any, mask: mx.array, **named: Any) -> mx.array:
        blind.append(not mask.any(axis=-1).all().item())
        return attend(*args, mask=mask, **named)

    asked = await started(EmbeddingsService(str(gemma2), EmbeddingOptions()))
    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", spy)
    asked.service._model.compute([TokenizedText([5]), TokenizedText([5] * 5 * WINDOW)])
    assert blind == [False] * 3
    await asked.service.close(0)


async def test_texts_are_tokenised_and_the_encoders_of_media_are_left_out(gemma2: Path) -> None:
    asked = await started(EmbeddingsService(str(gemma2), EmbeddingOptions()))
    found = await asked.vectors("a", Embed(("w20 w21", (1, 20, 21, 2))))
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert len(found[0]) == 48
    network = asked.service._model._network
    assert network.vision_tower is None
    await asked.service.close(0)
