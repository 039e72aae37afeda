"""mlx-lm's own loop over a tiny model."""

from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from orchard.backends.bare.language import run_language_model
from orchard.demo import MODEL_PATH

CHAT = [{"role": "user", "content": "What is 17 + 25?"}]
TASK: dict[str, Any] = {
    "path": str(MODEL_PATH),
    "kind": "text",
    "chats": [CHAT],
    "max_tokens": 30,
    "rounds": 1,
    "speed_tokens": 4,
    "question": "",
    "pictures": [],
}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return run_language_model(**TASK)


def test_the_answer_is_that_of_the_most_likely_tokens(result: dict[str, Any]) -> None:
    network, tokenizer = mlx_lm.load(str(MODEL_PATH))[:2]
    (prompt,), (text,) = result["prompts"], result["texts"]
    assert prompt == tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    answer = tokenizer.encode(text, add_special_tokens=False)
    best: Any = network(mx.array([prompt + answer]))[0].argmax(axis=-1).tolist()
    assert best[len(prompt) - 1 : -1] == answer
    assert best[-1] in tokenizer.eos_token_ids


def test_the_measurements_are_of_this_device(result: dict[str, Any]) -> None:
    assert 0 < result["rounding"] < result["spread"] < 100
    assert 8 * 10**6 < result["weights_bytes"] < 9 * 10**6
    assert len(result["rates"]) == 1
    assert min(result["rates"][0], result["load_seconds"], result["bandwidth"]) > 0
