"""What a runner makes of models that raise, of little memory, and of who is more important."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.batched_cache import GROWTH
from orchard.engine.batching.job import Job, MediaSpan
from orchard.engine.batching.model import LanguageModel, PromptEmbeddings
from orchard.engine.batching.prefill import Prefill
from orchard.engine.memory import Shares
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.scheduler import TooLargeRequest
from orchard.engine.ticket import Limits
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import some
from tests.support.tiny_models import Course, Other, alone, footprint, make_runner, network, run, words

BAD = 323  # no job's random prompt has it


def sampled(name: str, tokens: list[int], count: int, **fields: Any) -> Job:
    chances: dict[str, Any] = {"temperature": 0.9, "top_k": 30, "repetition_penalty": 1.2, "frequency_penalty": 0.3}
    params = SamplingParams(seed=len(tokens), logit_bias={BAD: -1e9}, **chances)
    return Job(name, tokens, params, count, **fields)


def unlucky(read: Callable[[list[list[int]]], bool]) -> LanguageModel:
    """A model that raises where `read` says so of a pass's tokens."""

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if read(words(tokens)):
            raise RuntimeError("unlucky")

    return Other(network("qwen3"), before=before)


def bad(tokens: list[list[int]]) -> bool:
    return any(BAD in row for row in tokens)


def biased(name: str, length: int, choices: int = 1) -> Job:
    """A job that draws the bad token at once and reads it in the next pass."""
    return Job(name, prompt(length, length), SamplingParams(seed=0, logit_bias={BAD: 1e9}), 8, choices=choices)


def check_the_others(course: Course, others: Sequence[Job]) -> None:
    for job in others:
        outcome = course.outcomes[job.id]
        assert outcome.tokens == alone(network("qwen3"), job), job.id
        assert not outcome.broken
        assert len(outcome.begun) == 1


def check_broken(course: Course, name: str) -> None:
    (message,) = course.outcomes[name].broken
    assert message == "the model failed on this request: RuntimeError: unlucky"


OTHERS = [greedy("a", prompt(1, 6), 12), sampled("b", prompt(2, 15), 12, choices=2), greedy("c", prompt(3, 1), 12)]


@pytest.mark.parametrize(
    ("mode", "choices", "cache_bytes"), some([*itertools.product(BatchMode, [1, 3], [0, 2**24])], 3)
)
def test_a_token_that_breaks_a_pass(mode: BatchMode, choices: int, cache_bytes: int) -> None:
    runner = make_runner(unlucky(bad), mode=mode, cache_bytes=cache_bytes)
    course = run(runner, [*OTHERS[:2], biased("bad", 9, choices), OTHERS[2]])
    check_broken(course, "bad")
    check_the_others(course, OTHERS)
    # What it has read before is right, but its caches are in no known state: nothing of them was kept.
    check_the_others(run(runner, OTHERS), OTHERS)


def test_only_the_guilty_go_when_everybody_is_in_the_first_pass() -> None:
    """Their prompts are known, so they go on at once, in the very next step."""
    jobs = [greedy(str(n), prompt(n, 5 + n), 6) for n in range(3)]
    turns: list[int] = []

    def raises_once(tokens: list[list[int]]) -> bool:
        turns.append(len(tokens))
        return len(tokens) == 3 and turns.count(3) == 1

    runner = make_runner(unlucky(raises_once), cache_bytes=2**24)
    for job in jobs:
        run(runner, [job])
    turns.clear()
    check_the_others(run(runner, jobs), jobs)
    assert turns[0] == 3


def test_a_pass_that_fails_again_and_again() -> None:
    """Everyone is tried alone, so what fails only together does no harm."""
    runner = make_runner(unlucky(lambda tokens: len(tokens) > 1))
    first, *later = OTHERS
    course = run(runner, [first], lambda course: later if len(course.steps) == 4 else ())
    check_the_others(course, OTHERS)


