from collections import defaultdict
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import stream_generate

from orchard.backends.text import TextModel
from orchard.engine.job import Drawn, Job, SamplingParams, Step
from orchard.engine.scheduler import Scheduler

Choice = tuple[str, int]


def prompt(seed: int, length: int = 20) -> list[int]:
    return [(seed * 31 + n * 17) % 300 for n in range(length)]


def greedy(**params: Any) -> SamplingParams:
    return SamplingParams(seed=0, temperature=0.0, **params)


def run(model: Any, *jobs: Job, max_rows: int = 64, chunk: int = 8) -> dict[Choice, list[Drawn]]:
    scheduler = Scheduler(model, max_rows, chunk)
    for job in jobs:
        scheduler.add(job)
    return finish(scheduler)


def finish(scheduler: Scheduler) -> dict[Choice, list[Drawn]]:
    drawn: dict[Choice, list[Drawn]] = defaultdict(list)
    for _ in range(500):
        if scheduler.idle:
            return drawn
        collect(drawn, scheduler.step())
    raise AssertionError("the scheduler never becomes idle")


def collect(drawn: dict[Choice, list[Drawn]], step: Step) -> None:
    assert not step.broken
    for item in step.drawn:
        drawn[item.job, item.choice].append(item)


def tokens(drawn: list[Drawn]) -> list[int]:
    return [item.sample.token for item in drawn]


def company() -> list[Job]:
    """Jobs of every kind."""
    return [
        Job("greedy", prompt(1), greedy(), 12),
        Job("sampled", prompt(2, 33), SamplingParams(seed=11, temperature=0.9, top_p=0.95), 9),
        Job("many", prompt(3, 9), SamplingParams(seed=12, top_k=50, presence_penalty=0.5), 7, choices=3),
        Job("penalised", prompt(4, 50), greedy(repetition_penalty=1.3, frequency_penalty=0.2), 15),
        Job("probed", prompt(5, 1), SamplingParams(seed=13, min_p=0.01, top_logprobs=2), 5),
    ]


def test_greedy_is_what_mlx_lm_generates(model: TextModel) -> None:
    for length in (1, 2, 20, 70):
        job = Job("a", prompt(6, length), greedy(), 40)
        mine = tokens(run(model, job)["a", 0])
        theirs = [part.token for part in stream_generate(model.network, model.tokenizer, job.prompt, max_tokens=40)]
        assert mine == theirs
        assert len(mine) == 40


@pytest.mark.parametrize("chunk", [1, 3, 19, 20, 21, 500])
def test_a_prompt_may_be_cut_anywhere(model: TextModel, chunk: int) -> None:
    whole = run(model, Job("a", prompt(7, 21), greedy(), 10), chunk=1000)
    assert tokens(run(model, Job("a", prompt(7, 21), greedy(), 10), chunk=chunk)["a", 0]) == tokens(whole["a", 0])


def test_company_changes_nothing(model: TextModel) -> None:
    together = run(model, *company())
    for job in company():
        alone = run(model, job, chunk=5)
        assert len(alone) == job.choices
        for key, drawn in alone.items():
            assert drawn == together[key]


@pytest.mark.parametrize("when", range(0, 26, 2))
@pytest.mark.parametrize("who", ["greedy", "many", "penalised"])
def test_cancelling_changes_nothing_for_others(model: TextModel, when: int, who: str) -> None:
    expected = run(model, *company(), max_rows=5)
    scheduler = Scheduler(model, max_rows=5, prefill_chunk=8)
    for job in company():
        scheduler.add(job)
    drawn: dict[Choice, list[Drawn]] = defaultdict(list)
    for _ in range(when):
        collect(drawn, scheduler.step())
    scheduler.cancel(who)
    for key, items in finish(scheduler).items():
        assert key[0] != who
        drawn[key] += items
    assert {k: v for k, v in drawn.items() if k[0] != who} == {k: v for k, v in expected.items() if k[0] != who}


def test_cancelling_one_choice_leaves_the_others(model: TextModel) -> None:
    job = Job("many", prompt(3), SamplingParams(seed=1), 10, choices=3)
    expected = run(model, job)
    scheduler = Scheduler(model, 64, 64)
    scheduler.add(job)
    for _ in range(4):
        scheduler.step()
    scheduler.cancel("many", 1)
    scheduler.cancel("nobody", 1)
    rest = finish(scheduler)
    assert {choice for _, choice in rest} == {0, 2}
    assert all(items == expected[key][-len(items) :] for key, items in rest.items())


def test_choices_differ_and_the_first_is_that_of_a_single_one(model: TextModel) -> None:
    params = SamplingParams(seed=4, temperature=2.0)
    three = run(model, Job("a", prompt(8), params, 12, choices=3))
    one = run(model, Job("a", prompt(8), params, 12))
    assert three["a", 0] == one["a", 0]
    assert len({tuple(tokens(three["a", choice])) for choice in range(3)}) == 3


