"""Libraries for retrieval (RAG) with an embedding model that reads 256 tokens, and with a tiny reranker."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder
from haystack.utils import Secret
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

from tests.clients.starting import started
from tests.support.embedding_models import MINILM, make_model

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
SECTION = PAGE.read_text().partition("## Embeddings and reranking")[2].partition("\n## ")[0]
SNIPPETS = re.findall(r"^```python\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
EMBEDDER, RANKER = "all-MiniLM-L6-v2", "bge-reranker-v2-m3"  # the names in the documentation
CONFIG = f"""
server: {{responses_path: ":memory:"}}
models:
  - {{model_path: {MINILM}, served_model_name: {EMBEDDER}, embeddings_truncate: true}}
  - {{model_path: ranker, served_model_name: {RANKER}}}
"""
LONG = "The sea is blue. " * 90
TEXTS = ["A cat sleeps.", LONG]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL, without /v1, of a server with both models."""
    folder = tmp_path_factory.mktemp("retrieval")
    make_model(folder / "ranker", "bert_ranker")
    (folder / "config.yaml").write_text(CONFIG)
    with started([os.environ["ORCHARD"], "serve", "--config", "config.yaml"], folder, _is_ready) as address:
        yield address


def _is_ready(url: str) -> bool:
    return all(model["state"] == "ready" for model in httpx.get(f"{url}/health").json()["models"].values())


@pytest.fixture(scope="module")
def expected(url: str) -> list[list[float]]:
    """The vectors of TEXTS."""
    answer = httpx.post(f"{url}/v1/embeddings", json={"model": EMBEDDER, "input": TEXTS}).json()
    return [one["embedding"] for one in answer["data"]]


def test_langchain(url: str, expected: list[list[float]]) -> None:
    made = OpenAIEmbeddings(
        model=EMBEDDER, base_url=f"{url}/v1", api_key="none", check_embedding_ctx_length=False
    ).embed_documents(TEXTS)
    assert made == [pytest.approx(one, abs=1e-5) for one in expected]


def test_llama_index(url: str, expected: list[list[float]]) -> None:
    model = OpenAILikeEmbedding(model_name=EMBEDDER, api_base=f"{url}/v1", api_key="none")
    assert model.get_text_embedding_batch(TEXTS) == [pytest.approx(one, abs=1e-5) for one in expected]


def test_haystack(url: str, expected: list[list[float]]) -> None:
    embedder = OpenAIDocumentEmbedder(model=EMBEDDER, api_base_url=f"{url}/v1", api_key=Secret.from_token("none"))
    made = embedder.run([Document(content=text) for text in TEXTS])["documents"]
    assert [one.embedding for one in made] == [pytest.approx(one, abs=1e-5) for one in expected]


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_snippet(url: str, code: str) -> None:
    code = code.replace("http://127.0.0.1:8000", url)
    run = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert re.search(r"384|0\.\d+", run.stdout)