def test_what_a_broken_job_has_generated_is_not_cached() -> None:
    """Its other choice is in a pass of its own, and does not raise."""
    count = 0

    def seventh(tokens: list[list[int]]) -> bool:
        nonlocal count
        count += len(tokens[0]) == 1
        return count == 11

    job = Job("a", prompt(1, 10), SamplingParams(seed=1), 20, choices=2)
    runner = make_runner(unlucky(seventh), mode=BatchMode.SEQUENTIAL, cache_bytes=2**24)
    course = run(runner, [job])
    check_broken(course, "a")
    for tokens in course.outcomes["a"].tokens:
        assert len(tokens) > 1
        assert runner.store.find([*job.prompt, *tokens, 0]).length <= len(job.prompt)


@pytest.mark.parametrize("chunk", [3, 512])
def test_a_prompt_that_breaks_its_piece(chunk: int) -> None:
    limits = Limits(max_rows=64, memory_bytes=2**40, chunk=chunk, idle_chunk=chunk)
    tokens = prompt(4, 20)
    tokens[11] = BAD
    course = run(make_runner(unlucky(bad), limits), [OTHERS[0], greedy("bad", tokens), *OTHERS[1:]])
    check_broken(course, "bad")
    assert course.outcomes["bad"].tokens == [[]]
    check_the_others(course, OTHERS)


def test_a_prompt_that_can_not_be_embedded() -> None:
    def embed(cached: int) -> PromptEmbeddings:
        raise RuntimeError("unlucky")

    course = run(make_runner(network("qwen3")), [*OTHERS, greedy("bad", [1, 2, 3], embed=embed)])
    check_broken(course, "bad")
    check_the_others(course, OTHERS)


def test_many_failures_leave_nothing_behind() -> None:
    runner = make_runner(unlucky(bad), Limits(max_rows=6, memory_bytes=2**40, chunk=512, idle_chunk=512))
    names = [str(n) for n in range(15)]
    course = run(runner, [biased(name, 3 + n % 4, 1 + n % 3) for n, name in enumerate(names)])
    for name in names:
        check_broken(course, name)
    rows = runner._rows
    assert (runner._work, rows._active, rows._joining, rows._batch.slots, len(rows._sampler)) == ({}, [], [], [], 0)
    check_the_others(run(runner, OTHERS), OTHERS)


@pytest.fixture
def no_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a short row's memory would be reserved for hundreds of tokens more than it will ever have."""
    monkeypatch.setattr("orchard.engine.job_size.GROWTH", 0)


little_memory = pytest.mark.usefixtures("no_reserve")
cached_or_not = pytest.mark.parametrize(
    ("cache_bytes", "kind"), some([*itertools.product([0, 2**24], ["qwen3", "gemma3_text", "lfm2"])], 2)
)


def tight(model: LanguageModel, jobs: Sequence[Job], generated: int, reserve: int = 0, **options: Any) -> Limits:
    """Memory for all of these jobs at once until each of their rows has generated so many tokens."""
    size = footprint(model, TextOptions(**options))
    memory = 0
    for job in jobs:
        tokens = len(job.prompt)
        growth = size.bytes(tokens + 1) - size.bytes(tokens)
        memory += job.choices * (size.bytes(tokens) + (reserve + generated) * growth)
    return Limits(max_rows=64, memory_bytes=memory, chunk=64, idle_chunk=64, room=2)


def shares(rows: int, cache: int, rows_now: int | None = None) -> Shares:
    """So many bytes for rows and for cached prompts; `rows_now`: if others have taken the rest."""
    return Shares(rows, cache, rows + cache if rows_now is None else rows_now)


def preemptions(runner: Runner) -> list[str]:
    """Give the list to which the ids of preempted jobs will be added."""
    names: list[str] = []
    act = runner._stop

    def stop(work: Any, cacheable: bool) -> None:
        names.append(work.job.id)
        act(work, cacheable)

    runner._stop = stop  # type: ignore[method-assign]
    return names


