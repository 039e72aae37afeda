"""Inputs of millions of characters cost what a model can read of them, and smaller requests overtake them."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from tokenizers import Encoding

from orchard.backends.embeddings.embedder import EmbeddingsService
from orchard.config import ModelSettings
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed, EmbeddingOptions
from orchard.core.tasks.text_options import TextOptions
from tests.support.embedding_models import MINILM, make_model
from tests.support.serving import Server, serve

_WORD = "x" * 15_000  # one unknown token, which takes as long to read as thousands of known ones
_WORDS = [_WORD] * 1999
_TOO_LONG = "the " * 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    ranker = make_model(tmp_path_factory.mktemp("models") / "ranker", "bert_ranker")
    models = (
        ModelSettings(model_path=str(MINILM), served_model_name="minilm"),
        ModelSettings(model_path=str(ranker), served_model_name="ranker", on_demand=True),
        ModelSettings(model_path="demo", text=TextOptions(embeddings=True), on_demand=True),
    )
    with serve((), models=models, spare=False, max_loaded_models=3) as running:
        running.until("minilm", state="ready")
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.url}/v1", timeout=100) as client:
        yield client


@pytest.mark.parametrize("end", ["a", *(pytest.param(end, marks=pytest.mark.deep) for end in (" a", "中"))])
def test_a_text_of_millions_of_letters_is_refused_or_cut(client: httpx.Client, end: str) -> None:
    body = {"model": "minilm", "input": "a" * 10_000_000 + end * 5_000_000}
    refused = client.post("/embeddings", json=body)
    assert refused.status_code == 400
    assert "`input` has more than 65,536 characters" in refused.json()["error"]["message"]
    cut, short = (
        client.post("/embeddings", json=body | {"input": text, "truncate": True}).json()
        for text in (body["input"], "a" * 1000)
    )
    assert cut["data"] == short["data"]  # what is left of both is one unknown word


# What makes each wrong comes last.
HUGE: dict[str, tuple[str, dict[str, Any]]] = {
    "minilm": ("/embeddings", {"input": [*_WORDS, _TOO_LONG]}),
    "ranker": ("/rerank", {"query": "a", "documents": [*_WORDS, _TOO_LONG], "truncate": False}),
    "demo": ("/embeddings", {"input": [*_WORDS, "the " * 40_000]}),
}
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "minilm": ("/embeddings", {"input": "Hello"}),
    "ranker": ("/rerank", {"query": "a", "documents": ["Hello"]}),
    "demo": ("/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}),
}


@pytest.mark.parametrize(
    "model", ["minilm", *(pytest.param(model, marks=pytest.mark.deep) for model in ("ranker", "demo"))]
)
async def test_a_small_request_overtakes_a_huge_one_whose_sender_then_leaves(server: Server, model: str) -> None:
    async with httpx.AsyncClient(base_url=f"{server.url}/v1", timeout=100) as client:

        async def ask(path: str, body: dict[str, Any]) -> int:
            return (await client.post(path, json={"model": model} | body)).status_code

        assert await ask(*SMALL[model]) == 200
        huge = asyncio.create_task(ask(*HUGE[model]))
        await asyncio.to_thread(server.until, model, waiting=1)
        assert await ask(*SMALL[model]) == 200
        assert not huge.done()
        huge.cancel()
        await asyncio.to_thread(server.until, model, waiting=0, running=0)
        assert await ask(*SMALL[model]) == 200


class Gated:
    """MiniLM's tokenizer, which waits before its second batch, and counts the texts that it has read."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.reached, self.go = threading.Event(), threading.Event()
        self.texts = 0

    def encode_batch(self, texts: Sequence[Any]) -> list[Encoding]:
        if self.texts:
            self.reached.set()
            assert self.go.wait(60)
        self.texts += len(texts)
        found: list[Encoding] = self._tokenizer.encode_batch(texts)
        return found


async def test_the_work_for_a_sender_that_leaves_ends() -> None:
    service = EmbeddingsService(str(MINILM), EmbeddingOptions())
    await service.start(lambda events, running, waiting: None, lambda fraction: None)
    try:
        texts: Any = vars(service._model)["_texts"]
        gated = texts._tokenizer = Gated(texts._tokenizer)
        service.submit(Request("huge", "minilm", Embed(tuple(_WORDS))))
        assert await asyncio.to_thread(gated.reached.wait, 60)
        service.cancel("huge")
        gated.go.set()
        await service._reader.do(lambda: None, yield_seconds=1000)  # this is too large to overtake
        assert 0 < gated.texts < 20
    finally:
        await service.close(0)
