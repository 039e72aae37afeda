"""Whenever memory runs out, and however late the device tells: no answer changes, and nothing is left behind."""

import ast
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import orchard.engine
from orchard.backends.text.model import TextModel
from orchard.core.media import MediaPart
from orchard.device import out_of_memory
from orchard.engine.batching.job import Job
from orchard.engine.prefix_cache import cache_file
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.work import Work
from tests.engine.sampling.test_grammar import some_jobs
from tests.engine.test_hidden_states import wanted
from tests.engine.test_invariants_speculation import Tally, answers_of, mixes, model_of, play, tight, tokens_of
from tests.support.drafting import drafting
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import is_deep, some
from tests.support.grammars import lark
from tests.support.memory_faults import Fault, MemoryFaults
from tests.support.speculation import speculation
from tests.support.tiny_models import LOOSE, Course, Other, alone, make_runner, network, run
from tests.support.vision_engines import VisionEngines, image, showing


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> MemoryFaults:
    made = MemoryFaults()
    made.install(monkeypatch)
    return made


@st.composite
def schedules(draw: st.DrawFn, latest: int) -> list[Fault]:
    """Two faults may follow each other closely: a third one without a token between them would end a lonely job."""
    first, close, far = st.integers(0, 60), st.integers(0, 60), st.integers(150, 300)
    gaps = [first, close, far, close, far, close][: draw(st.integers(1, 6))]
    return [Fault(draw(gap), draw(st.integers(0, latest))) for gap in gaps]


def check_nothing_is_left(runner: Runner) -> None:
    runner.write_back()
    assert runner._scheduler.used_bytes == 0
    assert not runner._work
    assert not runner._results.pending
    rows = runner._rows
    assert (rows._active, rows._joining, rows._batch.slots, len(rows._sampler)) == ([], [], [], 0)
    if prefixes := runner.store._prefixes:
        memory = prefixes._memory
        assert memory.nbytes == sum(slot.nbytes for slot in memory.order)
        assert not memory.fresh
        in_tree = {slot for node in memory.root.subtree() for slot in node.slots if slot.value is not None}
        assert in_tree == set(memory.order)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(10) if is_deep() else range(1))
@pytest.mark.parametrize("kind", ["dense", "windows", "delta net"])
def test_answers_are_what_they_are_with_enough_memory(faults: MemoryFaults, kind: str, part: int) -> None:
    """Over joins, leaves, pauses, limits that move, preemptions, long prompts, cached prompts and speculation.

    Examples are not shrunk: that would take longer than a test may.
    """
    model, tally = model_of(kind), Tally()

    @seed(part)
    @settings(max_examples=100 if is_deep() else 5, database=None, phases=[Phase.generate])
    @given(jobs=mixes(), data=st.data(), late=st.booleans())
    def check(jobs: list[Job], data: Any, late: bool) -> None:
        faults.late = late
        schedule = data.draw(schedules(latest=3 if late else 0))
        answers = answers_of(model, jobs)
        guesses = data.draw(st.sampled_from(["none", "oracle", "draft"]))
        speculates = {  # type: ignore[no-untyped-call]
            "none": lambda: None,
            "oracle": lambda: speculation(tokens_of(answers), 5, 0.7),
            "draft": lambda: drafting(network("qwen3"), cache_bytes=2**22),
        }[guesses]()
        limits = LOOSE if data.draw(st.booleans()) else tight(model, jobs)
        cache_bytes = data.draw(st.sampled_from([0, 2**22]))
        runner = make_runner(model, limits, cache_bytes=cache_bytes, short=16, speculation=speculates)
        happen = ["join", "wait", "wait", "wait", "cancel", "pause", "limit"]
        with faults.among(schedule):
            course, gone = play(runner, jobs, data, happen)
        tally.check(course, jobs, answers, gone)
        course, gone = play(runner, jobs, data, happen)  # from the cache, which has no zeros
        tally.check(course, jobs, answers, gone)
        check_nothing_is_left(runner)

    check()
    assert faults.told > 3


