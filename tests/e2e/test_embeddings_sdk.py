"""Embeddings through the official openai SDK, and reranking, beside a text model."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai import AzureOpenAI, OpenAI
from tools.embedding_references.texts import COUNT, PAIRS

from orchard.config import ModelSettings
from orchard.core.tasks.text_options import TextOptions
from tests.support.embedding_models import MINILM, ROOT, make_model
from tests.support.fuzzing import AMOUNT, fuzz, sent_to
from tests.support.serving import Server, serve

SENTENCES = [sentence for pair in PAIRS for sentence in pair]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "log"


@pytest.fixture(scope="module")
def embedding_server(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Server]:
    ranker = make_model(tmp_path_factory.mktemp("models") / "ranker", "bert_ranker")
    named = [
        ModelSettings(model_path=str(MINILM), served_model_name="minilm"),
        ModelSettings(model_path=str(ranker), served_model_name="ranker"),
        ModelSettings(model_path="demo", text=TextOptions(embeddings=True)),
        ModelSettings(model_path="demo", served_model_name="plain", on_demand=True),
    ]
    with serve((), models=tuple(named), spare=False, max_loaded_models=3, log_file=str(log)) as running:
        running.until("minilm", state="ready")
        yield running


@pytest.fixture
def sdk(embedding_server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{embedding_server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def vectors(answer: Any) -> Any:
    assert [one.index for one in answer.data] == list(range(len(answer.data)))
    return np.array([one.embedding for one in answer.data])


def test_minilms_vectors_in_the_sdks_default_format(sdk: OpenAI) -> None:
    answer = sdk.embeddings.create(model="minilm", input=SENTENCES)
    found, wanted = vectors(answer), np.load(ROOT / "minilm.npy").astype(np.float32)[COUNT:]
    assert (1 - (found * wanted).sum(axis=1) / np.linalg.norm(wanted, axis=1)).max() < 1e-3
    near = found @ found.T - 2 * np.eye(len(found))
    assert near.argmax(axis=1).tolist() == [place ^ 1 for place in range(len(found))]
    assert answer.model == "minilm"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 5 * len(SENTENCES)


def test_all_forms_of_input_give_the_same(sdk: OpenAI) -> None:
    tokens = [101, 7592, 2088, 102]  # [CLS] hello world [SEP]
    inputs: list[Any] = ["hello world", ["hello world"], tokens, [tokens]]
    found = [vectors(sdk.embeddings.create(model="minilm", input=one)) for one in inputs]
    found.append(vectors(sdk.embeddings.create(model="minilm", input="hello world", encoding_format="float")))
    for one in found:
        assert one.shape == (1, 384)
        assert one == pytest.approx(found[0], abs=1e-5)


def test_the_log_says_once_that_token_ids_came(sdk: OpenAI, log: Path) -> None:
    for _ in range(2):
        sdk.embeddings.create(model="minilm", input=[[101, 7592, 102]])
    assert log.read_text().count("sends token ids to embed to model 'minilm', not text") == 1


def test_many_callers_at_once_get_their_own(sdk: OpenAI, embedding_server: Server) -> None:
    wanted = vectors(sdk.embeddings.create(model="minilm", input=SENTENCES))
    with ThreadPoolExecutor(len(SENTENCES)) as callers:
        made = list(callers.map(lambda text: sdk.embeddings.create(model="minilm", input=text), SENTENCES))
    for one, vector in zip(made, wanted, strict=True):
        assert vectors(one)[0] == pytest.approx(vector, abs=1e-4)
    stats = httpx.get(f"{embedding_server.url}/v1/stats").json()["models"]["minilm"]
    assert stats["units"]["texts"] >= 2 * len(SENTENCES)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": [[]]}, "input"),
        ({"input": [30522]}, "input"),
        ({"input": {"a": 1}}, "input"),
        ({"input": "a", "dimensions": 128}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "word " * 300}, "input"),
        ({"input": "a", "model": "plain"}, "model"),
        ({"input": "a", "model": "demo", "dimensions": 8}, "dimensions"),
        ({"input": [10**6], "model": "demo"}, "input"),
        ({"input": ["a", {"image_url": "data:,a"}]}, "input[1].image_url"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
        ({"input": {"image_url": {"url": "data:,a"}}, "model": "demo"}, "input.image_url.url"),
        ({"input": {"image_url": "data:,a"}, "model": "plain"}, "model"),
        ({"input": "a", "model": "ranker"}, "model"),
        ({"input": "a", "adapters": "poet"}, "adapters"),
    ],
)
def test_bad_input(embedding_server: Server, fields: dict[str, Any], param: str) -> None:
    answer = httpx.post(f"{embedding_server.url}/v1/embeddings", json={"model": "minilm"} | fields)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_what_is_too_long_is_an_error_or_cut(sdk: OpenAI) -> None:
    long = "word " * 300
    with pytest.raises(openai.BadRequestError, match="302 tokens; this model reads at most 256") as caught:
        sdk.embeddings.create(model="minilm", input=long)
    assert caught.value.code == "context_length_exceeded"
    cut = vectors(sdk.embeddings.create(model="minilm", input=long, extra_body={"truncate": True}))
    assert cut == pytest.approx(vectors(sdk.embeddings.create(model="minilm", input="word " * 254)), abs=1e-5)


def test_models_say_their_kinds_and_what_they_serve(sdk: OpenAI) -> None:
    kinds = {model.id: getattr(model, "kind", None) for model in sdk.models.list()}
    assert kinds == {"minilm": "embeddings", "ranker": "rerank", "demo": "text", "plain": "text"}
    for model in sdk.models.list():
        assert getattr(model, "media", None) == ([] if getattr(model, "loaded", None) else None)
    with pytest.raises(openai.BadRequestError, match=r"'minilm' gives embeddings and no text; .* /v1/embeddings"):
        sdk.chat.completions.create(model="minilm", messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(
        openai.BadRequestError, match=r"'plain' gives text and no embeddings; .*/v1/chat/completions.*"
    ) as no:
        sdk.embeddings.create(model="plain", input="Hi")
    assert "the setting `embeddings: true` makes it give embeddings, too" in no.value.message


def test_a_chat_model_whose_setting_says_so_gives_embeddings(sdk: OpenAI) -> None:
    answer = sdk.embeddings.create(model="demo", input=[*SENTENCES, SENTENCES[0]])
    found = vectors(answer)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert found[-1] == pytest.approx(found[0], abs=1e-5)
    assert len(np.unique(found.round(4), axis=0)) == len(SENTENCES)
    assert answer.usage.prompt_tokens > len(SENTENCES)
    said = sdk.chat.completions.create(model="demo", messages=[{"role": "user", "content": "Hi"}], max_tokens=5)
    assert said.choices[0].message.content


@pytest.mark.parametrize(("path", "asked"), [("speech", "speech model"), ("transcriptions", "transcription model")])
def test_without_a_model_of_the_kind_it_is_told_which_is_needed(
    embedding_server: Server, path: str, asked: str
) -> None:
    form: Any = {"files": {"file": b"RIFF"}} if path == "transcriptions" else {"json": {"input": "Hi"}}
    error = httpx.post(f"{embedding_server.url}/v1/audio/{path}", **form).json()["error"]
    assert (error["param"], f"unless the server has exactly one {asked}" in error["message"]) == ("model", True)


def test_at_azures_addresses(embedding_server: Server) -> None:
    with AzureOpenAI(azure_endpoint=embedding_server.url, api_key="any", api_version="2024-10-21") as client:
        assert vectors(client.embeddings.create(model="minilm", input="hello world")).shape == (1, 384)
    answer = httpx.post(f"{embedding_server.url}/models/embeddings", json={"model": "minilm", "input": "hello"})
    assert len(answer.json()["data"][0]["embedding"]) == 384


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_reranking(embedding_server: Server, path: str) -> None:
    documents = ["w30 w31", "w32", {"text": "w20 w21", "id": 7}]
    body = {"query": "w20 w21", "documents": documents, "top_n": 2, "return_documents": True}
    answer = httpx.post(embedding_server.url + path, json=body)  # the only model that ranks
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["results"]
    assert 1 > first["relevance_score"] >= second["relevance_score"] > 0
    given = [{"text": one} if isinstance(one, str) else one for one in documents]
    assert [one["document"] for one in (first, second)] == [given[one["index"]] for one in (first, second)]
    refused = httpx.post(embedding_server.url + path, json=body | {"model": "demo"})
    assert refused.status_code == 400
    assert "no relevance scores" in refused.json()["error"]["message"]
    refused = httpx.post(embedding_server.url + path, json=body | {"adapter_path": "poet"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "adapter_path")


def test_the_forms_of_other_servers(embedding_server: Server) -> None:
    def post(path: str, **body: Any) -> Any:
        answer = httpx.post(embedding_server.url + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    documents = ["w30 w31", "w32 " * 90]
    cohere = post("/v2/rerank", query="w20", documents=documents, max_tokens_per_doc=4096)
    assert cohere["meta"] == {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    found = {one["index"]: one["relevance_score"] for one in cohere["results"]}
    assert {one["index"]: one["score"] for one in post("/rerank", query="w20", texts=documents)} == found
    for path in ("/score", "/v1/score"):
        data = post(path, text_1="w20", text_2=documents)["data"]
        assert {one["index"]: one["score"] for one in data} == found
    (best,) = post("/v1/rerank", query="w20", documents=documents, top_k=1)["data"]
    assert (best["index"], best["relevance_score"]) == max(found.items(), key=lambda one: one[1])


@pytest.mark.timeout(3600)
async def test_fuzzed_requests(embedding_server: Server) -> None:
    models = "minilm", "ranker"
    sent = sent_to(*models)
    assert await fuzz(embedding_server, sent, 0, models) == {"200": len(sent)}
    assert not (await fuzz(embedding_server, (), AMOUNT // 4, models))["left"]


def test_a_worker_that_is_killed_meanwhile_takes_no_request_and_no_other_model_with_it(
    sdk: OpenAI, embedding_server: Server
) -> None:
    before = {name: embedding_server.health(name)["pid"] for name in ("minilm", "ranker", "demo")}
    wanted = vectors(sdk.embeddings.create(model="minilm", input=SENTENCES))
    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(sdk.embeddings.create, model="minilm", input=SENTENCES * 8)
        embedding_server.until("minilm", running=1)
        os.kill(before["minilm"], signal.SIGKILL)
        assert vectors(asked.result()) == pytest.approx(np.tile(wanted, (8, 1)), abs=1e-4)
    after = {name: embedding_server.health(name) for name in before}
    assert [name for name in before if after[name]["pid"] != before[name]] == ["minilm"]
    assert after["minilm"]["restarts"] == 1
