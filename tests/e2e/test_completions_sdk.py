"""The official SDK's Completions against a real server with the demo model."""

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from transformers import PreTrainedTokenizerFast

from orchard.demo import MODEL_PATH

STORY = "<|im_start|>user\nCount from 1 to 9<|im_end|>\n<|im_start|>assistant\n"


def test_a_text_is_continued(client: OpenAI) -> None:
    answer = client.completions.create(model="demo", prompt=STORY, max_tokens=60, temperature=0, stop="6")
    (choice,) = answer.choices
    assert "4" in choice.text
    assert "6" not in choice.text
    assert choice.finish_reason == "stop"
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_the_default_length_is_openais(client: OpenAI) -> None:
    answer = client.completions.create(model="demo", prompt=STORY, temperature=0, logit_bias={})
    assert answer.usage
    assert answer.usage.completion_tokens <= 16


def test_streaming_equals_not_streaming(client: OpenAI) -> None:
    prompts = [STORY, "Hello"]
    whole = client.completions.create(model="demo", prompt=prompts, max_tokens=12, temperature=0, n=2)
    texts = [""] * 4
    reasons: list[str | None] = [None] * 4
    for chunk in client.completions.create(
        model="demo", prompt=prompts, max_tokens=12, temperature=0, n=2, stream=True
    ):
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        reasons[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]


def test_echo_and_no_tokens_at_all(client: OpenAI) -> None:
    answer = client.completions.create(model="demo", prompt="Once upon a time", echo=True, max_tokens=0)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Once upon a time", "length")
    longer = client.completions.create(model="demo", prompt="Once upon", echo=True, max_tokens=3, temperature=0)
    assert longer.choices[0].text.startswith("Once upon")


def test_log_probabilities_line_up_with_the_text(client: OpenAI) -> None:
    answer = client.completions.create(model="demo", prompt=STORY, max_tokens=8, temperature=0, logprobs=3)
    (choice,) = answer.choices
    found = choice.logprobs
    assert found
    assert found.tokens
    assert found.token_logprobs
    assert found.top_logprobs
    assert found.text_offset
    for token, place, value, top in zip(
        found.tokens, found.text_offset, found.token_logprobs, found.top_logprobs, strict=True
    ):
        assert choice.text[place:].startswith(token)
        assert top[token] == pytest.approx(value)
        assert 3 <= len(top) <= 4


def test_an_evaluation_harness_scores_what_a_text_goes_on_with(client: OpenAI) -> None:
    """As lm-eval's local-completions asks and reads it: the endings' log-probabilities stand before one more token."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(MODEL_PATH)
    context = tokenizer.encode("<|im_start|>user\nCount from 1 to 4<|im_end|>\n<|im_start|>assistant\n")
    said = client.completions.create(model="demo", prompt=context, temperature=0, max_tokens=6).choices[0].text
    scores: dict[str, list[tuple[float, bool]]] = {}
    for ending in (said, "4, 4, 4, 4"):
        tokens = [*context, *tokenizer.encode(ending)]
        for prompt in (tokens, tokenizer.decode(tokens)):
            answer = client.completions.create(
                model="demo", prompt=prompt, temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True
            )
            found = answer.choices[0].logprobs
            assert found
            assert found.token_logprobs
            assert found.top_logprobs
            values = found.token_logprobs[len(context) : -1]
            best = [max(top.values()) for top in found.top_logprobs[len(context) : -1]]
            assert len(values) == len(tokens) - len(context)
            scores.setdefault(ending, []).append((sum(values), values == best))
    (right, greedy), again = scores[said]
    assert greedy
    assert right == pytest.approx(again[0], abs=1e-3)
    assert right > scores["4, 4, 4, 4"][0][0] + 1
    assert not scores["4, 4, 4, 4"][0][1]


def test_the_best_of_several(client: OpenAI) -> None:
    fields = {"model": "demo", "prompt": STORY, "max_tokens": 6, "temperature": 2.0, "seed": 3}
    best = client.completions.create(**fields, best_of=4, n=1, logprobs=0)  # type: ignore[call-overload]
    every = client.completions.create(**fields, best_of=4, n=4, logprobs=0)  # type: ignore[call-overload]

    def mean(choice: openai.types.CompletionChoice) -> float:
        values = (choice.logprobs and choice.logprobs.token_logprobs) or [-9999.0]
        return sum(values) / len(values)

    assert len(best.choices) == 1
    assert mean(best.choices[0]) == pytest.approx(max(map(mean, every.choices)))
    assert best.usage.completion_tokens == every.usage.completion_tokens


def test_what_the_model_has_no_tokens_for(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="middle") as caught:
        client.completions.create(model="demo", prompt="a", suffix="b")
    assert caught.value.param == "suffix"
    with pytest.raises(openai.BadRequestError) as foreign:
        client.completions.create(model="demo", prompt=[[1], [999_999_999]], stream=True)
    assert foreign.value.param == "prompt"


async def test_asynchronous(async_client: AsyncOpenAI) -> None:
    stream = await async_client.completions.create(model="demo", prompt=[1, 2, 3], max_tokens=4, stream=True)
    assert [chunk.choices[0].finish_reason async for chunk in stream][-1] in ("stop", "length")
