"""First tokens that are drawn from the pass over the prompt's end: the same tokens, one pass less."""

from typing import Any

import mlx.core as mx
import pytest
from msgspec.structs import replace

from orchard.backends.text.model import TextModel
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.prefill import Prefill
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.ticket import Limits
from tests.engine.test_runner import little_memory, no_reserve, preemptions, tight
from tests.support.drafting import drafting
from tests.support.engine_driver import greedy, prompt
from tests.support.models import SLIDING_WINDOW
from tests.support.tiny_models import Other, alone, check_close, make_runner, network, run

CACHE_BYTES = 2**26
every_kind = pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])

__all__ = ["no_reserve"]


class Counted(Other):
    """A model that counts the passes over one token per row, and those over more."""

    def __init__(self, model: TextModel) -> None:
        self.steps = self.pieces = 0
        super().__init__(model, before=self._count)
        self.logits_at = self._cut

    def _count(self, tokens: mx.array, _: dict[str, Any]) -> None:
        self.steps += tokens.shape[1] == 1
        self.pieces += tokens.shape[1] > 1

    def _cut(self, tokens: mx.array, cache: list[Any], places: Any) -> mx.array:
        assert self._model.logits_at
        self._count(tokens, {})
        return self._model.logits_at(tokens, cache, places)


def counted_runner(kind: str, **options: Any) -> tuple[Runner, Counted]:
    model = Counted(network(kind))
    runner = make_runner(model, draws_from_prompt=True, cache_bytes=CACHE_BYTES, **options)
    model.steps = model.pieces = 0
    return runner, model


def company() -> list[Job]:
    penalised = SamplingParams(
        seed=3, temperature=0.0, repetition_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2
    )
    thoughtful = SamplingParams(seed=4, think_start=1, think_end=2, thinking_budget=3, top_logprobs=2)
    return [
        greedy("greedy", prompt(1, 20), 12),
        Job("sampled", prompt(2, 33), SamplingParams(seed=11, temperature=0.9, top_p=0.95), 9),
        Job("many", prompt(3, SLIDING_WINDOW + 1), SamplingParams(seed=12, top_k=50), 7, choices=3),
        Job("penalised", prompt(4, 50), penalised, 15),
        Job("thoughtful", prompt(6, 40), thoughtful, 8),
        Job("short", prompt(5, 1), SamplingParams(seed=13, min_p=0.01, top_logprobs=2), 5),
        greedy("one token", prompt(7, 30), 1),
    ]


@every_kind
def test_a_row_alone_takes_one_pass_less(kind: str) -> None:
    runner, model = counted_runner(kind)
    job = greedy("a", prompt(1, 20), 5)
    course = run(runner, [job])
    assert course.outcomes["a"].tokens == alone(network(kind), job)
    assert (model.pieces, model.steps) == (1, 4)
    # The step after the one that reads the prompt brings the first token.
    assert [len(step.tokens) for step in course.steps[:2]] == [0, 1]


