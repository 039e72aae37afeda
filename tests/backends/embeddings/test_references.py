"""The vectors and scores that torch makes of the same texts: `python -m tools.embedding_references` wrote them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from tools.embedding_references.texts import COUNT, PAIRS, texts, token_lists

from orchard.backends.embeddings.embedder import EmbeddingsService
from orchard.backends.embeddings.networks import _bidirectional_masks
from orchard.backends.embeddings.reranker import RerankService
from orchard.backends.embeddings.service import PassModel, TokenizedText
from orchard.core.tasks.embed import Embed, EmbeddingOptions
from orchard.core.tasks.rerank import RerankOptions
from tests.support.embedding_models import MINILM, ROOT, VOCABULARY, expected, make_model
from tests.support.examples import some

EMBEDDERS = ["bert", "gemma3_text", "modernbert", "qwen3", "xlm_roberta"]
RANKERS = ["bert_ranker", "modernbert_ranker", "qwen3_ranker", "xlm_roberta_ranker"]


def load(folder: Path, *, ranks: bool = False) -> PassModel:
    if ranks:
        return RerankService._load(folder, RerankOptions(), lambda fraction: None, lambda: None)
    return EmbeddingsService._load(folder, EmbeddingOptions(), lambda fraction: None, lambda: None)


@pytest.mark.parametrize("name", [*EMBEDDERS, *RANKERS])
def test_tiny_models_give_what_torch_gives_alone_and_batched(name: str, tmp_path: Path) -> None:
    model = load(make_model(tmp_path, name), ranks=name in RANKERS)
    read = [TokenizedText(tokens, [0] * len(tokens)) for tokens in token_lists(VOCABULARY)]
    wanted = np.array(expected(name))
    for found in (model.compute(read), [model.compute([one])[0] for one in read]):
        assert np.array(found).reshape(wanted.shape) == pytest.approx(wanted, abs=1e-5)


def test_all_references_are_compared() -> None:
    assert sorted(one.name for one in ROOT.iterdir() if one.is_dir()) == sorted(EMBEDDERS + RANKERS)
    assert sum(file.stat().st_size for file in ROOT.rglob("*.*")) < 2**20


def test_no_token_sees_nothing() -> None:
    """A softmax over nothing is NaN, which spreads."""
    for mask in _bidirectional_masks(mx.array([[1] * 20, [1] + [0] * 19]), 2):
        assert np.array(mask).any(axis=-1).all()


@pytest.fixture(scope="module")
def minilm() -> PassModel:
    return load(MINILM)


@pytest.fixture(scope="module")
def references() -> Any:
    return np.load(ROOT / "minilm.npy").astype(np.float32)


def read(model: PassModel, given: Sequence[str]) -> list[TokenizedText]:
    return model.read_task(Embed(tuple(given), truncate=True))


def distances(found: Any, wanted: Any) -> Any:
    both = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return 1 - (found * wanted).sum(axis=1) / both


def test_minilm_gives_its_reference_vectors_alone_and_batched(minilm: PassModel, references: Any) -> None:
    places = some(range(COUNT), 18)
    given = texts()
    tokens = read(minilm, [given[place] for place in places])
    assert max(len(one.tokens) for one in tokens) == 256, "one is cut where the model's files say"
    assert min(len(one.tokens) for one in tokens) < 8
    alone = np.array([minilm.compute([one])[0] for one in tokens])
    assert distances(alone, references[list(places)]).max() < 1e-3
    by_length = sorted(range(len(tokens)), key=lambda index: len(tokens[index].tokens))
    batched = np.zeros_like(alone)
    for start in range(0, len(by_length), 6):
        rows = by_length[start : start + 6]
        batched[rows] = minilm.compute([tokens[row] for row in rows])
    assert distances(batched, references[list(places)]).max() < 1e-3
    assert np.abs(np.linalg.norm(batched, axis=1) - 1).max() < 1e-5


def test_a_sentence_is_nearest_to_what_says_the_same(minilm: PassModel, references: Any) -> None:
    sentences = [sentence for pair in PAIRS for sentence in pair]
    found = np.array(minilm.compute(read(minilm, sentences)))
    near = found @ found.T - 2 * np.eye(len(sentences))
    assert near.argmax(axis=1).tolist() == [place ^ 1 for place in range(len(sentences))]
    wanted = references[COUNT:] @ references[COUNT:].T - 2 * np.eye(len(sentences))
    assert np.abs(near - wanted).max() < 5e-3
