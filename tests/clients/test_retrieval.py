"""Libraries for retrieval (RAG) with an embedding model that reads 256 tokens, and with a tiny reranker."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import cohere
import httpx
import litellm
import ollama
import openai
import pytest
import voyageai
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder
from haystack.utils import Secret
from haystack_integrations.components.rankers.cohere import CohereRanker
from langchain_ollama import OllamaEmbeddings
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

from tests.clients.starting import started
from tests.clients.test_docs import COMMANDS, FOLDERS
from tests.clients.test_open_webui import open_webui
from tests.support.embedding_models import MINILM, make_model

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
SECTION = PAGE.read_text().partition("## Embeddings and reranking")[2].partition("\n## ")[0]
SNIPPETS = re.findall(r"^```(python|js)\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("retrieval")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """The base URL, without /v1, of a server with both models. Its log is in the folder."""
    make_model(folder / "ranker", "bert_ranker")
    (folder / "config.yaml").write_text(CONFIG)
    with started([os.environ["ORCHARD"], "serve", "--config", "config.yaml"], folder, _is_ready) as address:
        yield address


def _is_ready(url: str) -> bool:
    return all(model["state"] == "ready" for model in httpx.get(f"{url}/health").json()["models"].values())


@pytest.fixture(scope="module")
def expected(url: str) -> list[list[float]]:
    """The vectors of TEXTS."""
    body = {"model": EMBEDDER, "input": TEXTS}
    answer = httpx.post(f"{url}/v1/embeddings", json=body, timeout=60).json()
    return [one["embedding"] for one in answer["data"]]


def test_langchain(url: str, expected: list[list[float]]) -> None:
    made = OpenAIEmbeddings(
        model=EMBEDDER, base_url=f"{url}/v1", api_key="none", check_embedding_ctx_length=False
    ).embed_documents(TEXTS)
    assert made == [pytest.approx(one, abs=1e-5) for one in expected]


def test_langchains_ollama(url: str, expected: list[list[float]]) -> None:
    assert OllamaEmbeddings(model=EMBEDDER, base_url=url).embed_documents(TEXTS) == [
        pytest.approx(one, abs=1e-5) for one in expected
    ]


def test_ollama(url: str, expected: list[list[float]]) -> None:
    client = ollama.Client(host=url, timeout=60)
    made = client.embed(EMBEDDER, TEXTS)
    assert [list(one) for one in made.embeddings] == [pytest.approx(one, abs=1e-5) for one in expected]
    assert made.prompt_eval_count
    assert list(client.embeddings(EMBEDDER, TEXTS[0]).embedding) == pytest.approx(expected[0], abs=1e-5)
    shown = client.show(EMBEDDER)
    assert shown.capabilities == ["embedding"]


def test_langchains_token_ids(
    url: str, folder: Path, expected: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, it sends ids of OpenAI's tokenizer: the vectors are others, or the model lacks the tokens."""
    brought = Path(litellm.__file__).parent / "litellm_core_utils" / "tokenizers"  # else it would be downloaded
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(brought))
    model = OpenAIEmbeddings(model=EMBEDDER, base_url=f"{url}/v1", api_key="none")
    for _ in range(2):
        assert model.embed_documents([LONG]) != [pytest.approx(expected[1], abs=0.01)]
    assert (folder / "log").read_text().count(f"sends token ids to embed to model '{EMBEDDER}', not text") == 1
    with pytest.raises(openai.BadRequestError, match=r"has the token \d+; this model's tokens are 0 to 30521"):
        model.embed_documents(["A cat sleeps."])


def test_llama_index(url: str, expected: list[list[float]]) -> None:
    model = OpenAILikeEmbedding(model_name=EMBEDDER, api_base=f"{url}/v1", api_key="none")
    assert model.get_text_embedding_batch(TEXTS) == [pytest.approx(one, abs=1e-5) for one in expected]


def test_haystack(url: str, expected: list[list[float]]) -> None:
    embedder = OpenAIDocumentEmbedder(model=EMBEDDER, api_base_url=f"{url}/v1", api_key=Secret.from_token("none"))
    made = embedder.run([Document(content=text) for text in TEXTS])["documents"]
    assert [one.embedding for one in made] == [pytest.approx(one, abs=1e-5) for one in expected]


QUERY = "w20 w21"
DOCUMENTS = ["w30 w31", "w20 w21", "w40 " * 100]