@little_memory
@cached_or_not
def test_preempted_jobs_go_on_as_if_nothing_had_been(cache_bytes: int, kind: str) -> None:
    model = network(kind)
    jobs = [
        greedy("a", prompt(1, 10), 40),
        sampled("b", prompt(2, 12), 25, choices=2),
        greedy("c", prompt(3, 1), 50),
        sampled("d", prompt(4, 30), 30),
        sampled("e", prompt(5, 9), 30, priority="background"),
    ]
    runner = make_runner(model, tight(model, jobs, 3), cache_bytes=cache_bytes)
    preempted = preemptions(runner)

    def check_memory(course: Course) -> Sequence[Job]:
        lengths = [row.slot.length for row in runner._rows._active if not row.ended]
        # One more for each: the scheduler counts the token that the next step launches.
        used = sum(runner._footprint.bytes(length - 1) for length in lengths)
        assert used <= runner._scheduler._limits.memory_bytes
        return ()

    course = run(runner, jobs, check_memory)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
        assert len(course.outcomes[job.id].begun) == 1
    assert len(preempted) > 3


@little_memory
@cached_or_not
def test_a_prompt_that_is_preempted_is_scored_once(cache_bytes: int, kind: str) -> None:
    model = network(kind)
    asking = greedy("asking", prompt(1, 70), 5, prompt_logprobs=2, priority="background")
    other = greedy("other", prompt(2, 10), 60, priority="interactive")
    limits = replace(tight(model, [asking, other], 10), chunk=3, idle_chunk=5)
    runner = make_runner(model, limits, cache_bytes=cache_bytes)
    preempted = preemptions(runner)
    before: list[int] = []

    def note(course: Course) -> Sequence[Job]:
        if preempted and not before:
            before.append(len(course.outcomes["asking"].scored))
        return ()

    outcome = run(runner, [asking, other], note).outcomes["asking"]
    assert 0 < before[0] < 69
    (calm,) = run(make_runner(model), [asking]).outcomes.values()
    assert outcome.tokens == calm.tokens
    assert [sample.token for sample in outcome.scored] == asking.prompt[1:]
    expected = [sample.logprob for sample in calm.scored]
    assert [sample.logprob for sample in outcome.scored] == pytest.approx(expected, abs=1e-4)


@little_memory
def test_what_was_generated_before_a_preemption_is_counted_once() -> None:
    model = network("qwen3")
    jobs = [greedy(str(n), prompt(n + 1, 10), 40, choices=1 + n % 2) for n in range(4)]
    runner = make_runner(model, tight(model, jobs, 3))
    counted: dict[str, list[int]] = {}
    returned = runner._scheduler.requeue

    def note(ticket_id: str, prompt_tokens: int, generated: int) -> TooLargeRequest | None:
        counted.setdefault(ticket_id, []).append(generated)
        answers = runner._work[ticket_id].answers
        assert sum(counted[ticket_id]) == max(len(answer) for answer in answers if answer is not None)
        return returned(ticket_id, prompt_tokens, generated)

    runner._scheduler.requeue = note  # type: ignore[method-assign]
    run(runner, jobs)
    assert max(map(len, counted.values())) > 1


@little_memory
def test_preempted_jobs_are_quantised_from_the_same_place_on() -> None:
    options: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 25}
    model = network("qwen3")
    jobs = [sampled(str(n), prompt(n, 3 + 5 * n), 30, choices=1 + n % 2) for n in range(6)]
    runner = make_runner(model, tight(model, jobs, 10, **options), **options)
    preempted = preemptions(runner)
    course = run(runner, jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job, **options), job.id
    assert preempted


