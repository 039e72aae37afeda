"""What sentence-transformers' files say of a model, and the vectors that come of it."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from orchard.backends.embeddings.embedder import Embedder, EmbeddingsService
from orchard.backends.embeddings.folder import VectorRecipe, read_recipe
from orchard.backends.embeddings.pooling import activate, pool
from orchard.backends.embeddings.service import TokenizedText
from orchard.core.errors import OrchardError
from orchard.core.tasks.embed import Embed, EmbeddingOptions
from tests.support.embedding_models import MINILM, make_model

HIDDEN = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
LENGTHS = (4, 2)
WAYS: dict[str, Any] = {
    "cls": lambda rows: rows[0],
    "lasttoken": lambda rows: rows[-1],
    "max": lambda rows: rows.max(axis=0),
    "mean": lambda rows: rows.mean(axis=0),
    "mean_sqrt_len_tokens": lambda rows: rows.sum(axis=0) / np.sqrt(len(rows)),
    "weightedmean": lambda rows: np.average(rows, axis=0, weights=np.arange(len(rows)) + 1),
}


def write(folder: Path, **files: Any) -> Path:
    """Write JSON files; two underscores in a name stand for a slash."""
    for name, content in files.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    return folder


def modules(*kinds: str) -> list[dict[str, Any]]:
    prefix = "sentence_transformers.models."
    return [{"idx": at, "path": f"{at}_{kind}" if at else "", "type": prefix + kind} for at, kind in enumerate(kinds)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
def test_pooling_takes_a_texts_own_tokens_alone(way: str, dtype: mx.Dtype) -> None:
    mask = mx.array([[1] * length + [0] * (4 - length) for length in LENGTHS])
    found = np.array(pool(mx.array(HIDDEN).astype(dtype), mask, [way]))
    wanted = np.stack([WAYS[way](rows[:length]) for rows, length in zip(HIDDEN, LENGTHS, strict=True)])
    assert found == pytest.approx(wanted, abs=1e-5 if dtype == mx.float32 else 2e-3)


def test_several_ways_are_joined() -> None:
    mask = mx.ones((2, 4), mx.int32)
    both = np.array(pool(mx.array(HIDDEN), mask, ["cls", "max"]))
    assert both == pytest.approx(np.concatenate([HIDDEN[:, 0], HIDDEN.max(axis=1)], axis=1))


def test_activation_functions() -> None:
    given = mx.array([-1.0, 0.0, 2.0])
    wanted = {
        "Identity": [-1, 0, 2],
        "Tanh": [-0.761594, 0, 0.964028],
        "ReLU": [0, 0, 2],
        "GELU": [-0.158655, 0, 1.954500],
        "Sigmoid": [0.268941, 0.5, 0.880797],
    }
    for name, values in wanted.items():
        assert np.array(activate(given, name)) == pytest.approx(values, abs=1e-5)


def test_minilm_is_read_as_its_files_say() -> None:
    assert read_recipe(MINILM, {"model_type": "bert"}) == VectorRecipe(pooling=("mean",), max_tokens=256)


@pytest.mark.parametrize(
    ("config", "files", "wanted"),
    [
        ({"model_type": "bert"}, {}, VectorRecipe(pooling=("mean",))),
        ({"model_type": "qwen3"}, {}, VectorRecipe(pooling=("lasttoken",), matryoshka=True)),
        ({"matryoshka_dimensions": [64, 32]}, {}, VectorRecipe(pooling=("mean",), matryoshka=True, sizes=(32, 64))),
        (
            {},
            {
                "modules": modules("Transformer", "Pooling"),
                "1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
                "sentence_bert_config": {"max_seq_length": None, "do_lower_case": True},
            },
            VectorRecipe(pooling=("cls", "max"), normalize=False, lower=True),
        ),
        (
            {},
            {"modules": modules("Transformer", "Pooling", "Normalize"), "1_Pooling__config": {"pooling_mode": "max"}},
            VectorRecipe(pooling=("max",)),
        ),
        (
            {},
            {"config_sentence_transformers": {"prompts": {"q": "Q: "}, "default_prompt_name": "q"}},
            VectorRecipe(pooling=("mean",), prompts={"q": "Q: "}, prompt="q"),
        ),
    ],
)
def test_how_vectors_are_made(tmp_path: Path, config: dict[str, Any], files: dict[str, Any], wanted: object) -> None:
    assert read_recipe(write(tmp_path, **files), config) == wanted


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"modules": modules("Transformer", "WordWeights")}, "modules of the type sentence_transformers.models.WordW"),
        ({"modules": [1]}, "can't be used"),
        ({"modules": {"a": 1}}, "can't be used"),
        ({"modules": modules("Pooling"), "_Pooling__config": {}, "config_sentence_transformers": 7}, "can't be used"),
        ({"modules": modules("T", "Pooling"), "1_Pooling__config": {"pooling_mode": "attention"}}, "type sentence_tr"),
        (
            {"modules": modules("Transformer", "Pooling"), "1_Pooling__config": {"pooling_mode": "attention"}},
            "its pooling attention is not known",
        ),
        (
            {"modules": modules("Transformer", "Dense"), "1_Dense__config": {"activation_function": "torch.nn.Mish"}},
            "the activation function Mish",
        ),
        ({"config_sentence_transformers": {"default_prompt_name": "q"}}, "the default prompt 'q' is none of"),
        (
            {
                "modules": modules("Transformer", "Pooling"),
                "1_Pooling__config": {"include_prompt": False},
                "config_sentence_transformers": {"prompts": {"q": "Q"}},
            },
            "leave the prompt out",
        ),
    ],
)
def test_what_cannot_be_followed_is_an_error(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read_recipe(write(tmp_path, **files), {})
    assert caught.value.kind == "model_failed"
    assert words in caught.value.message


def load(folder: Path) -> Embedder:
    model = EmbeddingsService._load(folder, EmbeddingOptions(), lambda fraction: None, lambda: None)
    assert isinstance(model, Embedder)
    return model


def test_a_dense_layer_and_no_normalising(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "bert")
    plain = write(folder, modules=modules("Transformer", "Pooling"), **{"1_Pooling__config": {}})
    (before,) = load(plain).compute([TokenizedText([5, 6, 7])])
    assert abs(np.linalg.norm(before) - 1) > 0.1
    write(folder, modules=modules("Transformer", "Pooling", "Dense"), **{"2_Dense__config": {"bias": True}})
    with pytest.raises(OrchardError, match="weights of its 2_Dense are missing"):
        load(folder)
    weight, bias = mx.random.normal((5, 16)), mx.random.normal((5,))
    mx.save_safetensors(str(folder / "2_Dense" / "model.safetensors"), {"linear.weight": weight, "linear.bias": bias})
    (after,) = load(folder).compute([TokenizedText([5, 6, 7])])
    assert after == pytest.approx(np.tanh(np.array(weight) @ before + np.array(bias)), abs=1e-4)


def test_texts_become_lower_case_where_the_files_say_so(tmp_path: Path) -> None:
    model = load(make_model(tmp_path, "bert", sentence_bert_config={"do_lower_case": True}))
    assert [text.tokens for text in model.read_task(Embed(("W20 W21",)))] == [[1, 20, 21, 2]]
