"""Proposed tokens change nothing but the number of steps: neither a token nor a log-probability."""

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.backends.text.model import TextModel
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.batching.model import LanguageModel
from orchard.engine.memory import Shares
from orchard.engine.runner import Runner
from orchard.engine.sampling.grammar import GrammarError, GrammarState, Masks
from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.speculation import make
from orchard.engine.speculation.forced_tokens import ForcedProposer
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.speculation.step_clock import StepClock
from orchard.engine.ticket import Limits
from tests.engine.sampling.test_grammar import sampled, some_jobs
from tests.engine.test_invariants import EDGES, params
from tests.support.drafting import Wrong, drafting
from tests.support.engine_driver import Engines, greedy, prompt
from tests.support.examples import examples, is_deep, some
from tests.support.grammars import HEAD, lark, text
from tests.support.heads import OracleHead, head_runner, headed
from tests.support.speculation import FixedController, speculation
from tests.support.tiny_models import LOOSE, Course, Other, alone, footprint, make_runner, network, run

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("qwen3", {}),
    "windows": ("gemma3_text", {}),
    "delta net": ("qwen3_next", {}),
    "convolutions": ("lfm2", {}),
    "quantised from a place on": ("qwen3", {"kv_bits": 4, "kv_group_size": 32, "quantized_kv_start": 40}),
    "ring with a head": ("qwen3", {"max_kv_size": 24}),
}
WHOLE = {"ring with a head"}
"""Their logits depend on how prompts are cut, with or without speculation."""
_ROUNDING = 1e-3  # in a log-probability; a wrong mask or place changes it by more than 0.1
_SETTINGS: dict[str, Any] = {"derandomize": True, "database": None, "phases": [Phase.generate]}
"""Examples are not shrunk: that would take longer than a test may."""
every_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def model_of(kind: str) -> Any:
    name, options = KINDS[kind]
    model = network(name)
    if size := options.get("max_kv_size"):
        model = dataclasses.replace(model, max_kv_size=size, fingerprint=f"{model.fingerprint} {size}")
    return model


def samples(course: Course, job: Job) -> list[list[Sample]]:
    drawn = [one for step in course.steps for one in step.tokens if one.job == job.id]
    return [[one.sample for one in drawn if one.choice == choice] for choice in range(job.choices)]


Answers = dict[str, list[list[Sample]]]
"""What each job draws without guesses, with nobody around and nothing short, by its id."""
_ALONE: Answers = {}


def answers_of(model: TextModel, jobs: Sequence[Job], **options: Any) -> Answers:
    found: Answers = {}
    for job in jobs:
        key = f"{model.fingerprint} {replace(job, id='')} {options}"
        if key not in _ALONE:
            course = run(make_runner(model, **options), [job])
            assert not course.outcomes[job.id].broken
            _ALONE[key] = samples(course, job)
        found[job.id] = _ALONE[key]
    return found


def tokens_of(answers: Answers) -> dict[str, list[list[int]]]:
    return {name: [[sample.token for sample in choice] for choice in of] for name, of in answers.items()}


class Tally:
    """Sees that proposed tokens change nothing; counts, over the examples of a test, how many were right and wrong."""

    def __init__(self) -> None:
        self.accepted = self.rejected = 0

    def check(self, course: Course, jobs: Sequence[Job], answers: Answers, gone: Collection[str]) -> None:
        """Compare what jobs drew with their answers; those that are gone have drawn the beginning of one."""
        for job in jobs:
            assert not course.outcomes[job.id].broken
            for found, whole in zip(samples(course, job), answers[job.id], strict=True):
                expected = whole[: len(found)] if job.id in gone else whole
                assert [one.token for one in found] == [one.token for one in expected], job
                for one, other in zip(found, expected, strict=True):
                    pairs = zip(_log_probabilities(one), _log_probabilities(other), strict=True)
                    assert all(math.isclose(*pair, rel_tol=0, abs_tol=_ROUNDING) for pair in pairs), (one, other, job)
        verified = [one.verified for step in course.steps for one in step.tokens if one.verified]
        self.accepted += sum(one.accepted for one in verified)
        self.rejected += sum(one.proposed > one.accepted for one in verified)


def _log_probabilities(sample: Sample) -> list[float]:
    own = [] if sample.logprob is None else [sample.logprob]
    return [*own, *(value for _, value in sample.top)]


@st.composite
def all_params(draw: st.DrawFn) -> SamplingParams:
    one = replace(draw(params()), top_logprobs=draw(st.sampled_from([3, 0, None])))
    contexts = {f"{name}_context_size": draw(st.sampled_from([0, 3])) for name in ("repetition", "frequency")}
    if draw(st.booleans()):
        contexts |= {"thinking_budget": draw(st.integers(0, 9)), "think_end": 7}
    return replace(one, **contexts)


