"""What rank 0 sends to the other ranks: jobs, what became of them, and who runs in a step. It crosses hosts."""

from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from orchard.engine.batching.job import Job
from orchard.engine.memory import Shares
from orchard.engine.prefix_cache.values import CacheScope
from orchard.engine.sampling.grammar import BoundGrammar
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.scheduler import StepPlan, TooLargeRequest


class AddJob(Struct, frozen=True, array_like=True, tag="add"):
    """`Runner.add`: the fields of `Job` that decide about its passes. No rank but 0 needs the others."""

    id: str
    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    choices: int
    boundaries: tuple[int, ...]
    prompt_logprobs: int | None
    wants_hidden_state: bool
    cache_scope: CacheScope
    has_grammar: bool

    @classmethod
    def from_job(cls, job: Job) -> "AddJob":
        """Return the order to add a job."""
        same = {name: getattr(job, name) for name in cls.__struct_fields__ if name != "has_grammar"}
        return cls(**same, has_grammar=job.grammar is not None)

    def to_job(self) -> Job:
        """Return the job to add."""
        same = {name: getattr(self, name) for name in self.__struct_fields__ if name != "has_grammar"}
        return Job(**same, grammar=cast(BoundGrammar, RemoteGrammar()) if self.has_grammar else None)


class RemoteGrammar:
    """Stands for a grammar that rank 0 enforces: it allows any token, and steps are those of rows with grammars."""

    is_free = True

    def __init__(self) -> None:
        self.due: list[int] = []
        self.tokens_left = 0.0

    def begin(self, generated: Sequence[int]) -> "RemoteGrammar":
        """See `BoundGrammar`."""
        return RemoteGrammar()

    def take_due(self) -> None:
        """See `GrammarState`."""
        self.due.clear()


class CancelJob(Struct, frozen=True, array_like=True, tag="cancel"):
    """`Runner.cancel`."""

    id: str
    choice: int | None


class DropJob(Struct, frozen=True, array_like=True, tag="drop"):
    """A job's grammar has failed."""

    id: str


class ResumeJob(Struct, frozen=True, array_like=True, tag="resume"):
    """`Runner.resume`. There is no order to pause: the plan says when a job is paused."""

    id: str


class LimitShares(Struct, frozen=True, array_like=True, tag="limit"):
    """`Runner.limit_memory`; `used_bytes`: what rank 0's rows take."""

    shares: Shares
    used_bytes: int


class ReadFiles(Struct, frozen=True, array_like=True, tag="read"):
    """Begin to read a prompt from this rank's disk. `text`: its tokens, with the scope's salt."""

    text: list[int]


class EndRead(Struct, frozen=True, array_like=True, tag="end_read"):
    """Rank 0 has read it. `restores`: put it into memory if all ranks have it."""

    restores: bool


Command = AddJob | CancelJob | DropJob | ResumeJob | LimitShares | ReadFiles | EndRead


class StepOrder(Struct, frozen=True, array_like=True):
    """Rank 0's decisions for a step, the answers of its scheduler so far, and its notes about them.

    `spare_bytes`, `used_bytes`: see `Scheduler`. `has_waiting`: whether requests wait for admission, other than starved
    and paused ones.
    """

    plan: StepPlan
    prefill: list[tuple[str, int]]
    spare_bytes: int
    used_bytes: int
    has_waiting: bool


class Order(Struct, frozen=True, array_like=True, tag="order"):
    """The next commands, in rank 0's order; then a step, if there is one.

    `refusals`: what rank 0's scheduler has answered to each call that may refuse a request, in order. `checksum`: of
    what the runner has told the scheduler since the start, up to the step's first collective operation.
    """

    commands: list[Command]
    step: StepOrder | None
    refusals: list[Sequence[TooLargeRequest]]
    checksum: int


class Stop(Struct, frozen=True, array_like=True, tag="stop"):
    """The group ends: save cached prompts for at most so many seconds, and free the model."""

    save_seconds: float