@little_memory
@pytest.mark.parametrize("number", [0, 1])
def test_a_choice_may_be_cancelled_at_any_moment(number: int) -> None:
    """While it reads, decodes, or waits to go on; nothing of it comes afterwards, and the others don't notice."""
    model = network("qwen3")
    jobs = [sampled("a", prompt(1, 10), 30, choices=2), sampled("b", prompt(2, 11), 30, choices=2)]
    expected = {job.id: alone(model, job) for job in jobs}
    preempted: list[list[str]] = []
    for moment in range(1, 50, 6):
        runner = make_runner(model, tight(model, jobs, 12))
        preempted += [preemptions(runner)]

        def cancel(course: Course, runner: Runner = runner, moment: int = moment) -> Sequence[Job]:
            if len(course.steps) == moment:
                runner.cancel("b", number)
                course.outcomes["b"].reasons[number] = "length"  # a token after it would be one after its end
            return ()

        outcomes = run(runner, jobs, cancel).outcomes
        assert outcomes["a"].tokens == expected["a"], moment
        assert outcomes["b"].tokens[1 - number] == expected["b"][1 - number], moment
        got = outcomes["b"].tokens[number]
        assert got == expected["b"][number][: len(got)]
        assert not runner._work
    assert sum(bool(names) for names in preempted) > 5


def test_a_choice_that_is_cancelled_twice_has_ended_once() -> None:
    runner = make_runner(network("qwen3"))
    job = greedy("a", prompt(1, 10), 12, choices=2)

    def leave(course: Course) -> Sequence[Job]:
        if len(course.steps) == 4:
            runner.cancel("a", 0)
            runner.cancel("a", 0)
        return ()

    course = run(runner, [job], leave)
    assert course.outcomes["a"].tokens[1] == alone(network("qwen3"), job)[1]
    ends = [place for place, step in enumerate(course.steps) if any(one.reason for one in step.tokens)]
    assert all(step.running == 1 for step in course.steps[: ends[-1]])


@little_memory
def test_a_job_may_be_cancelled_while_it_waits_to_go_on() -> None:
    model = network("qwen3")
    jobs = [greedy("a", prompt(1, 10), 40), greedy("b", prompt(2, 12), 40)]
    runner = make_runner(model, tight(model, jobs, 15))
    preempted = preemptions(runner)
    waiting: list[int] = []

    def cancel(course: Course) -> Sequence[Job]:
        if preempted and not waiting:
            waiting.append(course.steps[-1].waiting)
            runner.cancel(preempted[0])
            course.outcomes[preempted[0]].reasons = ["length"]
        return ()

    outcomes = run(runner, jobs, cancel).outcomes
    (kept,) = [job for job in jobs if job.id != preempted[0]]
    assert outcomes[kept.id].tokens == alone(model, kept)
    assert waiting == [1]


def test_what_never_fits() -> None:
    model = network("qwen3")
    fits = greedy("b", prompt(2, 30), 10)
    limits = tight(model, [fits], 10, GROWTH)
    course = run(make_runner(model, limits), [greedy("a", prompt(1, 40)), fits])
    needed = footprint(model, TextOptions()).bytes(41 + GROWTH)
    assert course.outcomes["a"].broken == [
        f"this request needs {needed:,} bytes for its KV cache and for computing it; "
        f"there are at most {limits.memory_bytes:,} for all requests"
    ]
    assert course.steps[0].failures[0].too_large
    assert course.outcomes["b"].tokens == alone(model, fits)


@little_memory
def test_an_answer_ends_where_the_memory_does() -> None:
    model = network("qwen3")
    job = greedy("a", prompt(1, 10), 40)
    course = run(make_runner(model, tight(model, [job], 20)), [job])
    (tokens,) = course.outcomes["a"].tokens
    assert tokens == alone(model, job)[0][: len(tokens)]
    assert 18 <= len(tokens) <= 20
    assert (course.outcomes["a"].reasons, course.outcomes["a"].broken) == (["length"], [])


