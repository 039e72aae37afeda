"""The runner and the scheduler of all ranks but 0: they do what rank 0 has decided."""

from collections import deque
from collections.abc import Callable, Sequence

from orchard.device.out_of_memory import raise_late_errors
from orchard.engine.batching.job import JobFailure
from orchard.engine.ranks.notes import NoteSum
from orchard.engine.ranks.orders import (
    AddJob,
    CancelJob,
    DropJob,
    EndRead,
    LimitShares,
    Order,
    ReadFiles,
    ResumeJob,
    StepOrder,
)
from orchard.engine.ranks.shared_runner import SharedRunner
from orchard.engine.scheduler import Scheduler, StepPlan, TooLargeRequest
from orchard.engine.ticket import Limits, Ticket

_SECONDS_UNTIL_SAVING = 0.5  # as rank 0
_SECONDS_BETWEEN_LOOKS = 5.0


class DivergedError(Exception):
    """This rank's rows or prompts differ from those of rank 0, so its next step would be another one."""


class FollowingScheduler(Scheduler):
    """Gives the answers of rank 0's scheduler to the same calls."""

    def __init__(self, limits: Limits) -> None:
        """`limits` must be those of rank 0."""
        super().__init__(limits)
        self._notes = NoteSum()
        self._refusals: deque[Sequence[TooLargeRequest]] = deque()
        self._order = Order([], None, [], 0)
        self._rows: dict[str, int] = {}  # the rows that have not ended of each request
        self._admitted_ids: set[str] = set()
        self._used_bytes = 0

    def begin(self, order: Order) -> None:
        """Take the answers of an order."""
        self._order = order
        self._refusals.extend(order.refusals)

    def check(self) -> None:
        """Raise DivergedError if the runner has told other things than rank 0's by the end of the commands."""
        if self._refusals or self._notes.checksum != self._order.checksum:
            raise DivergedError("its rows or its prompts are not those of rank 0")

    def add(self, ticket: Ticket) -> TooLargeRequest | None:
        """See `Scheduler`."""
        self._rows[ticket.id] = ticket.rows
        return self._next_refusal()

    def resume(self, ticket_id: str) -> TooLargeRequest | None:
        """See `Scheduler`."""
        return self._next_refusal()

    def requeue(self, ticket_id: str, prompt_tokens: int, generated: int) -> TooLargeRequest | None:
        """See `Scheduler`."""
        self._notes.add("requeue", ticket_id, prompt_tokens, generated)
        return self._next_refusal()

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> list[TooLargeRequest]:
        """See `Scheduler`."""
        return list(self._next_refusals())

    def cancel(self, ticket_id: str) -> None:
        """See `Scheduler`."""
        self._rows.pop(ticket_id, None)
        self._admitted_ids.discard(ticket_id)

    def end_row(self, ticket_id: str) -> None:
        """See `Scheduler`."""
        self._notes.add("end_row", ticket_id)
        if self._rows.get(ticket_id) == 1:
            self.cancel(ticket_id)
        elif ticket_id in self._rows:
            self._rows[ticket_id] -= 1

    def set_prompt_tokens(self, ticket_id: str, prompt_tokens: int) -> None:
        """See `Scheduler`."""
        self._notes.add("prompt", ticket_id, prompt_tokens)

    def plan(self) -> StepPlan:
        """See `Scheduler`."""
        plan = self._current_step.plan
        self._admitted_ids -= {*plan.preempt, *plan.pause, *plan.displace}
        self._admitted_ids.update(plan.begin)
        return plan

    def plan_prefill(self) -> list[tuple[str, int]]:
        """See `Scheduler`. The step's first collective operation comes next, so first see that nothing differs."""
        self.check()
        return self._current_step.prefill

    @property
    def spare_bytes(self) -> int:
        """See `Scheduler`."""
        return self._current_step.spare_bytes

    @property
    def used_bytes(self) -> int:
        """See `Scheduler`."""
        return self._used_bytes

    @used_bytes.setter
    def used_bytes(self, nbytes: int) -> None:
        self._used_bytes = nbytes

    @property
    def is_idle(self) -> bool:
        """See `Scheduler`."""
        return not (self._admitted_ids or self._current_step.has_waiting)

    @property
    def _current_step(self) -> StepOrder:
        assert self._order.step, "rank 0 has ordered no step"
        return self._order.step

    def _next_refusals(self) -> Sequence[TooLargeRequest]:
        if not self._refusals:
            raise DivergedError("it asks for more answers than rank 0")
        return self._refusals.popleft()

    def _next_refusal(self) -> TooLargeRequest | None:
        return next(iter(self._next_refusals()), None)


class FollowingRunner(SharedRunner):
    """The runner of a rank that is not 0."""

    _scheduler: FollowingScheduler

    def follow(self, order: Order) -> None:
        """Do what rank 0 has done. Raise DivergedError before a step that would not be rank 0's."""
        scheduler, step = self._scheduler, order.step
        scheduler.begin(order)
        for command in order.commands:
            match command:
                case AddJob():
                    self.add(command.to_job())
                case CancelJob(job_id, choice):
                    self.cancel(job_id, choice)
                case DropJob(job_id):
                    self._drop_failed_job(JobFailure(job_id, "its grammar has failed"))
                case ResumeJob(job_id):
                    self.resume(job_id)
                case LimitShares(shares, used_bytes):
                    scheduler.used_bytes = used_bytes
                    self.limit_memory(shares)
                case ReadFiles():
                    self.store.begin_read(command, lambda: None)
                case EndRead(restores):
                    self.store.end_read(restores=restores)
        if step:
            scheduler.used_bytes = step.used_bytes
            self.step()
        else:
            scheduler.check()

    def write_back(self) -> bool:
        """See `Runner`. It releases no results: rank 0 may still hold them back."""
        raise_late_errors()
        self.store.confirm()
        return self.store.write_back()

    def save_until(self, has_order: Callable[[float], bool]) -> None:
        """Give cached prompts to the disk while there are no orders. `has_order` waits for one for some seconds."""
        seconds = _SECONDS_UNTIL_SAVING
        while not has_order(seconds):
            seconds = 0.0 if self.write_back() else _SECONDS_BETWEEN_LOOKS