@every_kind
@pytest.mark.parametrize(("batched", "traced"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("chunk", [7, 512])
def test_company_changes_nothing(kind: str, batched: bool, traced: bool, chunk: int) -> None:
    limits = Limits(64, 2**40, chunk=chunk, idle_chunk=chunk)
    runner, _ = counted_runner(kind, batched_prefill=batched, traced=traced, limits=limits)
    for _ in range(2):  # the second time the prompts are cached
        course = run(
            runner,
            company()[:3],
            lambda course: company()[3:] if len(course.steps) == 4 else [],
        )
        for job in company():
            assert course.outcomes[job.id].tokens == alone(network(kind), job), job.id


@every_kind
def test_a_prompt_is_found_again_up_to_its_last_token(kind: str) -> None:
    """And then that one is read in decode, since a pass of its own would cost as much."""
    runner, model = counted_runner(kind)
    job = greedy("a", prompt(1, 40), 1)
    for expected in ((0, (1, 0)), (39, (0, 1))):
        model.steps = model.pieces = 0
        outcome = run(runner, [job]).outcomes["a"]
        assert (outcome.begun[0].cached_tokens, (model.pieces, model.steps)) == expected
        assert outcome.tokens == alone(network(kind), job)
    longer = greedy("b", [*prompt(1, 40), *outcome.tokens[0], *prompt(2, 9)], 5)
    again = run(runner, [longer]).outcomes["b"]
    assert again.begun[0].cached_tokens >= 39
    assert again.tokens == alone(network(kind), longer)


@every_kind
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("pauses", [False, True])
def test_a_prompt_is_kept_whenever_its_job_leaves(kind: str, steps: int, pauses: bool) -> None:
    """After the step that has read the prompt, that of the first token, and the next one."""
    runner, _ = counted_runner(kind)
    job = greedy("a", prompt(1, 40), 20)
    runner.add(job)
    for _ in range(steps):
        runner.step()
    if pauses:
        runner.pause("a")
        runner.step()
    runner.cancel("a")
    outcome = run(runner, [job]).outcomes["a"]
    assert outcome.begun[0].cached_tokens == 39
    assert outcome.tokens == alone(network(kind), job)


@pytest.mark.parametrize("start", range(37, 43))
def test_keys_and_values_that_are_quantised_about_there(start: int) -> None:
    options: dict[str, Any] = {"kv_bits": 4, "kv_group_size": 32, "quantized_kv_start": start}
    runner, _ = counted_runner("qwen3", **options)
    job = greedy("a", prompt(1, 40), 8)
    for cached in (0, 39):
        outcome = run(runner, [job]).outcomes["a"]
        assert outcome.begun[0].cached_tokens == cached
        assert outcome.tokens == alone(network("qwen3"), job, **options)


def test_later_turns_of_one_size_are_traced() -> None:
    """With the logits of each turn's own last token, wherever the turn ends."""
    runner, model = counted_runner("qwen3", batched_prefill=True, traced=True)
    text = prompt(1, 40)
    for turn in range(6):
        model.pieces = 0
        job = greedy("a", text, 3)
        outcome = run(runner, [job]).outcomes["a"]
        assert outcome.tokens == alone(network("qwen3"), job)
        # The third pass of a size is traced, which calls the model; after that, nothing does.
        assert model.pieces == (turn < 4)
        text = [*text, *outcome.tokens[0], *prompt(2 + turn, 5 + turn)]


@every_kind
def test_guesses_change_nothing(kind: str) -> None:
    runner = make_runner(network(kind), draws_from_prompt=True, speculation=drafting(network(kind)))
    course = run(runner, company()[:3], lambda course: company()[3:] if len(course.steps) == 3 else [])
    for job in company():
        assert course.outcomes[job.id].tokens == alone(network(kind), job), job.id


@little_memory
def test_a_preempted_answer_goes_on_with_the_same_tokens() -> None:
    jobs = [Job(str(number), prompt(number, 9 + number), SamplingParams(seed=number), 30) for number in range(4)]
    model = network("qwen3")
    runner = make_runner(model, tight(model, jobs, 3), draws_from_prompt=True)
    preempted = preemptions(runner)
    course = run(runner, jobs)
    assert preempted
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id


@every_kind
def test_a_paused_answer_goes_on_with_the_same_tokens(kind: str) -> None:
    """Also if it is paused with its first token."""
    job = Job("a", prompt(1, 20), SamplingParams(seed=5), 12, choices=2)
    other = greedy("b", prompt(2, 5), 40)
    for step in range(1, 5):
        runner, _ = counted_runner(kind)

        def interrupt(course: Any, step: int = step, runner: Runner = runner) -> list[Job]:
            if len(course.steps) == step:
                runner.pause("a")
            if len(course.steps) == step + 2:
                runner.resume("a")
            return []

        course = run(runner, [job, other], interrupt)
        for one in (job, other):
            assert course.outcomes[one.id].tokens == alone(network(kind), one), (one.id, step)


def test_what_a_prefill_leaves_to_decode() -> None:
    model = network("qwen3")
    store = KVStore(model, TextOptions())
    tokens = prompt(1, 20)
    expected = model.forward(mx.array([tokens], mx.uint32), store.new_cache())[:, -1]
    whole = Prefill(tokens, (), store, wants_logits=True)
    assert (whole.tokens_left, whole.advance(model, 12), whole.tokens_left) == (20, 12, 8)
    assert whole.logits is None
    assert (whole.advance(model, 12), whole.tokens_left, whole.tokens_read) == (8, 0, 20)
    assert whole.logits is not None
    check_close(whole.logits, expected)
    cut = Prefill(tokens, (), store, wants_logits=True)
    assert (cut.advance(model, 19), cut.tokens_left, cut.logits) == (19, 0, None)
    assert Prefill(tokens[:1], (), store, wants_logits=True).tokens_left == 0


def test_scores_and_hidden_states_of_prompts() -> None:
    """They are read as before."""
    runner, model = counted_runner("qwen3")
    job = replace(greedy("a", prompt(1, 20), 3), prompt_logprobs=1)
    outcome = run(runner, [job]).outcomes["a"]
    assert outcome.tokens == alone(network("qwen3"), job)
    assert (model.pieces, model.steps, len(outcome.scored)) == (1, 3, 19)