def test_length_and_end_of_turn(model: TextModel) -> None:
    (eos,) = model.eos_token_ids
    for limit in (1, 2, 5):
        drawn = run(model, Job("a", prompt(1), greedy(), limit))["a", 0]
        assert [item.reason for item in drawn] == [None] * (limit - 1) + ["length"]
    stopped = run(model, Job("a", prompt(1), greedy(logit_bias={eos: 100.0}), 5))["a", 0]
    assert [(item.sample.token, item.reason) for item in stopped] == [(eos, "stop")]


def test_logprobs_are_those_of_a_direct_forward_pass(model: TextModel) -> None:
    job = Job("a", prompt(9), SamplingParams(seed=3, top_logprobs=3), 6)
    drawn = run(model, job)["a", 0]
    logits = model.network(mx.array([job.prompt + tokens(drawn)]))[0, len(job.prompt) - 1 : -1]
    expected = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    for place, item in enumerate(drawn):
        assert item.sample.logprob == pytest.approx(expected[place, item.sample.token].item(), abs=1e-4)
        best = sorted(expected[place].tolist(), reverse=True)[:3]
        assert [value for _, value in item.sample.top] == pytest.approx(best, abs=1e-4)


def test_rows_are_bounded_and_jobs_wait_in_order(model: TextModel) -> None:
    scheduler = Scheduler(model, max_rows=3, prefill_chunk=64)
    for name, choices in (("a", 1), ("b", 2), ("c", 3), ("d", 1)):
        scheduler.add(Job(name, prompt(1), greedy(), 4, choices=choices))
    step = scheduler.step()
    assert (step.running, step.waiting) == (2, 2)
    begun: list[str] = []
    while not scheduler.idle:
        step = scheduler.step()
        assert step.running <= 2
        begun += [item.job for item in step.drawn]
    assert list(dict.fromkeys(begun)) == ["a", "b", "c", "d"]
    assert (step.running, step.waiting) == (0, 0)


def test_a_long_prompt_never_stalls_a_stream(model: TextModel) -> None:
    scheduler = Scheduler(model, 64, prefill_chunk=8)
    scheduler.add(Job("stream", prompt(1, 4), greedy(), 60))
    while not scheduler.step().drawn:
        pass
    scheduler.add(Job("long", prompt(2, 300), greedy(), 2))
    steps = [scheduler.step() for _ in range(40)]
    assert all([item.job for item in step.drawn if item.job == "stream"] == ["stream"] for step in steps)
    assert any(item.job == "long" for step in steps for item in step.drawn)


def test_prompts_take_turns(model: TextModel) -> None:
    scheduler = Scheduler(model, 64, prefill_chunk=8)
    scheduler.add(Job("long", prompt(1, 400), greedy(), 2))
    scheduler.add(Job("short", prompt(2, 10), greedy(), 2))
    steps = [scheduler.step() for _ in range(8)]
    assert any(item.job == "short" for step in steps for item in step.drawn)


class Poisoned:
    """Raises where the poison is in a forward pass."""

    def __init__(self, model: TextModel, poison: int) -> None:
        self._model = model
        self._poison = poison
        self.vocab_size = model.vocab_size
        self.eos_token_ids = model.eos_token_ids

    def new_cache(self) -> list[Any]:
        return self._model.new_cache()

    def forward(self, tokens: mx.array, cache: list[Any]) -> mx.array:
        if self._poison in tokens.tolist()[0]:  # type: ignore[index, operator]
            raise RuntimeError("poison")
        return self._model.forward(tokens, cache)


@pytest.mark.parametrize("place", [3, 19])
def test_a_poisoned_job_fails_alone(model: TextModel, place: int) -> None:
    """While its prompt is read (3), or in its rows' first step (19)."""
    poisoned = prompt(2)
    poisoned[place] = poison = 299
    assert poison not in prompt(1)
    expected = run(model, Job("good", prompt(1), greedy(), 8))
    assert poison not in tokens(expected["good", 0])
    scheduler = Scheduler(Poisoned(model, poison), 64, 8)
    scheduler.add(Job("bad", poisoned, greedy(), 8, choices=2))
    scheduler.add(Job("good", prompt(1), greedy(), 8))
    steps = []
    while not scheduler.idle:
        steps.append(scheduler.step())
    assert [item.job for step in steps for item in step.broken] == ["bad"]
    assert "poison" in next(item.message for step in steps for item in step.broken)
    assert [item for step in steps for item in step.drawn] == expected["good", 0]
    assert (steps[-1].running, steps[-1].waiting) == (0, 0)
