"""GGUF files, imported as users get them, read and write what llama.cpp does."""

import hashlib
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from transformers import AutoTokenizer

from orchard.backends.text.model import load_text_model
from orchard.gguf_import.process import run_job
from orchard.gguf_job import ImportJob
from tests.gguf_import.texts import digest, mixed_texts
from tests.models import sources
from tests.models.conftest import Record
from tests.models.test_language_models import GIVEN

PARTS = {"smollm2": sources.SMOLLM2, "gemma3": sources.GEMMA3}
# How much less likely than llama.cpp's token another one may be, in logprobs: weights in Q6_K are quantised again, and
# Gemma's scales are rounded to bfloat16.
TIE = {"smollm2": 0.01, "gemma3": 0.3}


@pytest.fixture(scope="module", params=PARTS)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("imported") / request.param
    folder.mkdir()
    file = sources.join(PARTS[request.param], folder.with_suffix(".gguf"))
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    report = run_job(ImportJob(files=[str(file)], folder=str(folder)), lambda report: None)
    assert report.is_whole, report.failed
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    return folder


@pytest.mark.timeout(600)
def test_two_thousand_texts_have_the_tokens_of_llama_cpp(imported: Path, record: Record) -> None:
    tokenizer = AutoTokenizer.from_pretrained(imported)
    assert digest(tokenizer.encode(text) for text in mixed_texts(2000)) == record(imported.name)["mixed"]


@pytest.mark.timeout(600)
def test_greedy_answers_are_those_of_llama_cpp_but_for_near_ties(imported: Path, record: Record) -> None:
    model = load_text_model(str(imported))
    tokenizer = AutoTokenizer.from_pretrained(imported)
    for text, answer in zip(GIVEN[imported.name], record(imported.name)["answers"], strict=True):
        tokens = tokenizer.encode(text)
        best = [row[0][0] for row in answer["top"]]
        logits = np.array(model.forward(mx.array([tokens + best[:-1]]), model.new_cache())[0, len(tokens) - 1 :])
        for row, expected in zip(logits, answer["top"], strict=True):
            known = dict(expected)
            found = int(row.argmax())
            assert known.get(found, -100) > expected[0][1] - TIE[imported.name]