def test_the_more_important_one_begins_first() -> None:
    runner = make_runner(network("qwen3"), Limits(max_rows=1, memory_bytes=2**40, chunk=64, idle_chunk=64))
    jobs = [greedy(name, prompt(n, 5), 3, priority=name) for n, name in enumerate(("background", "normal"))]
    course = run(
        runner,
        [greedy("first", prompt(1, 5), 6)],
        lambda course: [*jobs, greedy("interactive", [5], 3, priority="interactive")] if len(course.steps) == 2 else (),
    )
    begun = [begun.job for step in course.steps for begun in step.starts]
    assert begun == ["first", "interactive", "normal", "background"]
    counts = [(step.running, step.waiting) for step in course.steps]
    assert list(dict.fromkeys(counts)) == [(1, 0), (1, 3), (0, 3), (1, 2), (0, 2), (1, 1), (0, 1), (0, 0)]


@little_memory
def test_the_less_important_one_makes_room() -> None:
    model = network("qwen3")
    jobs = [greedy(name, prompt(n, 10), 40, priority=name) for n, name in enumerate(("background", "interactive"))]
    runner = make_runner(model, tight(model, jobs, 15))
    preempted = preemptions(runner)
    course = run(runner, jobs)
    assert set(preempted) == {"background"}
    ends = [drawn.job for step in course.steps for drawn in step.tokens if drawn.reason]
    assert ends == ["interactive", "background"]
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job)


def test_rows_that_outgrow_less_memory_go_on_later() -> None:
    jobs = [greedy(str(n), prompt(n + 1, 40), 30) for n in range(4)]
    runner = make_runner(network("qwen3"), cache_bytes=2**20)
    row = footprint(network("qwen3"), TextOptions()).bytes(70 + GROWTH)
    running: list[int] = []

    def meanwhile(course: Course) -> Sequence[Job]:
        if (rows := {8: 2, 16: 100}.get(len(course.steps))) is not None:
            runner.limit_memory(shares(rows * row, 2**20))
        running.append(course.steps[-1].running)
        return ()

    check_the_others(run(runner, jobs, meanwhile), jobs)
    assert max(running[:8]) == 4
    assert max(running[8:16]) <= 2
    assert running[16] == 4


def test_less_memory_ends_answers_sooner_and_more_lets_them_go_on() -> None:
    """As with the memory that there is at the beginning, an answer that fills it has ended as too long."""
    model = network("qwen3")
    per = footprint(model, TextOptions())
    room = per.bytes(20) + GROWTH * per.per_token
    for later, ends in ((None, 30), (10_000, 200)):
        runner = make_runner(model)
        limits = {5: room + 30 * per.per_token, 20: room + (later or 30) * per.per_token}

        def meanwhile(course: Course, runner: Runner = runner, limits: dict[int, int] = limits) -> Sequence[Job]:
            if (bytes_ := limits.get(len(course.steps))) is not None:
                runner.limit_memory(shares(bytes_, 0))
            return ()

        job = greedy("a", prompt(3, 20), 200)
        outcome = run(runner, [job], meanwhile).outcomes["a"]
        assert (len(outcome.tokens[0]), outcome.reasons, outcome.broken) == (ends, ["length"], [])
        assert outcome.tokens[0] == alone(model, job)[0][:ends]


def test_less_memory_is_divided_among_the_choices_that_still_run() -> None:
    model = network("qwen3")
    per = footprint(model, TextOptions())
    runner = make_runner(model)
    job = greedy("a", prompt(3, 20), 200, choices=2)

    def meanwhile(course: Course) -> Sequence[Job]:
        if len(course.steps) == 5:
            runner.cancel("a", 0)
            course.outcomes["a"].reasons[0] = "length"
            runner.limit_memory(shares(per.bytes(20) + (GROWTH + 30) * per.per_token, 0))
        return ()

    outcome = run(runner, [job], meanwhile).outcomes["a"]
    assert (len(outcome.tokens[1]), outcome.reasons[1], outcome.broken) == (30, "length", [])