def payloads(runner: Runner) -> dict[bytes, dict[str, Any]]:
    """The cached prompts' keys and values, by the text up to their end."""
    assert runner.store._prefixes
    found: dict[bytes, dict[str, Any]] = {}
    for node in runner.store._prefixes._memory.root.subtree():
        if node.payload.value is not None:
            text = b"".join(one.edge for one in node.path)
            found[text] = {name: np.array(array) for name, array in node.payload.value.arrays.items()}
    return found


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_no_zeros_are_cached(faults: MemoryFaults, tmp_path: Path, late: int) -> None:
    """In whichever evaluation memory runs out, in memory and on disk."""
    model = network("qwen3")
    jobs = [greedy("a", prompt(1, 30), 6), greedy("b", [*prompt(1, 20), *prompt(2, 5)], 9)]
    options = {"cache_bytes": 2**22, "prompt_cache_dir": str(tmp_path)}
    hits = 0
    for after in some(range(30), 3):
        runner = make_runner(model, **options)  # type: ignore[arg-type]
        runner.store.wait_for_files(10)
        with faults.among([Fault(after, late)]):
            course = run(runner, jobs, lambda course: ())
        assert all(course.outcomes[job.id].tokens == alone(model, job) for job in jobs), after
        again = run(runner, [replace(job, id=f"{job.id} again") for job in jobs])
        assert all(again.outcomes[f"{job.id} again"].tokens == alone(model, job) for job in jobs), after
        hits += sum(outcome.begun[0].cached_tokens > 0 for outcome in again.outcomes.values())
        for arrays in payloads(runner).values():
            assert all(np.abs(array).max(axis=(0, 1, 3)).min() > 0 for array in arrays.values()), after
        runner.close(10)
        check_nothing_is_left(runner)
        for file in tmp_path.glob("*/*.safetensors"):
            stored = cache_file.read_arrays(file, model_fingerprint(runner)).values()
            assert all(np.frombuffer(array.data, np.float32).any() for array in stored), after
            file.unlink()
    assert faults.told > 5
    assert hits > 5


def model_fingerprint(runner: Runner) -> str:
    assert runner.store._disk
    return runner.store._disk.fingerprint


@pytest.mark.timeout(600)
def test_zeros_are_no_reason_to_fail_a_grammar(faults: MemoryFaults) -> None:
    """The grammar doesn't allow the token 0 that the row got: but the device's error is the cause, and comes later."""
    model = network("qwen3")
    rng = random.Random(3)
    for after in some(range(4, 100), 24):
        jobs = rng.sample(some_jobs(), 4)
        runner = make_runner(model, short=8, cache_bytes=2**22)
        with faults.among([Fault(after, rng.randrange(4)), Fault(rng.randrange(60))]):
            course = run(runner, jobs)
        for job in jobs:
            assert not course.outcomes[job.id].broken, (job.id, after)
            assert course.outcomes[job.id].tokens == alone(model, job), (job.id, after)
    assert faults.told > 4


def test_a_token_that_no_grammar_allows_may_be_the_fault_of_missing_memory(faults: MemoryFaults) -> None:
    model, job = network("qwen3"), greedy("a", [5], 12, grammar=lark("start: /[a-z]{12}/"))
    assert alone(model, job)
    for after in range(2, 30, 3):
        with faults.among([Fault(after, 6)]):  # after the error of the grammar
            outcome = run(make_runner(model), [job, greedy("b", prompt(1, 9), 20)]).outcomes["a"]
        assert not outcome.broken, after
        assert outcome.tokens == alone(model, job), after


def test_scores_and_hidden_states_come_once(faults: MemoryFaults) -> None:
    model = network("qwen3")
    params = SamplingParams(seed=0, temperature=0.0, top_logprobs=1)
    scored = Job("scored", prompt(1, 40), params, 5, prompt_logprobs=1)
    jobs = [scored, wanted("hidden"), greedy("other", prompt(2, 9), 12)]
    limits = replace(LOOSE, chunk=7, idle_chunk=7)
    expected = run(make_runner(model, limits), jobs)
    for after, late in itertools.product(some(range(30), 5), range(4)):
        runner = make_runner(model, limits)
        with faults.among([Fault(after, late)]):
            course = run(runner, jobs)
        for name, outcome in course.outcomes.items():
            assert outcome.tokens == expected.outcomes[name].tokens
            tokens = [one.token for one in outcome.scored]
            assert tokens == [one.token for one in expected.outcomes[name].scored]
            pairs = zip(outcome.scored, expected.outcomes[name].scored, strict=True)
            assert all(one.logprob == pytest.approx(other.logprob, abs=1e-4) for one, other in pairs)
        (found,), (other,) = ([one for step in of.steps for one in step.hidden_states] for of in (course, expected))
        assert np.abs(found.vector - other.vector).max() < 1e-4
        check_nothing_is_left(runner)


