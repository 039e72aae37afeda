"""Runners and batches on tiny models, driven step by step in the test's own thread."""

import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx

from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import attention, kv_cache
from orchard.engine.batching.batch import Batch, BatchMode
from orchard.engine.batching.job import DrawnToken, EndReason, EngineStep, Job, JobStart
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import LanguageModel, LogitsAt
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import Sample
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import Limits
from tests.support.models import make_architecture

LOOSE = Limits(max_rows=64, memory_bytes=2**40, chunk=512, idle_chunk=512)


@functools.cache
def network(kind: str) -> TextModel:
    """One of tests.support.models.ARCHITECTURES, in float32."""
    with tempfile.TemporaryDirectory() as folder:
        make_architecture(Path(folder), kind)
        loaded = load_text_model(folder, TextOptions(embeddings=True))
        mx.eval(loaded.network.parameters())
    attention.install_attention()
    return loaded


class Other:
    """A TextModel with something else about it: its caches, or what happens in its forward pass."""

    logits_at: LogitsAt | None = None

    def __init__(
        self,
        model: TextModel,
        new_cache: Callable[[], list[Any]] | None = None,
        before: Callable[[mx.array, "dict[str, Any]"], None] = lambda tokens, given: None,
    ) -> None:
        """`before` gets each pass's tokens (rows, n) and its embeddings, positions and extras by name."""
        self.vocab_size = model.vocab_size
        self.eos_token_ids = model.eos_token_ids
        self.fingerprint = model.fingerprint
        self.new_cache = new_cache or model.new_cache
        self._model = model
        self._before = before

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
        extras: dict[str, Any] | None = None,
    ) -> mx.array:
        self._before(tokens, {"embeddings": embeddings, "positions": positions, "extras": extras})
        return self._model.forward(tokens, cache, embeddings=embeddings)

    def drop_all(self) -> None:
        """Nothing is kept."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        self._before(tokens, given)
        return self._model.hidden_states(tokens, cache, embeddings=given.get("embeddings"))


def words(tokens: mx.array) -> list[list[int]]:
    listed: Any = tokens.tolist()
    return [list(row) for row in listed]


def footprint(model: LanguageModel, options: TextOptions) -> Footprint:
    cache = KVStore(model, options).new_cache()
    model.forward(mx.array([[0]]), cache)
    return kv_cache.footprint(cache)


def make_runner(
    model: LanguageModel,
    limits: Limits = LOOSE,
    mode: BatchMode = BatchMode.SHARED,
    cache_bytes: int = 0,
    short: int = 512,
    *,
    batched_prefill: bool = False,
    draws_from_prompt: bool = False,
    speculation: Speculation | None = None,
    traced: bool = False,
    **options: Any,
) -> Runner:
    """`traced`: passes are as on a GPU. `options` are those of TextOptions."""
    given = TextOptions(**options)
    batch = Batch(model, mode, 4 if traced else 1, short, traced=traced)
    return Runner(
        model,
        KVStore(model, given, cache_bytes),
        batch,
        limits,
        footprint(model, given),
        batched_prefill=batched_prefill,
        draws_from_prompt=draws_from_prompt,
        speculation=speculation,
    )


@dataclass
class Outcome:
    """What a job gave; `ends` counts the ends of each choice, `broken` what was said of its failure."""

    tokens: list[list[int]]
    reasons: list[EndReason | None]
    begun: list[JobStart] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    scored: list[Sample] = field(default_factory=list)


@dataclass
class Course:
    """All that a runner said from one moment on."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    steps: list[EngineStep] = field(default_factory=list)

    def expect(self, job: Job) -> None:
        self.outcomes[job.id] = Outcome([[] for _ in range(job.choices)], [None] * job.choices)

    def take(self, step: EngineStep) -> None:
        self.steps.append(step)
        for begun in step.starts:
            self.outcomes[begun.job].begun.append(begun)
        for scored in step.scores:
            outcome = self.outcomes[scored.job]
            assert outcome.begun, f"{scored.job} was scored before it began"
            assert not any(outcome.tokens), f"{scored.job} was scored after it had brought a token"
            outcome.scored += scored.samples
        for drawn in step.tokens:
            self._draw(drawn)
        for broken in step.failures:
            outcome = self.outcomes[broken.job]
            assert None in outcome.reasons, f"{broken.job} broke after its end"
            outcome.broken.append(broken.message)

    def _draw(self, drawn: DrawnToken) -> None:
        outcome = self.outcomes[drawn.job]
        assert outcome.begun, f"{drawn.job} brought a token before it began"
        assert not outcome.broken, f"{drawn.job} brought a token after it broke"
        assert outcome.reasons[drawn.choice] is None, f"{drawn.job} brought a token after its end"
        outcome.tokens[drawn.choice].append(drawn.sample.token)
        outcome.reasons[drawn.choice] = drawn.reason


def run(
    runner: Runner,
    jobs: Sequence[Job],
    meanwhile: Callable[[Course], Sequence[Job]] = lambda course: (),
    steps: int = 5000,
) -> Course:
    """Run jobs to their end. `meanwhile` happens after each step, and gives jobs that join then."""
    course = Course()
    joining = list(jobs)
    while joining or not runner.is_idle:
        for job in joining:
            course.expect(job)
            runner.add(job)
        course.take(runner.step())
        joining = list(meanwhile(course))
        assert len(course.steps) < steps, "it never ends"
    if course.steps:
        assert (course.steps[-1].running, course.steps[-1].waiting) == (0, 0)
    return course


_ALONE: dict[str, list[list[int]]] = {}


def alone(model: TextModel, job: Job, **options: Any) -> list[list[int]]:
    """Give what a job must give: what it gives with nobody around and nothing short."""
    key = f"{model.fingerprint} {job} {options}"
    if key not in _ALONE:
        outcome = run(make_runner(model, **options), [job]).outcomes[job.id]
        assert not outcome.broken
        _ALONE[key] = outcome.tokens
    return _ALONE[key]


def check_close(logits: mx.array, expected: mx.array, where: object = "") -> None:
    """See that only rounding in float32 sets them apart: a wrong mask or place changes them by more than 0.1."""
    off = mx.abs(logits - expected).max().item()
    assert isinstance(off, float)
    assert off < 1e-3, where


def has(tokens: mx.array, word: int) -> bool:
    return any(word in row for row in words(tokens))
