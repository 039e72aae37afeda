"""lm-eval's local-completions: it scores what a text may go on with from an echoed prompt's log-probabilities."""

import os
from pathlib import Path

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

MODEL = Path(__file__).parents[2] / "src" / "orchard" / "demo" / "model"
CONTEXT = "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("tokens", [True, False])
def test_the_right_answer_is_the_likeliest(url: str, tokens: bool) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    model = LocalCompletionsAPI(
        base_url=f"{url}/v1/completions",
        model="demo",
        tokenizer=str(MODEL),
        tokenized_requests=tokens,
        max_length=1024,
    )
    endings = ["2 + 3 = 5.", "2 + 3 = 7.", "The sea is blue."]
    requests = [Instance("loglikelihood", {}, (CONTEXT, ending), place) for place, ending in enumerate(endings)]
    scores = model.loglikelihood(requests, disable_tqdm=True)
    assert max(range(3), key=lambda place: scores[place][0]) == 0
    assert [greedy for _, greedy in scores][1:] == [False, False]
    (rolling,) = model.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (CONTEXT + endings[0],), 0)])
    assert rolling < scores[0][0] < 0