@pytest.fixture(scope="module")
def ranked(url: str) -> list[tuple[int, float]]:
    """The documents in order, with their scores; the last of DOCUMENTS is longer than the model can read."""
    body = {"model": RANKER, "query": QUERY, "documents": DOCUMENTS}
    answer = httpx.post(f"{url}/v1/rerank", json=body, timeout=60).json()
    found = [(one["index"], one["relevance_score"]) for one in answer["results"]]
    assert {index for index, _ in found} == {0, 1, 2}
    return found


def test_cohere(url: str, ranked: list[tuple[int, float]]) -> None:
    client = cohere.ClientV2(base_url=url, api_key="none")
    answer = client.rerank(model=RANKER, query=QUERY, documents=DOCUMENTS, max_tokens_per_doc=4096)
    assert [(one.index, one.relevance_score) for one in answer.results] == ranked
    assert answer.meta
    assert answer.meta.api_version
    assert answer.meta.billed_units
    assert (answer.meta.api_version.version, answer.meta.billed_units.search_units) == ("2", 1)


def test_coheres_first_api(url: str, ranked: list[tuple[int, float]]) -> None:
    with cohere.Client(base_url=url, api_key="none") as client:
        answer = client.rerank(
            model=RANKER, query=QUERY, documents=DOCUMENTS, max_chunks_per_doc=10, return_documents=True
        )
    assert [one.document.text for one in answer.results if one.document] == [
        DOCUMENTS[one.index] for one in answer.results
    ]
    scores = {one.index: one.relevance_score for one in answer.results}
    wanted = dict(ranked)
    assert [scores[0], scores[1]] == pytest.approx([wanted[0], wanted[1]], abs=1e-5)
    assert scores[2] >= wanted[2] - 1e-5  # the best of its pieces
    assert answer.meta
    assert answer.meta.api_version
    assert answer.meta.api_version.version == "1"


def test_haystacks_ranker(url: str, ranked: list[tuple[int, float]]) -> None:
    ranker = CohereRanker(model=RANKER, api_base_url=url, api_key=Secret.from_token("none"), max_tokens_per_doc=4096)
    answer = ranker.run(QUERY, [Document(content=text) for text in DOCUMENTS])
    assert [(one.content, one.score) for one in answer["documents"]] == [(DOCUMENTS[at], score) for at, score in ranked]


def test_voyage(url: str, ranked: list[tuple[int, float]]) -> None:
    answer = voyageai.Client(base_url=f"{url}/v1", api_key="none").rerank(QUERY, DOCUMENTS, model=RANKER)
    assert [(one.index, one.relevance_score) for one in answer.results] == ranked
    assert answer.total_tokens > 0


@pytest.mark.parametrize("provider", ["cohere", "hosted_vllm", "infinity", "huggingface", "voyage"])
def test_litellm(url: str, ranked: list[tuple[int, float]], provider: str) -> None:
    answer = litellm.rerank(
        model=f"{provider}/{RANKER}",
        query=QUERY,
        documents=DOCUMENTS,
        top_n=2,
        return_documents=False,
        api_base=f"{url}/v1/rerank" if provider == "cohere" else url,
        api_key="none",
    )
    assert [(one["index"], one["relevance_score"]) for one in answer.results] == ranked[:2]


def test_open_webui(url: str, tmp_path: Path) -> None:
    """It cuts a document into pieces that are too long for the embedding model, and orders them by the reranker."""
    document = {"name": "words.txt", "content": " ".join(["w30"] * 300 + ["w40"] * 300), "collection_name": "words"}
    query = {"collection_name": "words", "query": QUERY, "k": 9, "k_reranker": 9, "r": 0.0, "hybrid": True}
    with open_webui(url, tmp_path) as client:
        for path, body in (("process/text", document), ("query/doc", query)):
            answer = client.post(f"/api/v1/retrieval/{path}", json=body)
            assert answer.status_code == 200, answer.text
    (pieces,), (scores,) = (answer.json()[name] for name in ("documents", "distances"))
    assert len(pieces) > 2
    ranked = httpx.post(f"{url}/v1/rerank", json={"model": RANKER, "query": QUERY, "documents": pieces}).json()
    assert scores == pytest.approx([one["relevance_score"] for one in ranked["results"]], abs=1e-6)


@pytest.mark.parametrize(("language", "code"), SNIPPETS)
def test_a_snippet(url: str, language: str, code: str) -> None:
    code = code.replace("http://127.0.0.1:8000", url)
    run = subprocess.run(
        COMMANDS[language], input=code, cwd=FOLDERS[language], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"384|0\.\d+", run.stdout)