def test_a_job_for_which_nothing_is_enough_fails_alone() -> None:
    """Not at once: others are stopped first, and go on later."""

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if tokens.shape[1] > 30:
            raise RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory")

    model = network("qwen3")
    runner = make_runner(Other(model, before=before), cache_bytes=2**22)
    small = [greedy(str(number), prompt(number, 10), 30) for number in range(8)]
    course = run(runner, [*small[:4], greedy("large", prompt(9, 60), 5), *small[4:]])
    assert all(course.outcomes[job.id].tokens == alone(model, job) for job in small)
    (broken,) = [one for step in course.steps for one in step.failures]
    assert broken.job == "large"
    assert broken.refusal
    assert broken.refusal.kind == "insufficient_memory"
    assert broken.refusal.retry_after
    assert not course.outcomes["large"].tokens[0]
    check_nothing_is_left(runner)


def test_prompts_that_only_fit_alone_are_read_though_that_takes_many_steps() -> None:
    """More than pass until two may run again, which makes both begin again."""

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if runners and runners[0]._scheduler.running > 1:
            raise MemoryError("std::bad_alloc")

    model, runners = network("qwen3"), list[Runner]()
    runner = make_runner(Other(model, before=before), replace(LOOSE, chunk=4, idle_chunk=4))
    runners.append(runner)
    jobs = [greedy(str(number), prompt(number, 300), 5) for number in range(2)]
    course = run(runner, jobs, steps=600)
    assert all(course.outcomes[job.id].tokens == alone(model, job) for job in jobs)
    check_nothing_is_left(runner)


def test_all_jobs_end_though_no_pass_has_memory() -> None:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if armed:
            raise MemoryError("std::bad_alloc")

    armed = False
    runner = make_runner(Other(network("qwen3"), before=before))
    armed = True
    course = run(runner, [greedy(str(number), prompt(number, 10), 30) for number in range(8)], steps=200)
    assert all(len(outcome.broken) == 1 for outcome in course.outcomes.values())
    check_nothing_is_left(runner)
    armed = False
    job = greedy("later", prompt(1, 10), 30)
    assert run(runner, [job]).outcomes["later"].tokens == alone(network("qwen3"), job)


