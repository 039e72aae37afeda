"""SmolLM2 and Gemma 3 read and write what llama.cpp and mlx-lm do with the same weights."""

import asyncio
from typing import Any, NamedTuple

import mlx.core as mx
import mlx_lm.utils
import numpy as np
import pytest
from numpy.typing import NDArray
from openai import AsyncOpenAI
from openai.types import Completion
from transformers import AutoTokenizer

from orchard.backends.text.model import TextModel, load_text_model
from tests.models import prompts, sources
from tests.models.conftest import Record
from tests.support.serving import Server

GIVEN = {"smollm2": tuple(map(prompts.chat, prompts.QUESTIONS)), "gemma3": prompts.CONTINUED}


# How far logprobs may be from llama.cpp's. It takes GELU, which Gemma has, from a table of float16, and multiplies the
# embeddings with the root of their width in float32; mlx-lm does so with the root in bfloat16, as Gemma was trained.
NEAR = {"smollm2": 1e-3, "gemma3": 0.05}


class Loaded(NamedTuple):
    """A model, its tokenizer, the tokens of its prompts, and llama.cpp's record."""

    name: str
    model: TextModel
    tokenizer: Any
    prompts: list[list[int]]
    record: dict[str, Any]

    @property
    def answers(self) -> list[list[int]]:
        return [[row[0][0] for row in answer["top"]] for answer in self.record["answers"]]


@pytest.fixture(scope="module", params=GIVEN)
def loaded(request: pytest.FixtureRequest, record: Record) -> Loaded:
    folder = str(sources.ROOT / request.param)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = [tokenizer.encode(text) for text in GIVEN[request.param]]
    return Loaded(request.param, load_text_model(folder), tokenizer, tokens, record(request.param))


def _logprobs(logits: mx.array) -> NDArray[np.float32]:
    return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


def test_texts_have_the_tokens_of_llama_cpp(loaded: Loaded) -> None:
    assert [loaded.tokenizer.encode(text) for text in prompts.TOKENIZED] == loaded.record["tokens"]


# One prompt of Gemma's is longer than its sliding window.
@pytest.mark.timeout(300)
def test_logprobs_are_those_of_llama_cpp(loaded: Loaded) -> None:
    for tokens, written, answer in zip(loaded.prompts, loaded.answers, loaded.record["answers"], strict=True):
        assert len(tokens) == answer["prompt_tokens"]
        logits = loaded.model.forward(mx.array([tokens + written[:-1]]), loaded.model.new_cache())
        found = _logprobs(logits[0, len(tokens) - 1 :])
        expected = np.array(answer["top"])  # (tokens, best, 2)
        ids = expected[..., 0].astype(int)
        assert np.take_along_axis(found, ids, axis=-1) == pytest.approx(expected[..., 1], abs=NEAR[loaded.name])


@pytest.mark.timeout(300)
def test_logprobs_are_those_of_mlx_lm(loaded: Loaded) -> None:
    network, _ = mlx_lm.utils.load_model(sources.ROOT / loaded.name)
    network.set_dtype(mx.float32)
    given = mx.array([loaded.prompts[0] + loaded.answers[0][:4]])
    expected = _logprobs(network(given)[0])
    assert _logprobs(loaded.model.forward(given, loaded.model.new_cache())[0]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.timeout(400)
async def test_a_server_gives_the_greedy_answers_of_llama_cpp_to_all_at_once(loaded: Loaded, server: Server) -> None:
    url = f"{server.url}/v1"
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=350) as client:

        async def complete(text: str, length: int) -> Completion:
            options = {"max_tokens": length, "temperature": 0, "logprobs": 5}
            return await client.completions.create(model=loaded.name, prompt=text, **options)  # type: ignore[call-overload,no-any-return]

        given = zip(GIVEN[loaded.name], loaded.answers, strict=True)
        found = await asyncio.gather(*(complete(text, len(written)) for text, written in given))
    for one, answer, written in zip(found, loaded.record["answers"], loaded.answers, strict=True):
        (choice,) = one.choices
        text = loaded.tokenizer.decode(written, skip_special_tokens=True)
        assert text.startswith(choice.text.rstrip("\ufffd"))
        assert choice.logprobs
        expected = [row[0][1] for row in answer["top"]]
        assert choice.logprobs.token_logprobs == pytest.approx(expected, abs=NEAR[loaded.name])
