"""Rows of which several tokens are verified at a time: what is read, what is drawn, what is said of it."""

import dataclasses
import itertools
from typing import Any, cast

import mlx.core as mx
import pytest
from msgspec.structs import replace

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import speculating_rows
from orchard.engine.batching.batch import Batch, BatchMode, VerifyMode
from orchard.engine.batching.batched_cache import GROWTH
from orchard.engine.batching.job import DrawnToken, Job, Verification
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import Limits
from tests.support.drafting import Wrong, drafting
from tests.support.engine_driver import greedy, prompt
from tests.support.speculation import FixedController, Oracle, speculation
from tests.support.tiny_models import LOOSE, Course, Other, alone, footprint, has, make_runner, network, run

JOB = greedy("a", prompt(1, 6), 13)


def answers_of(*jobs: Job) -> dict[str, list[list[int]]]:
    return {job.id: [list(answer) for answer in alone(network("qwen3"), job)] for job in jobs}


def counts(course: Course) -> list[int]:
    return [len(step.tokens) for step in course.steps]


def spied(passes: list[tuple[int, ...]]) -> Other:
    return Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))


def check(course: Course, *jobs: Job) -> None:
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(network("qwen3"), job), job.id
        assert not course.outcomes[job.id].broken


def test_a_step_brings_all_that_was_right_and_a_token_more() -> None:
    passes: list[tuple[int, ...]] = []
    runner = make_runner(spied(passes), speculation=speculation(answers_of(JOB), 4))
    passes.clear()
    course = run(runner, [JOB])
    check(course, JOB)
    # The prompt, then passes of a token and four proposed ones; at the end no more are proposed than may come.
    assert passes == [(1, 5), (1, 5), (1, 5), (1, 3)]
    assert counts(course) == [0, 5, 5, 3, 0]
    assert [step.tokens[-1].verified for step in course.steps[1:4]] == [Verification("ngram", 4, 4)] * 2 + [
        Verification("ngram", 2, 2)
    ]
    assert all(one.verified is None for step in course.steps for one in step.tokens[:-1])


def test_a_wrong_token_ends_what_stands() -> None:
    answers = answers_of(JOB)
    answers["a"][0][2] += 1
    course = run(make_runner(network("qwen3"), speculation=speculation(answers, 4)), [JOB])
    check(course, JOB)
    assert counts(course) == [0, 3, 5, 5, 0]
    assert course.steps[1].tokens[-1].verified == Verification("ngram", 4, 2)


@pytest.mark.parametrize("silent", ["controller", "proposer", "job"])
def test_without_proposals_steps_are_what_they_are_without_speculation(silent: str) -> None:
    """All but the first launch a pass before they read the last one's tokens; a row alone keeps mlx-lm's own cache."""
    passes: list[tuple[int, ...]] = []
    guesses = speculation(answers_of(JOB), 0 if silent == "controller" else 4, silent=float(silent == "proposer"))
    job = replace(JOB, speculates=silent != "job")
    runner = make_runner(spied(passes), speculation=guesses)
    passes.clear()
    course = run(runner, [job])
    check(course, job)
    assert passes == [(1, 5)] + [(1, 1)] * 13
    assert counts(course) == [0, 1, 0, *[1] * 12]


class Once(Oracle):
    """Proposes only behind so many tokens of an answer."""

    def __init__(self, answers: dict[str, list[list[int]]], begun: int) -> None:
        super().__init__(answers)
        self._begun = begun

    def _one(self, row: Any, count: int) -> Any:
        begun = len(row.tokens) - row.prompt_length
        # A row of which a token is still to be read lacks that one.
        return super()._one(row, count) if begun in (self._begun - 1, self._begun) else None


def once(begun: int, controller: FixedController | None = None) -> Speculation:
    return Speculation([Once(answers_of(JOB), begun)], controller or FixedController(4), network("qwen3").vocab_size)


def test_the_pipeline_is_left_for_proposals_and_entered_again() -> None:
    controller = FixedController(4)
    course = run(make_runner(network("qwen3"), speculation=once(5, controller)), [JOB])
    check(course, JOB)
    # The step that verifies reads the fifth token first, and the one behind it has nothing to read.
    assert counts(course) == [0, 1, 0, 1, 1, 1, 6, 0, 1, 1, 1]
    assert [(proposed, accepted) for _, proposed, accepted in controller.results] == [(4, 4)]


