"""A seed gives SmolLM2 the same answer alone, in company and with guesses."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from transformers import AutoTokenizer

from orchard.backends.text.model import load_text_model
from orchard.engine import start
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.ngram import NgramProposer
from orchard.engine.speculation.speculation import Speculation
from tests.models import prompts, sources
from tests.support.engine_driver import Driver
from tests.support.speculation import FixedController

ANSWER = 16  # tokens
pytestmark = pytest.mark.timeout(400)


class Engines(NamedTuple):
    """An engine without guesses; one that verifies all that it has; and what counts those that were right."""

    plain: Driver
    guessing: Driver
    controller: FixedController


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    model = load_text_model(str(sources.ROOT / "smollm2"))
    controller = FixedController(4)
    plain = Driver(lambda: model, speculation="off", prompt_cache_bytes=0)
    with pytest.MonkeyPatch.context() as patch:
        given = Speculation([NgramProposer()], cast(Any, controller), model.vocab_size)
        patch.setattr(start, "make_speculation", lambda *arguments, **options: given)
        guessing = Driver(lambda: model, prompt_cache_bytes=0)
    yield Engines(plain, guessing, controller)
    plain.close()
    guessing.close()


@pytest.fixture(scope="module")
def questions() -> list[list[int]]:
    tokenizer = AutoTokenizer.from_pretrained(str(sources.ROOT / "smollm2"))
    return [tokenizer.encode(prompts.chat(question)) for question in prompts.QUESTIONS]


@pytest.mark.parametrize("temperature", [0.8, 1.5, 2.0])
def test_a_seed_gives_the_same_answer(engines: Engines, questions: list[list[int]], temperature: float) -> None:
    jobs = [
        Job(str(seed), tokens, SamplingParams(seed=seed, temperature=temperature), ANSWER)
        for seed, tokens in enumerate(questions)
    ]
    alone = {job.id: engines.plain.alone(job).tokens for job in jobs}
    assert len({str(tokens) for tokens in alone.values()}) == len(jobs)
    assert {name: result.tokens for name, result in engines.plain.run(jobs).items()} == alone
    before = sum(engines.controller.accepted().values())
    # Two guesses are right, then one is wrong.
    wrong = {name: tuple(token + (at % 3 == 2) for at, token in enumerate(found)) for name, (found,) in alone.items()}
    told = [msgspec.structs.replace(job, prediction=wrong[job.id]) for job in jobs]
    assert {name: result.tokens for name, result in engines.guessing.run(told).items()} == alone
    assert sum(engines.controller.accepted().values()) > before