@st.composite
def mixes(draw: st.DrawFn) -> list[Job]:
    """The simplest ones, which are tried first, are not the shortest: `make test` tries only three."""
    lengths = st.one_of(st.sampled_from([41, 1, 2, 39, 40, *EDGES]), st.integers(1, 60))
    temperatures = draw(st.permutations([0.0, 1.0, 0.5, 1.7]))
    made = [
        Job(
            name,
            prompt(draw(st.integers(0, 2)), draw(lengths)),
            replace(draw(all_params()), temperature=temperature),
            draw(st.one_of(st.just(16), st.integers(1, 24))),
            draw(st.integers(1, 2)),
        )
        for name, temperature in zip("abc"[draw(st.integers(0, 2)) :], temperatures, strict=False)
    ]
    return [replace(job, speculates=draw(st.sampled_from([True, True, True, False]))) for job in made]


def play(runner: Runner, jobs: Sequence[Job], data: Any, happen: Sequence[str]) -> tuple[Course, set[str]]:
    """Run jobs that join at any step; some are paused and resumed, some cancelled. Return the names of the latter.

    If limits happen, other programs take all or a part of the memory, and free it.
    """
    whole, cached = runner._scheduler._limits.max_request_bytes, 2**22
    late = list(jobs[1:])
    gone: set[str] = set()
    paused: list[str] = []

    def meanwhile(course: Course) -> list[Job]:
        running = [name for name in course.outcomes if name not in gone]
        match data.draw(st.sampled_from(happen)):
            case "pause" if not paused:
                paused.append(data.draw(st.sampled_from(running or [""])))
                runner.pause(paused[0])
            case "cancel" if late and running:
                gone.add(data.draw(st.sampled_from(running)))
                for name in gone:
                    runner.cancel(name)
            case "join" if late:
                return [late.pop()]
            case "limit":
                left = data.draw(st.sampled_from([0, whole // 4, whole // 2, whole, whole + cached]))
                runner.limit_memory(Shares(whole, cached, left))
        if paused and (data.draw(st.booleans()) or not late):
            runner.resume(paused.pop())
        if runner.is_idle and runner._scheduler.starved_ids:
            runner.limit_memory(Shares(whole, cached, whole + cached))
        return [late.pop()] if late and runner.is_idle else []

    course = run(runner, jobs[:1], meanwhile)
    return course, gone


def tight(model: LanguageModel, jobs: Sequence[Job], **options: Any) -> Limits:
    """Let each job fit, but not all of them."""
    size = footprint(model, TextOptions(**options))
    growth = size.bytes(2) - size.bytes(1)
    most = max(job.choices * (size.bytes(len(job.prompt)) + (258 + job.max_tokens) * growth) for job in jobs)
    return Limits(max_rows=4, memory_bytes=most, chunk=16, idle_chunk=64, room=4)


@every_kind
def test_speculation_changes_no_token(kind: str) -> None:
    """Over prompts, ways to draw, guesses, joins, leaves, pauses, preemptions and cached prompts."""
    model, options, tally = model_of(kind), KINDS[kind][1], Tally()

    @examples(15, **_SETTINGS)
    @given(jobs=mixes(), data=st.data())
    def check(jobs: list[Job], data: Any) -> None:
        answers = answers_of(model, jobs, **options)
        guesses = speculation(
            tokens_of(answers),
            data.draw(st.sampled_from([5, 1, 2, 9])),
            data.draw(st.sampled_from([0.9, 0.5, 0.0, 1.0])),
            silent=data.draw(st.sampled_from([0.0, 0.5])),
            raises=data.draw(st.sampled_from([0.0, 0.0, 0.1])),
        )
        limits = LOOSE if kind in WHOLE or not data.draw(st.booleans()) else tight(model, jobs, **options)
        cache_bytes = 0 if kind in WHOLE else data.draw(st.sampled_from([0, 2**22]))
        happen = ["join", "wait", "wait", "wait", "cancel", *([] if kind in WHOLE else ["pause"])]
        runner = make_runner(model, limits, cache_bytes=cache_bytes, short=16, speculation=guesses, **options)
        for _ in range(2 if cache_bytes else 1):  # the second time from the cache
            course, gone = play(runner, jobs, data, happen)
            tally.check(course, jobs, answers, gone)

    check()
    assert tally.accepted > 20
    assert tally.rejected > 3


def test_what_the_engine_speculates_with_changes_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its controller finds worth it. What was answered before is proposed again, where it is wrong, too.

    Steps take some time or other, which is not measured: on a busy machine, no guess might be worth it.
    """
    model, tally = network("qwen3"), Tally()
    lap, luck = StepClock.lap, random.Random(1)
    monkeypatch.setattr(StepClock, "lap", lambda clock: lap(clock) and luck.uniform(0.5, 1.5))

    @examples(15, **_SETTINGS)
    @given(jobs=mixes(), data=st.data())
    def check(jobs: list[Job], data: Any) -> None:
        guesses = make.make_speculation(TextOptions(), model.vocab_size, on_cuda=False)
        runner = make_runner(model, LOOSE, cache_bytes=2**22, short=16, speculation=guesses)
        others = [replace(job, params=replace(job.params, seed=job.params.seed + 1)) for job in jobs]
        for these in (jobs, others, jobs, others):
            course, gone = play(runner, these, data, ["join", "wait", "wait", "wait", "cancel", "pause"])
            tally.check(course, these, answers_of(model, these), gone)

    check()
    assert tally.accepted > 20


DRAFTS: dict[str, Callable[[TextModel], Any]] = {
    "its own weights": lambda model: model,
    "always wrong": Wrong,
    "raises": lambda model: Other(model, before=_raises_at_times()),
    "dense": lambda model: network("qwen3"),
    "others": lambda model: network("qwen3_moe"),
    "windows": lambda model: network("gemma3_text"),
    "delta net": lambda model: network("qwen3_next"),
}
"""Drafts for a model."""


def _raises_at_times() -> Callable[[mx.array, dict[str, Any]], None]:
    """Raise in each twentieth pass: those before it were of use."""
    passes = itertools.count(1)

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if next(passes) % 20 == 0:
            raise RuntimeError("unlucky")

    return before


DRAFTED = [
    ("dense", "its own weights"),
    ("dense", "always wrong"),
    ("windows", "its own weights"),
    ("delta net", "raises"),  # has its model's own weights, too
]


@pytest.mark.parametrize(
    ("kind", "draft"),
    [*itertools.product(["dense", "windows", "delta net"], DRAFTS)] if is_deep() else DRAFTED,
)
def test_a_draft_changes_no_token(kind: str, draft: str, caplog: pytest.LogCaptureFixture) -> None:
    """Over prompts, ways to draw, drafts, joins, leaves, pauses, preemptions and cached prompts."""
    model, tally = model_of(kind), Tally()

    @examples(5, **_SETTINGS)
    @given(jobs=mixes(), data=st.data())
    def check(jobs: list[Job], data: Any) -> None:
        guesses = drafting(
            DRAFTS[draft](model),
            data.draw(st.sampled_from([5, 1, 2])),
            chunk=data.draw(st.sampled_from([512, 9])),
            cache_bytes=data.draw(st.sampled_from([0, 2**22])),
        )
        limits = tight(model, jobs) if data.draw(st.booleans()) else LOOSE
        cache_bytes = data.draw(st.sampled_from([0, 2**22]))
        runner = make_runner(model, limits, cache_bytes=cache_bytes, short=16, speculation=guesses)
        answers = answers_of(model, jobs)
        for _ in range(2):
            course, gone = play(runner, jobs, data, ["join", "wait", "wait", "wait", "cancel", "pause"])
            tally.check(course, jobs, answers, gone)

    check()
    assert tally.rejected > 3
    assert tally.accepted > 20 or draft not in {"its own weights", "raises"}
    assert ("a proposer failed" in caplog.text) == (draft == "raises")


def test_a_head_changes_no_token() -> None:
    """Over prompts, ways to draw, guesses, joins, leaves, pauses, preemptions and cached prompts."""
    (plain, model, _), tally = headed(), Tally()

    @examples(7, **_SETTINGS)
    @given(jobs=mixes(), data=st.data())
    def check(jobs: list[Job], data: Any) -> None:
        options: dict[str, Any] = data.draw(st.sampled_from([{}, KINDS["quantised from a place on"][1]]))
        answers = answers_of(plain, jobs, **options)
        limits = tight(model, jobs, **options) if data.draw(st.booleans()) else LOOSE
        cache_bytes = data.draw(st.sampled_from([0, 2**22]))
        most, right = data.draw(st.sampled_from([5, 1, 2])), data.draw(st.sampled_from([0.9, 0.5, 1.0]))
        given = {"limits": limits, "cache_bytes": cache_bytes, "short": 16, **options}
        runner = head_runner(model, most, answers=tokens_of(answers), right=right, **given)
        for _ in range(2 if cache_bytes else 1):
            course, gone = play(runner, jobs, data, ["join", "wait", "wait", "wait", "cancel", "pause"])
            tally.check(course, jobs, answers, gone)
        assert runner.speculation
        assert isinstance(head := runner.speculation._drafter, OracleHead)
        assert not head.errors

    check()
    assert tally.accepted > 20
    assert tally.rejected > 3


def test_a_grammar_is_kept_with_a_draft() -> None:
    """The draft knows nothing of it."""
    model, jobs = network("qwen3"), some_jobs()[1:3]
    course = run(make_runner(model, speculation=drafting(model)), jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
        assert not course.outcomes[job.id].broken


@pytest.mark.parametrize(("right", "place"), some([*itertools.product([1.0, 0.7, 0.0], range(2))], 5))
def test_grammars_are_kept(right: float, place: int) -> None:
    """Also those that bind only behind reasoning or a trigger, with guesses that they forbid among the others."""
    model, jobs = network("qwen3"), some_jobs()[place::2]
    answers = {job.id: alone(model, job) for job in jobs}
    runner = make_runner(model, speculation=speculation(answers, 6, right))
    course = run(runner, jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == answers[job.id], job.id
        assert not course.outcomes[job.id].broken


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_what_a_grammar_forces_is_always_right(temperature: float) -> None:
    """However unlikely the model finds it, and the way in which the tokenizer cuts it."""
    model, controller = network("qwen3"), FixedController(5)
    named = lark(f'{HEAD}start: "the user and the assistant: " /[a-z]{{3}}/ " thank you than the sky is blue"')
    jobs = [sampled(f"{seed}", seed, named, temperature=temperature) for seed in range(3)]
    proposing = Speculation([ForcedProposer()], controller, model.vocab_size)
    course = run(make_runner(model, speculation=proposing), jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job)
    proposed = sum(count for _, count, _ in controller.results)
    assert controller.accepted() == {"grammar": proposed}
    assert proposed > 3 * 10


def test_waiting_for_what_a_grammar_allows_is_no_cost_of_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step waits for that, so it is over before the controller begins to count."""
    unread: list[object] = []

    class Late:
        """What `Masks.begin` returns, computed once somebody waits for it."""

        def __init__(self, masks: Masks, states: Sequence[GrammarState | None]) -> None:
            unread.append(self)
            self._of = functools.cache(lambda: masks.compute(states))

        def result(self) -> tuple[mx.array | None, dict[int, GrammarError]]:
            unread[:] = [one for one in unread if one is not self]
            words, failed = self._of()
            return None if words is None else mx.array(words), failed

    class Watching(FixedController):
        looked = 0

        def proposal_limit(self, rows: int) -> int:
            assert not unread
            self.looked += 1
            return super().proposal_limit(rows)

    model, controller = network("qwen3"), Watching(2)

    def begin(masks: Masks, states: Sequence[GrammarState | None]) -> Late:
        return Late(masks, states)

    monkeypatch.setattr(Masks, "begin", begin)
    proposing = Speculation([ForcedProposer()], controller, model.vocab_size)
    course = run(make_runner(model, speculation=proposing), [sampled("a", 1, lark(f"{HEAD}start: /[a-z ]{{20}}/"))])
    assert not course.outcomes["a"].broken
    assert controller.looked > 3


def test_a_grammar_that_gets_stuck_behind_proposed_tokens() -> None:
    """All that it allows comes, then the error that comes without guesses."""
    model = network("qwen3")
    job = sampled("bad", 1, lark(f'start: "hello" <[{model.vocab_size - 1}]>'), 100)  # there is no such token
    without = run(make_runner(model), [job]).outcomes["bad"]
    assert text(without.tokens[0]) == "hello"
    assert without.broken
    answers = {"bad": [[*without.tokens[0], 1, 2, 3]]}
    for most in (1, 2, 9):
        found = run(make_runner(model, speculation=speculation(answers, most)), [job]).outcomes["bad"]
        assert (found.tokens, found.broken) == (without.tokens, without.broken)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "qwen3_next"])
def test_prompts_that_were_kept_on_disk_are_right(
    engines: Engines, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What rows have read in passes that verify is what a restarted engine goes on from."""
    first = greedy("a", prompt(1, 30), 40, boundaries=(20,))
    answer = engines.alone(kind, first).only
    again = greedy("b", [*first.prompt, *answer, *prompt(2, 5)], 20)
    expected = engines.alone(kind, again).only
    controller = FixedController(5)
    monkeypatch.setattr(make, "CostController", lambda: controller)
    options: dict[str, Any] = {"prompt_cache_dir": str(tmp_path), "prompt_cache_bytes": 2**24}
    with engines.fresh(kind, **options) as driver:
        assert driver.alone(replace(first, prediction=tuple(answer))).only == answer
        assert controller.accepted()["prediction"] > 20
    with engines.fresh(kind, **options) as driver:
        found = driver.alone(replace(again, prediction=tuple(expected)))
    assert found.only == expected
    assert (found.cached_tokens or 0) >= len(first.prompt)
