"""What a job needs of the memory: its ticket for the scheduler, and how many tokens its answers may have."""

from bisect import bisect_left

from msgspec.structs import replace

from orchard.engine.batching.batched_cache import GROWTH, round_reach
from orchard.engine.batching.job import Job
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.ticket import LEAST_CHUNK, Limits, Ticket
from orchard.engine.work import Work


class JobSizes:
    """The needs of one model's jobs."""

    def __init__(self, footprint: Footprint, limits: Limits, *, in_pieces: bool, batched_prefill: bool = False) -> None:
        """`footprint`: of a row. `in_pieces` False: prompts must be read whole. `batched_prefill`: see `Runner`."""
        self._footprint = footprint
        self.step_work = limits.work
        self._in_pieces = in_pieces
        self.batched_prefill = batched_prefill
        self.max_request_bytes = limits.max_request_bytes
        """The bytes that a job may need."""

    def make_ticket(self, job: Job) -> Ticket:
        """Return a job's ticket, with the token limit of its request."""
        tokens = len(job.prompt)
        whole = [span.stop - span.start for span in job.spans if not span.divisible]
        token_bytes = self._footprint.bytes(tokens + 1) - self._footprint.bytes(tokens)
        # A shared pass leaves a row with room up to the places that it attended to.
        spare = round_reach(tokens + GROWTH) - tokens if self.batched_prefill else GROWTH
        return Ticket(
            id=job.id,
            priority=job.priority,
            prompt_tokens=tokens - (0 if job.wants_hidden_state else 1),
            rows=job.choices,
            max_tokens=job.max_tokens,
            length=tokens,
            least=max([LEAST_CHUNK, *whole]) if self._in_pieces else 0,
            prompt_bytes=self._footprint.bytes(tokens) - self._footprint.fixed,
            bytes_per_token=token_bytes,
            fixed_bytes=self._footprint.fixed + spare * token_bytes,
            state_bytes=self._footprint.fixed,
            media_bytes=job.media_bytes,
            sender=job.sender,
        )

    def max_tokens(self, work: Work) -> int:
        """Return the token limit of a job's answers: what was requested, or less if that doesn't fit; at least 1."""
        rows = sum(answer is not None for answer in work.answers)

        def fits(count: int) -> bool:
            # After a preemption, the prompt and its media are read again while the generated tokens need memory, too.
            length = work.ticket.length + count
            ticket = replace(work.ticket, rows=rows, max_tokens=count, length=length)
            return ticket.needed_bytes_alone(count, self.step_work) <= self.max_request_bytes

        if fits(work.requested_tokens):
            return work.requested_tokens
        return max(bisect_left(range(work.requested_tokens), True, key=lambda count: not fits(count + 1)), 1)
