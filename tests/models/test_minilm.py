"""MiniLM's vectors are those of CTranslate2, and find what a text is about."""

import numpy as np
import pytest

from orchard.backends.embeddings.embedder import EmbeddingsService
from orchard.core.tasks.embed import Embed, EmbeddingOptions
from tests.models.conftest import Record
from tests.support.embedding_models import MINILM


def test_vectors_are_those_of_ctranslate2_to_the_sixth_decimal(record: Record) -> None:
    expected = record("minilm")
    model = EmbeddingsService._load(MINILM, EmbeddingOptions(), lambda fraction: None, lambda: None)
    texts = model.read_task(Embed(tuple(expected["texts"])))
    for found in (model.compute(texts), [model.compute([text])[0] for text in texts]):
        assert np.array(found) == pytest.approx(np.array(expected["vectors"]), abs=1e-6)