@pytest.mark.parametrize("most", [0, 2])
def test_what_passes_cost_is_told(most: int) -> None:
    """Not of the step in which a row comes, nor of the next; a step that has nothing to wait for has no tokens."""
    guesses = speculation(answers_of(JOB), most)
    run(make_runner(network("qwen3"), speculation=guesses), [JOB])
    controller = cast(FixedController, guesses.controller)
    assert [(rows, tokens) for rows, tokens, _ in controller.observed] == (
        [(1, 3), (1, 3), (1, 0)] if most else [(1, 1)] * 11
    )
    assert all(0 < seconds < 10 for *_, seconds in controller.observed)


def test_a_step_that_traces_its_pass_says_nothing_of_what_passes_cost() -> None:
    model, options = network("qwen3"), TextOptions()
    job = greedy("a", prompt(1, GROWTH - 16), 25)  # outgrows its room after some passes
    observed: list[int] = []
    for traced in (False, True):
        guesses, batch = speculation(answers_of(job), 2), Batch(model, multiple=8, traced=traced)
        store = KVStore(model, options)
        run(Runner(model, store, batch, LOOSE, footprint(model, options), speculation=guesses), [job])
        observed.append(len(cast(FixedController, guesses.controller).observed))
        assert batch.trace_count == (2 if traced else 0)
    assert observed[1] == observed[0] - 1


def test_steps_that_read_prompts_say_nothing_of_what_passes_cost() -> None:
    guesses = speculation(answers_of(JOB), 0)
    long = greedy("long", prompt(2, 400), 1, speculates=False)
    runner = make_runner(network("qwen3"), speculation=guesses, limits=replace(LOOSE, chunk=8))
    course = run(runner, [JOB], lambda course: [long] if len(course.steps) == 3 else [])
    check(course, JOB)
    assert len(cast(FixedController, guesses.controller).observed) <= 2


def test_a_pass_is_as_wide_as_the_longest_of_its_proposals() -> None:
    jobs = [JOB, greedy("b", prompt(2, 9), 13, speculates=False)]
    controller, passes = FixedController(3), list[tuple[int, ...]]()
    guesses = Speculation([Oracle(answers_of(*jobs))], controller, network("qwen3").vocab_size)
    runner = make_runner(spied(passes), speculation=guesses)
    passes.clear()
    course = run(runner, jobs)
    check(course, *jobs)
    assert set(passes[2:]) >= {(2, 4), (1, 1)}
    assert {(rows, tokens) for rows, tokens, _ in controller.observed} >= {(2, 8), (1, 1)}


