"""Rank 0's runner and scheduler: they work as those of a model on one rank, and tell the other ranks what they decide.

All ranks have the same rows, prompts and prefix cache, and call MLX in the same order. What differs between them, or
from run to run, only reaches the scheduler: arrivals, clocks, measured costs, memory. So its decisions are sent, one
message a step, before the step's first collective operation; a rank that has not got them enters none.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from orchard.engine.batching.job import Job
from orchard.engine.memory import Shares
from orchard.engine.prefill_price import PrefillPrice
from orchard.engine.ranks.notes import NoteSum
from orchard.engine.ranks.orders import (
    AddJob,
    CancelJob,
    Command,
    DropJob,
    EndRead,
    LimitShares,
    Order,
    ResumeJob,
    StepOrder,
    Stop,
)
from orchard.engine.ranks.shared_runner import SharedRunner
from orchard.engine.scheduler import Scheduler, StepPlan, TooLargeRequest
from orchard.engine.ticket import Limits, Ticket


class LeadingScheduler(Scheduler):
    """Sends each plan, together with the commands before it."""

    def __init__(self, limits: Limits, price: PrefillPrice | None, send: Callable[[Order | Stop], None]) -> None:
        """`send` gives an order to all other ranks."""
        super().__init__(limits, price)
        self.send = send
        self.commands: list[Command] = []
        """The commands that have not been sent."""
        self._notes = NoteSum()
        self._refusals: list[Sequence[TooLargeRequest]] = []
        self._plan = StepPlan([], [], [])
        self._last_used_bytes = 0

    def add(self, ticket: Ticket) -> TooLargeRequest | None:
        """See `Scheduler`."""
        return self._note_refusal(super().add(ticket))

    def resume(self, ticket_id: str) -> TooLargeRequest | None:
        """See `Scheduler`."""
        return self._note_refusal(super().resume(ticket_id))

    def requeue(self, ticket_id: str, prompt_tokens: int, generated: int) -> TooLargeRequest | None:
        """See `Scheduler`."""
        self._notes.add("requeue", ticket_id, prompt_tokens, generated)
        return self._note_refusal(super().requeue(ticket_id, prompt_tokens, generated))

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> list[TooLargeRequest]:
        """See `Scheduler`."""
        refusals = super().limit_memory(memory_bytes, most_bytes)
        self._refusals.append(refusals)
        return refusals

    def end_row(self, ticket_id: str) -> None:
        """See `Scheduler`."""
        self._notes.add("end_row", ticket_id)
        super().end_row(ticket_id)

    def set_prompt_tokens(self, ticket_id: str, prompt_tokens: int) -> None:
        """See `Scheduler`."""
        self._notes.add("prompt", ticket_id, prompt_tokens)
        super().set_prompt_tokens(ticket_id, prompt_tokens)

    @property
    def used_bytes(self) -> int:
        """See `Scheduler`."""
        self._last_used_bytes = super().used_bytes
        return self._last_used_bytes

    def plan(self) -> StepPlan:
        """See `Scheduler`."""
        self._plan = super().plan()
        return self._plan

    def plan_prefill(self) -> list[tuple[str, int]]:
        """See `Scheduler`. Then send the step to the other ranks: nothing that is sent changes until it is over."""
        pieces = super().plan_prefill()
        waits = bool(self._admission_count)
        self.flush(StepOrder(self._plan, pieces, self.spare_bytes, self._last_used_bytes, waits))
        return pieces

    def flush(self, step: StepOrder | None = None) -> None:
        """Send what has not been sent."""
        self.send(Order(self.commands, step, self._refusals, self._notes.checksum))
        self.commands, self._refusals = [], []

    def _note_refusal(self, refusal: TooLargeRequest | None) -> TooLargeRequest | None:
        self._refusals.append([refusal] if refusal else [])
        return refusal


class LeadingRunner(SharedRunner):
    """Rank 0's runner."""

    _scheduler: LeadingScheduler

    def __init__(self, *given: Any, **options: Any) -> None:
        """See `Runner`."""
        super().__init__(*given, **options)
        self._reads: deque[tuple[Job, Callable[[], None]]] = deque()  # the first one is under way

    def add(self, job: Job) -> None:
        """See `Runner`."""
        if self._reads and self._reads[0][0].id == job.id:
            self._end_read(restores=True)
        self._scheduler.commands.append(AddJob.from_job(job))
        super().add(job)

    def fetch(self, job: Job, on_done: Callable[[], None]) -> bool:
        """See `Runner`. Jobs wait for each other: so little memory is taken beside the prompt cache."""
        if not self.store.plan_read(job):
            return False
        self._reads.append((job, on_done))
        if len(self._reads) == 1:
            self._begin_read()
        return True

    def _begin_read(self) -> None:
        """Let all ranks read the first job's prompt that isn't in memory by now."""
        while self._reads:
            job, on_done = self._reads[0]
            if read := self.store.plan_read(job):
                self._scheduler.commands.append(read)
                self._scheduler.flush()
                self.store.begin_read(read, on_done)
                return
            self._reads.popleft()
            on_done()

    def _end_read(self, *, restores: bool) -> None:
        self._reads.popleft()
        self._scheduler.commands.append(EndRead(restores))
        self._scheduler.flush()
        self.store.end_read(restores=restores)
        self._begin_read()

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """See `Runner`."""
        if self._reads and self._reads[0][0].id == job_id:
            self._end_read(restores=False)
        self._reads = deque(read for read in self._reads if read[0].id != job_id)
        self._scheduler.commands.append(CancelJob(job_id, choice))
        super().cancel(job_id, choice)

    def resume(self, job_id: str) -> None:
        """See `Runner`."""
        self._scheduler.commands.append(ResumeJob(job_id))
        super().resume(job_id)

    def limit_memory(self, shares: Shares) -> None:
        """See `Runner`. The other ranks give up memory at once, even if no step follows."""
        self._scheduler.commands.append(LimitShares(shares, self._scheduler.used_bytes))
        super().limit_memory(shares)
        self._scheduler.flush()

    def _step(self) -> None:
        # Later than this, the others could not learn of it before they draw.
        for job_id, error in self._rows.take_grammar_failures():
            self._scheduler.commands.append(DropJob(job_id))
            self._fail(job_id, error)
        super()._step()

    def work_beside(self, work: Callable[[], bool]) -> bool:
        """Do nothing: a group has found out all about its model before it serves."""
        return False

    def close(self, timeout: float) -> None:
        """See `Runner`. All ranks save at the same time."""
        self._scheduler.send(Stop(timeout))
        super().close(timeout)