def test_tokens_of_jobs_that_had_no_memory_to_begin_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two jobs that are admitted again in a step, the first finds no memory: the second has not begun."""
    runner = make_runner(network("qwen3"))
    jobs = [greedy("a", prompt(1, 10), 40), greedy("b", prompt(2, 10), 40)]
    for job in jobs:
        runner.add(job)
    for act in (lambda _: None, runner.pause, runner.resume):
        for job in jobs:
            act(job.id)
        if act == runner.resume:
            monkeypatch.setattr(Work, "begin", fail_once(Work.begin))
        for _ in range(9):
            runner.step()
            tickets = [runner._scheduler._find(job.id) for job in jobs]
            launched = [max((row.launched_tokens for row in runner._work[job.id].rows), default=0) for job in jobs]
            for ticket, most in zip(tickets, launched, strict=True):
                assert ticket
                assert ticket.length - 10 == ticket.earlier == 40 - ticket.max_tokens
                assert not most or abs(ticket.earlier + ticket.generated - most) <= 1


@pytest.mark.parametrize("choice", [None, 1])
def test_a_row_that_leaves_its_draft_may_find_no_memory(faults: MemoryFaults, choice: int | None) -> None:
    """The draft saves what it has read of the row that is cancelled."""
    model = network("qwen3")
    jobs = [greedy("a", prompt(1, 20), 30, choices=2), greedy("b", prompt(2, 9), 30)]
    runner = make_runner(model, speculation=drafting(network("qwen3"), cache_bytes=2**22))

    def cancel(course: Course) -> Sequence[Job]:
        if len(course.steps) == 4:
            assert course.outcomes["a"].reasons == [None, None]
            with faults.among([Fault(0)]):
                runner.cancel("a", choice)
        return ()

    course = run(runner, jobs, cancel)
    assert faults.told == 1
    assert course.outcomes["b"].tokens == alone(model, jobs[1])
    if choice:
        assert course.outcomes["a"].tokens[0] == alone(model, jobs[0])[0]
    check_nothing_is_left(runner)


def test_scores_of_a_job_that_is_paused_are_computed_again(faults: MemoryFaults) -> None:
    """It is paused after its prompt was scored, and memory runs out before the scores are read."""
    model = network("qwen3")
    params = SamplingParams(seed=0, temperature=0.0, top_logprobs=1)
    job = Job("scored", prompt(1, 20), params, 5, prompt_logprobs=1)
    runner = make_runner(model)

    def pause(course: Course) -> Sequence[Job]:
        if len(course.steps) == 5:
            runner.pause(job.id)
            with faults.among([Fault(0)]):
                course.take(runner.step())
            runner.resume(job.id)
        return [job] if len(course.steps) == 4 else ()

    outcome = run(runner, [greedy("other", prompt(2, 9), 30)], pause).outcomes["scored"]
    assert faults.told == 1
    assert (len(outcome.scored), outcome.tokens) == (19, alone(model, job))


def fail_once(act: Any) -> Any:
    failures = [MemoryError("std::bad_alloc")]

    def fail(*args: Any, **named: Any) -> None:
        if failures:
            raise failures.pop()
        act(*args, **named)

    return fail


def test_what_is_saved_between_steps_may_fail(faults: MemoryFaults, tmp_path: Path) -> None:
    """When a job with half a prompt is cancelled, and when cached prompts are written to the disk."""
    model = network("qwen3")
    limits = replace(LOOSE, chunk=7, idle_chunk=7)
    runner = make_runner(model, limits, cache_bytes=2**22, prompt_cache_dir=str(tmp_path))
    runner.store.wait_for_files(10)
    other = greedy("other", prompt(2, 9), 12)

    def cancel(course: Course) -> Sequence[Job]:
        if len(course.steps) == 3:
            course.outcomes["half"].reasons = ["length"]
            with faults.among([Fault(0)]):
                runner.cancel("half")
        return ()

    course = run(runner, [greedy("half", prompt(1, 60), 5), other], cancel)
    assert faults.told == 1
    assert course.outcomes["other"].tokens == alone(model, other)
    with faults.among([Fault(0)]):
        assert not runner.write_back()
    assert faults.told == 2
    with faults.among([Fault(0)]):
        runner.close(10)
    assert run(runner, [other]).outcomes["other"].tokens == alone(model, other)


@pytest.fixture(scope="module")
def viewers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisionEngines]:
    engines = VisionEngines(tmp_path_factory.getbasetemp())
    yield engines
    engines.close()


@pytest.mark.parametrize("kind", ["qwen3_vl", "gemma3"])
def test_images_are_encoded_again(viewers: VisionEngines, faults: MemoryFaults, kind: str) -> None:
    """In an engine's own thread, which goes on whatever fails. No encoded image is kept that may be wrong."""
    driver = viewers.get(kind)
    parts: list[list[int] | MediaPart] = [prompt(1, 9), image(1), prompt(2, 5), image(2), prompt(3, 7)]
    jobs = [showing(driver.model, kind, greedy(name, [], 6), of) for name, of in [("a", parts), ("b", parts[:3])]]
    expected = {job.id: viewers.alone(kind, job) for job in jobs}
    for after, late in itertools.product(some(range(24), 4), some(range(4), 3)):
        driver.model.drop_all()
        with faults.among([Fault(after, late)]):
            results = driver.run(jobs)
        again = driver.run(jobs)
        for job in jobs:
            assert results[job.id].tokens == expected[job.id].tokens, (after, late)
            assert again[job.id].tokens == expected[job.id].tokens, (after, late)
    assert faults.told > 5


class Singular(Other):
    """Inverts a singular matrix in its pass with the number `bad`."""

    def __init__(self, model: TextModel, bad: int) -> None:
        super().__init__(model)
        self._passes = itertools.count()
        self._bad = bad

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        logits = super().forward(tokens, cache, **given)
        wrong = next(self._passes) == self._bad
        return logits * mx.linalg.inv(mx.zeros((2, 2)), stream=mx.cpu)[0, 0] if wrong else logits