def logprobs(runner: Runner, job: Job) -> list[tuple[float, ...]]:
    drawn = [one.sample for step in run(runner, [job]).steps for one in step.tokens]
    return [(sample.logprob or 0.0, *(value for _, value in sample.top)) for sample in drawn]


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
@pytest.mark.parametrize("right", [1.0, 0.5])
def test_logprobs_are_the_same(kind: str, right: float) -> None:
    model = network(kind)
    job = Job("a", prompt(1, 14), SamplingParams(seed=5, top_p=0.9, repetition_penalty=1.2, top_logprobs=3), 20)
    guesses = speculation({"a": alone(model, job)}, 5, right)
    with_guesses, without = (logprobs(make_runner(model, speculation=one), job) for one in (guesses, None))
    assert len(with_guesses) == len(without)
    for one, other in zip(with_guesses, without, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def raises_at(width: int) -> LanguageModel:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if tokens.shape[1] == width:
            raise RuntimeError("unlucky")

    return Other(network("qwen3"), before=before)


@pytest.mark.parametrize(("count", "width"), [(1, 5), (3, 5), (1, 3)])
def test_a_pass_that_fails_is_repeated_without_proposals(count: int, width: int) -> None:
    jobs = [greedy(str(number), prompt(number, 8), 13) for number in range(count)]
    guesses = speculation(answers_of(*jobs), 4)
    course = run(make_runner(raises_at(width), speculation=guesses, prefill_step_size=2), jobs)
    check(course, *jobs)
    observed = cast(FixedController, guesses.controller).observed
    assert not any(tokens == rows * width for rows, tokens, _ in observed)  # it says nothing of what passes cost


def test_a_row_that_can_not_be_read_fails_all_the_same() -> None:
    bad = 323
    model = Other(network("qwen3"), before=lambda tokens, given: _refuse(tokens, bad))
    job = Job("bad", prompt(1, 9), SamplingParams(seed=0, logit_bias={bad: 1e9}), 8)
    jobs = [JOB, job, greedy("c", prompt(3, 9), 11)]
    guesses = speculation(answers_of(jobs[0], jobs[2]) | {"bad": [[1, bad, 1]]}, 3)
    course = run(make_runner(model, speculation=guesses), jobs)
    check(course, jobs[0], jobs[2])
    assert course.outcomes["bad"].broken == ["the model failed on this request: RuntimeError: unlucky"]


def _refuse(tokens: mx.array, word: int) -> None:
    if has(tokens, word):
        raise RuntimeError("unlucky")


def verifying_alone(model: LanguageModel, guesses: Speculation) -> Runner:
    batch = Batch(model, verify_mode=VerifyMode.ALONE)
    options = TextOptions()
    return Runner(model, KVStore(model, options), batch, LOOSE, footprint(model, options), speculation=guesses)


def test_a_model_whose_states_know_no_padding_verifies_rows_that_are_alone() -> None:
    jobs = [JOB, greedy("b", prompt(2, 9), 5)]
    passes: list[tuple[int, ...]] = []
    runner = verifying_alone(spied(passes), speculation(answers_of(*jobs), 4))
    passes.clear()
    check(run(runner, jobs), *jobs)
    assert {rows for rows, width in passes[2:] if width == 1} == {2}
    assert {rows for rows, width in passes[2:] if width > 1} == {1}


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_row_that_comes_does_not_share_a_pass_that_reads_tokens_again(steps: int) -> None:
    """Its states would take the pass's padding for tokens."""
    model, late = network("mamba"), greedy("b", prompt(2, 9), 9)
    answers = {job.id: alone(model, job) for job in (JOB, late)}
    wrong = [[token if place % 3 else token - 1 for place, token in enumerate(answers["a"][0])]]
    runner = verifying_alone(model, speculation({"a": wrong, "b": [[]]}))
    course = run(runner, [JOB], lambda course: [late] if len(course.steps) == steps else [])
    assert {name: outcome.tokens for name, outcome in course.outcomes.items()} == answers


def test_tokens_are_read_again_also_where_nothing_more_is_asked_for() -> None:
    asked = itertools.cycle([4, 4, 0])

    class AtTimes(FixedController):
        def proposal_limit(self, rows: int) -> int:
            return next(asked)

    model = network("lfm2")
    job = greedy("a", prompt(1, 6), 20)
    answers = {"a": alone(model, job)}
    guesses = Speculation([Oracle(answers, 0.7)], AtTimes(4), model.vocab_size)
    course = run(make_runner(model, speculation=guesses), [job])
    assert course.outcomes["a"].tokens == answers["a"]
    assert verified(course)


def test_groups_that_do_not_share_a_pass_verify_all_the_same() -> None:
    jobs = [JOB, greedy("b", prompt(2, 40), 9), greedy("c", prompt(3, 7), 11)]
    guesses = speculation(answers_of(*jobs), 4, 0.8)
    runner = make_runner(network("qwen3"), mode=BatchMode.BY_LENGTH, short=8, speculation=guesses)
    course = run(runner, jobs)
    check(course, *jobs)
    assert verified(course)


def test_the_end_of_a_turn_among_proposed_tokens() -> None:
    """Nothing behind it counts, and what is kept for later prompts is what was said."""
    model = network("qwen3")
    (end,) = model.eos_token_ids
    bias = SamplingParams(seed=4, temperature=1.0, logit_bias={end: 4.5})
    job = next(
        job
        for seed in range(50)
        if 4 <= len(alone(model, job := Job("a", prompt(1, 9), replace(bias, seed=seed), 40))[0]) <= 12
    )
    (answer,) = alone(model, job)
    guesses = speculation({"a": [[*answer, 1, 2, 3]]}, 20)
    runner = make_runner(model, cache_bytes=2**22, speculation=guesses)
    course = run(runner, [job])
    check(course, job)
    assert len(answer) in counts(course)
    assert verified(course)[0].verified == Verification("ngram", len(answer) + 3, len(answer))
    assert course.outcomes["a"].reasons == ["stop"]
    assert runner.store.find([*job.prompt, *answer, 1, 2]).length == len(job.prompt) + len(answer)


def test_rows_are_opened_and_closed() -> None:
    jobs = [JOB, greedy("b", prompt(2, 9), 20, choices=2), greedy("c", prompt(3, 9), 20, speculates=False)]
    oracle = Oracle(answers_of(*jobs))
    runner = make_runner(network("qwen3"), speculation=Speculation([oracle], FixedController(1), 330))
    seen: set[str] = set()

    def leave(course: Course) -> list[Job]:
        seen.update(row.job.id for row in oracle.open_rows)  # type: ignore[attr-defined]
        if len(course.steps) == 5:
            runner.cancel("b", 1)
        return []

    run(runner, jobs, leave)
    assert seen == {"a", "b"}
    assert not oracle.open_rows


def test_a_row_that_goes_before_its_first_step_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle(answers_of(JOB))
    closed: list[str] = []

    def close(row: SpeculatingRow) -> None:
        closed.append(row.job.id)  # type: ignore[attr-defined]
        Oracle.close(oracle, row)

    monkeypatch.setattr(oracle, "close", close)
    runner = make_runner(network("qwen3"), speculation=Speculation([oracle], FixedController(1), 330))
    runner.add(JOB)
    runner.step()
    runner.pause("a")
    runner.step()
    assert closed == ["a"]
    assert not oracle.open_rows


def test_a_row_whose_cache_is_empty_takes_its_first_step_alone() -> None:
    """It has nothing yet that could be cut behind a wrong guess."""
    job = greedy("a", prompt(1, 1), 9)
    answers = answers_of(job)
    answers["a"][0][1] += 1
    course = run(make_runner(network("qwen3"), speculation=speculation(answers, 4)), [job])
    check(course, job)
    assert counts(course) == [1, 1, 5, 2, 0]


def test_a_ring_gets_no_more_tokens_than_it_has_places() -> None:
    model = dataclasses.replace(network("qwen3"), max_kv_size=12, fingerprint="a ring")
    answers = {"a": alone(model, JOB)}
    passes: list[tuple[int, ...]] = []
    watched = Other(model, before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    runner = make_runner(watched, speculation=speculation(answers, 20))
    passes.clear()
    assert run(runner, [JOB]).outcomes["a"].tokens == answers["a"]
    # The first four places stay what they are. The tokens: the prompt's, then those that are read to draw the answer's.
    assert passes == [(1, 5), (1, 8), (1, 5)]


def test_a_pass_has_no_more_logits_than_memory_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [JOB, greedy("b", prompt(2, 9), 13)]
    passes: list[tuple[int, ...]] = []
    runner = make_runner(spied(passes), speculation=speculation(answers_of(*jobs), 9))
    monkeypatch.setattr(speculating_rows, "_MAX_LOGITS", 7 * network("qwen3").vocab_size)
    passes.clear()
    check(run(runner, jobs), *jobs)
    assert max(rows * tokens for rows, tokens in passes if tokens not in (5, 8)) <= 7
    assert (2, 3) in passes


def verified(course: Course) -> list[DrawnToken]:
    return [one for step in course.steps for one in step.tokens if one.verified]


def test_proposals_take_no_memory_that_is_not_there() -> None:
    """Where rows fit just so, none is stopped for them."""
    size = footprint(network("qwen3"), TextOptions())
    tokens = len(JOB.prompt) + JOB.max_tokens
    tight = Limits(max_rows=2, memory_bytes=size.bytes(tokens) + 256 * size.per_token, chunk=64, idle_chunk=64, room=2)
    course = run(make_runner(network("qwen3"), tight, speculation=speculation(answers_of(JOB), 9)), [JOB])
    check(course, JOB)
    assert verified(course)
    assert max(one.verified.proposed for one in verified(course) if one.verified) == 2


def test_the_scheduler_knows_how_far_rows_are() -> None:
    runner = make_runner(network("qwen3"), speculation=speculation(answers_of(JOB), 4))
    runner.add(JOB)
    per_token = footprint(network("qwen3"), TextOptions()).per_token
    empty = 0
    for drawn in (0, 5, 10):
        step = runner.step()
        empty = empty or runner._scheduler.used_bytes
        assert len(step.tokens) == min(drawn, 5)
        assert runner._scheduler.used_bytes == empty + drawn * per_token


def test_the_scheduler_counts_no_token_twice_where_a_row_goes_on() -> None:
    runner = make_runner(network("qwen3"), speculation=speculation(answers_of(JOB), 4))
    runner.add(JOB)
    per_token = footprint(network("qwen3"), TextOptions()).per_token
    runner.step()
    empty = runner._scheduler.used_bytes
    drawn = len(runner.step().tokens)
    runner.pause("a")
    runner.step()
    runner.resume("a")
    for _ in range(2):
        drawn += len(runner.step().tokens)
    assert drawn == 10
    assert runner._scheduler.used_bytes == empty + drawn * per_token


@pytest.mark.parametrize("kind", ["qwen3", "lfm2"])
def test_keys_are_quantised_from_the_very_place_on(kind: str) -> None:
    """As without guesses: what comes before is read exactly, what comes behind in so few bits that it shows.

    Also beside states that make a row read tokens again behind a wrong guess.
    """
    model = network(kind)
    options: dict[str, Any] = {"kv_bits": 2, "kv_group_size": 32, "quantized_kv_start": 40}
    jobs = [greedy(str(length), prompt(length, length), 30) for length in (33, 35, 38)]
    answers = {job.id: alone(model, job, **options) for job in jobs}
    assert answers != {job.id: alone(model, job) for job in jobs}
    for right in (1.0, 0.7):
        course = run(make_runner(model, speculation=speculation(answers, 4, right), **options), jobs)
        assert {job.id: course.outcomes[job.id].tokens for job in jobs} == answers


def test_a_draft_with_the_models_own_weights_is_always_right() -> None:
    """It reads the prompt in the first step, which is a plain one; then each step brings all that it guesses."""
    passes: list[tuple[int, ...]] = []
    controller = FixedController(4)
    course = run(make_runner(spied(passes), speculation=drafting(network("qwen3"), controller=controller)), [JOB])
    check(course, JOB)
    assert all(
        proposal.source == "draft" and proposed == accepted for proposal, proposed, accepted in controller.results
    )
    assert controller.accepted() == {"draft": sum(accepted for *_, accepted in controller.results)}
    assert counts(course) == [0, 1, 5, 5, 2, 0]
    assert controller.drafts == [(1, 4), (1, 4), (1, 1)]
    assert controller.read_tokens == 5


def test_a_long_text_is_read_before_its_row_is_drafted_for() -> None:
    """Meanwhile its tokens come as without a draft, and the steps say nothing of what passes cost."""
    job = greedy("a", prompt(1, 60), 12)
    controller = FixedController(4)
    course = run(
        make_runner(network("qwen3"), speculation=drafting(network("qwen3"), controller=controller, chunk=20)), [job]
    )
    check(course, job)
    assert 40 <= controller.read_tokens <= 60
    assert sum(counts(course)) == 12
    assert max(counts(course)) == 6
    assert all(tokens > rows for rows, tokens, _ in controller.observed)


def test_a_step_whose_draft_compiles_says_nothing_of_what_passes_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = FixedController(4)
    guesses = drafting(network("qwen3"), controller=controller)
    drafter: Any = guesses._drafter
    draft = drafter.draft
    monkeypatch.setattr(drafter, "draft", lambda rows, counts: replace(draft(rows, counts), compiled=True))
    check(run(make_runner(network("qwen3"), speculation=guesses), [JOB]), JOB)
    assert controller.accepted()["draft"] > 8
    assert not controller.drafts
    assert all(tokens <= rows for rows, tokens, _ in controller.observed)


def test_a_draft_that_raises_costs_its_rows_nothing_but_the_guesses() -> None:
    class Unlucky(Wrong):
        def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
            raise RuntimeError("unlucky")

    other = greedy("b", prompt(2, 9), 7)
    course = run(make_runner(network("qwen3"), speculation=drafting(Unlucky(network("qwen3")))), [JOB, other])
    check(course, JOB, other)


def test_what_an_adversarial_draft_guesses_is_never_kept() -> None:
    controller = FixedController(4)
    course = run(
        make_runner(network("qwen3"), speculation=drafting(Wrong(network("qwen3")), controller=controller)), [JOB]
    )
    check(course, JOB)
    assert controller.accepted() == {"draft": 0}