def test_memory_that_is_short_for_now_neither_shortens_nor_refuses() -> None:
    """What no longer fits waits for more, also if it fits only alone or not at all, and continues as if nothing was."""
    jobs = [
        greedy("long", prompt(1, 60), 90),
        sampled("two", prompt(2, 20), 60, choices=2),
        greedy("small", [1, 2], 70),
    ]
    late = greedy("late", prompt(4, 200), 5)
    row = footprint(network("qwen3"), TextOptions()).bytes
    most = shares(4 * row(300 + GROWTH), 2**20)
    runner = make_runner(network("qwen3"), cache_bytes=2**20)
    runner.limit_memory(most)
    starved: dict[int, list[str]] = {}
    least = {5: row(80 + GROWTH), 15: 0, 20: row(120 + GROWTH), 40: 2 * row(100 + GROWTH)}

    def meanwhile(course: Course) -> Sequence[Job]:
        at = len(course.steps)
        assert runner._scheduler.used_bytes + runner.store.nbytes <= runner._memory._shares.available
        if at in least:
            runner.limit_memory(most._replace(available=least[at]))
        elif runner.is_idle and len(course.steps[-1].starved_jobs) == runner._scheduler.waiting:
            runner.limit_memory(most)
        starved[at] = course.steps[-1].starved_jobs
        return [late] if at == 10 else ()

    check_the_others(run(runner, jobs, meanwhile), [*jobs, late])
    assert any("late" in names for names in starved.values())


def test_less_memory_than_a_job_has_taken_refuses_it_with_the_numbers() -> None:
    model = network("qwen3")
    per = footprint(model, TextOptions())
    runner = make_runner(model, Limits(1, 2**40, 512, 512))
    jobs = [greedy("running", prompt(1, 100), 20), greedy("waiting", prompt(2, 100), 20), greedy("small", [1, 2], 3)]

    def meanwhile(course: Course) -> Sequence[Job]:
        if len(course.steps) == 5:
            runner.limit_memory(shares(per.bytes(50) + GROWTH * per.per_token, 0))
        return ()

    course = run(runner, jobs, meanwhile)
    for name in ("running", "waiting"):
        (message,) = course.outcomes[name].broken
        assert "bytes for its KV cache and for computing it; there are at most " in message
    check_the_others(course, jobs[2:])