def test_an_error_of_mlx_that_comes_late_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX's CPU tells of a singular matrix as Metal tells of missing memory: with a later evaluation."""
    monkeypatch.setattr("orchard.engine.runner.has_late_errors", lambda: True)
    monkeypatch.setattr(out_of_memory, "reports_out_of_memory", lambda text: "inverse::eval_cpu" in text.lower())
    model = network("qwen3")
    jobs = [greedy("a", prompt(1, 30), 12), greedy("b", prompt(2, 9), 12)]
    told: list[Runner] = []
    recover = Runner._recover

    def count(runner: Runner) -> None:
        told.append(runner)
        recover(runner)

    monkeypatch.setattr(Runner, "_recover", count)
    for bad in some(range(3, 13), 3):
        runner = make_runner(Singular(model, bad), cache_bytes=2**22)
        course = run(runner, jobs)
        assert told.pop() is runner
        assert not told
        assert all(course.outcomes[job.id].tokens == alone(model, job) for job in jobs)
        check_nothing_is_left(runner)


def test_work_that_was_launched_has_ended_before_its_arrays_are_freed(
    faults: MemoryFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLX launches what it has of a failed step with the next wait; on CUDA, it would write to freed memory."""
    runner = make_runner(network("qwen3"), cache_bytes=2**22)
    runner.add(greedy("a", prompt(1, 6), 8))
    calls: list[str] = []
    wait, drop = mx.synchronize, runner._rows.drop_all

    def noted_wait(*of: Any) -> None:
        calls.append("wait")
        wait(*of)

    def noted_drop() -> None:
        calls.append("free")
        drop()

    monkeypatch.setattr(mx, "synchronize", noted_wait)
    monkeypatch.setattr(runner._rows, "drop_all", noted_drop)
    runner.step()
    calls.clear()
    with faults.among([Fault(0, 0)]):
        while "free" not in calls:
            runner.step()
    assert calls[:2] == ["wait", "free"]


def test_the_engine_evaluates_only_where_the_faults_are() -> None:
    """Each call that waits for the device or lets it begin, by file; a new one belongs to the faults, too."""
    found: set[tuple[str, str]] = set()
    folder = Path(orchard.engine.__file__).parent
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                call = ast.unparse(node.func)
                if call in ("mx.eval", "mx.async_eval", "mx.synchronize", "memoryview", "np.array", "np.asarray"):
                    found.add((file.relative_to(folder).as_posix(), call))
                elif node.func.attr in ("tolist", "item"):
                    found.add((file.relative_to(folder).as_posix(), node.func.attr))
    serving = {one for one in found if not one[0].startswith(("calibration", "start", "step_work"))}
    assert serving == {
        ("batching/decode.py", "mx.async_eval"),
        ("batching/kv_cache.py", "mx.async_eval"),
        ("batching/prefill.py", "mx.async_eval"),
        ("batching/prefill.py", "mx.eval"),
        ("batching/speculating_rows.py", "mx.async_eval"),
        ("drafting/draft_proposer.py", "mx.eval"),
        ("drafting/draft_proposer.py", "tolist"),
        ("drafting/head.py", "mx.eval"),
        ("drafting/mtp_proposer.py", "mx.async_eval"),
        ("prefill_price.py", "np.array"),  # of Python lists
        ("prefix_cache/values.py", "mx.async_eval"),
        ("prefix_cache/values.py", "mx.eval"),
        ("prefix_cache/values.py", "tolist"),  # of a Python array
        ("ranks/shared_store.py", "item"),  # a group ends if memory runs out on one of its ranks
        ("ranks/shared_store.py", "mx.eval"),
        ("runner.py", "np.array"),  # of a hidden state, behind the launches of its step
        ("sampling/categorical.py", "np.array"),  # of constants
        ("sampling/grammar.py", "np.array"),  # of constants
        ("sampling/logprobs.py", "tolist"),
        ("sampling/penalties.py", "np.asarray"),  # of Python lists
        ("sampling/sampler.py", "mx.async_eval"),
        ("sampling/sampler.py", "mx.synchronize"),
        ("sampling/sampler.py", "tolist"),
        ("speculation/proposal.py", "tolist"),
        ("speculation/suffix_index.py", "tolist"),  # of a Python array
    }