def test_less_memory_lets_cached_prompts_go() -> None:
    runner = make_runner(network("qwen3"), cache_bytes=2**24)
    run(runner, [greedy("a", prompt(1, 60), 4)])
    held = runner.store.counters()["bytes"]
    runner.limit_memory(shares(2**30, held // 2))
    numbers = runner.store.counters()
    assert numbers["bytes"] <= numbers["budget_bytes"] == held // 2
    runner.limit_memory(shares(2**30, 0))
    run(runner, [greedy("b", prompt(1, 60), 4)])
    assert runner.store.counters()["entries"] == 0
    runner.limit_memory(shares(2**30, 2**24))
    course = run(runner, [greedy("c", prompt(1, 60), 4), greedy("d", prompt(1, 60), 4)])
    check_the_others(course, [greedy("c", prompt(1, 60), 4), greedy("d", prompt(1, 60), 4)])
    assert runner.store.counters()["bytes"] == held


@pytest.mark.parametrize("cache_bytes", [0, 2**24])
@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
def test_paused_jobs_bring_nothing_and_go_on_as_if_nothing_had_been(
    kind: str, cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(kind)
    advance, chunks = Prefill.advance, [0]

    def count(prefill: Prefill, model: LanguageModel, budget: int) -> int:
        chunks.append(advance(prefill, model, budget))
        return chunks[-1]

    monkeypatch.setattr(Prefill, "advance", count)
    paused = sampled("a", prompt(1, 12), 30, choices=2)
    other = greedy("b", prompt(2, 9), 30)
    runner = make_runner(model, cache_bytes=cache_bytes)
    course = Course()
    for job in (paused, other):
        course.expect(job)
        runner.add(job)
    outcome = course.outcomes["a"]
    while len(outcome.tokens[0]) < 10:
        course.take(runner.step())
    runner.pause("a")
    course.take(runner.step())  # brings the tokens that were launched before
    seen = [list(tokens) for tokens in outcome.tokens]
    while not runner.is_idle:
        course.take(runner.step())
    assert outcome.tokens == seen
    assert course.outcomes["b"].reasons != [None]
    assert (course.steps[-1].running, course.steps[-1].waiting) == (0, 1)
    read = sum(chunks)
    runner.resume("a")
    while not runner.is_idle:
        course.take(runner.step())
    again = sum(chunks) - read
    for job in (paused, other):
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
        assert len(course.outcomes[job.id].begun) == 1
    assert again == 0 if cache_bytes else again >= 40, "what was computed is kept where there is a cache"


@pytest.mark.parametrize("how", ["cancel", "pause", "refuse"])
@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
def test_what_was_read_of_an_abandoned_prompt_is_kept(kind: str, how: str) -> None:
    """Whoever asks again goes on from there, and gets the same answer."""
    model = network(kind)

    def embed(cached: int) -> PromptEmbeddings:
        if cached >= 30:
            raise OrchardError("invalid_request", "this image is broken")
        return PromptEmbeddings(cached, model.network.model.embed_tokens(mx.array([abandoned.prompt[cached:30]])))

    limits = Limits(max_rows=64, memory_bytes=2**40, chunk=10, idle_chunk=10)
    runner = make_runner(model, limits, cache_bytes=2**24)
    abandoned, again = greedy("a", prompt(1, 60), 4), greedy("b", prompt(1, 60), 4)
    runner.add(abandoned if how != "refuse" else replace(abandoned, embed=embed))
    for _ in range(3):
        runner.step()
    if how == "cancel":
        runner.cancel("a")
    elif how == "pause":
        runner.pause("a")
        runner.step()
        runner.cancel("a")  # there is nothing to keep any more
    else:
        assert [broken.message for broken in runner.step().failures] == ["this image is broken"]
    outcome = run(runner, [again]).outcomes["b"]
    assert outcome.begun[0].cached_tokens == 30
    assert outcome.tokens == alone(model, again)


def test_an_abandoned_prompt_is_not_kept_up_to_the_middle_of_a_medium() -> None:
    model = network("qwen3")
    limits = Limits(max_rows=64, memory_bytes=2**40, chunk=10, idle_chunk=10)
    runner = make_runner(model, limits, cache_bytes=2**24)
    runner.add(greedy("a", prompt(1, 60), 4, spans=(MediaSpan(5, 25, b"picture"),)))
    for _ in range(2):
        runner.step()
    runner.cancel("a")
    assert runner.store.counters()["entries"] == 0


def test_a_prompt_is_saved_after_the_step_that_completes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To save it may take until its last chunk is computed: the tokens of that step must not wait for it."""
    runner = make_runner(network("qwen3"), cache_bytes=2**24)
    events: list[str] = []
    save = Prefill.save

    def note(prefill: Prefill) -> None:
        events.append(f"save {prefill.tokens_read}")
        save(prefill)

    monkeypatch.setattr(Prefill, "save", note)
    runner.add(greedy("a", prompt(1, 5), 30))
    for step in range(3):
        runner.step()
        events.append(f"step {step}")
    runner.add(greedy("b", prompt(2, 40), 3))
    for step in range(3, 6):
        runner.step()
        events.append(f"step {step}")
    assert events == ["step 0", "save 4", "step 1", "step 2", "step 3", "save 39", "step 4", "step 5"]
