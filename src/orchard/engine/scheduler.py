"""Which row runs when.

Each step decodes every running row once, each with a forward pass of its own, and then reads one chunk of one waiting
prompt; the prompts take turns. So a row's tokens can't depend on its company, and a long prompt holds running streams
up by no more than one chunk.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from orchard.engine.job import Broken, Drawn, Job, Step
from orchard.engine.model import Model
from orchard.engine.row import Prefill, Row

log = logging.getLogger("orchard.engine")


class Scheduler:
    """Holds all jobs. Not thread-safe: it lives in the engine's thread."""

    def __init__(self, model: Model, max_rows: int, prefill_chunk: int) -> None:
        """At most `max_rows` choices run at once, later jobs wait in order; prompts are read `prefill_chunk` tokens
        at a time."""
        self._model = model
        self._max_rows = max_rows
        self._prefill_chunk = prefill_chunk
        self._waiting: deque[Job] = deque()
        self._prefills: deque[Prefill] = deque()
        self._rows: list[Row] = []
        self.prefilled_tokens = 0

    @property
    def running(self) -> int:
        """How many jobs are being worked on."""
        return len(self._prefills) + len({row.job.id for row in self._rows})

    @property
    def waiting(self) -> int:
        """How many jobs wait for their turn."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self._rows or self._prefills or self._waiting)

    def add(self, job: Job) -> None:
        """Take a job in."""
        self._waiting.append(job)

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """Forget a job, or one choice of it (which must have begun). Unknown ids are fine."""
        self._rows = [row for row in self._rows if row.job.id != job_id or choice not in (None, row.choice)]
        if choice is None:
            self._prefills = deque(prefill for prefill in self._prefills if prefill.job.id != job_id)
            self._waiting = deque(job for job in self._waiting if job.id != job_id)

    def step(self) -> Step:
        """Decode every row once, then read one chunk of one prompt."""
        drawn: list[Drawn] = []
        broken: list[Broken] = []
        self._admit(broken)
        # All rows' work is queued before the first result is waited for.
        for row in list(self._rows):
            self._guard(row.job, partial(row.launch, self._model), broken)
        for row in list(self._rows):
            self._guard(row.job, partial(self._read, row, drawn), broken)
        if self._prefills:
            prefill = self._prefills[0]
            self._prefills.rotate(-1)
            self._guard(prefill.job, partial(self._advance, prefill), broken)
        failed = {item.job for item in broken}
        return Step([item for item in drawn if item.job not in failed], broken, self.running, self.waiting)

    def _admit(self, broken: list[Broken]) -> None:
        taken = len(self._rows) + sum(prefill.job.choices for prefill in self._prefills)
        while self._waiting and taken + self._waiting[0].choices <= self._max_rows:
            job = self._waiting.popleft()
            taken += job.choices
            self._guard(job, partial(self._begin, job), broken)

    def _begin(self, job: Job) -> None:
        prefill = Prefill(job, self._model)
        if prefill.finished:
            self._rows += prefill.rows(self._model)
        else:
            self._prefills.append(prefill)

    def _read(self, row: Row, drawn: list[Drawn]) -> None:
        if item := row.read(self._model.eos_token_ids):
            drawn.append(item)
            if item.reason:
                self._rows.remove(row)

    def _advance(self, prefill: Prefill) -> None:
        self.prefilled_tokens += prefill.advance(self._model, self._prefill_chunk)
        if prefill.finished:
            self._prefills.remove(prefill)
            self._rows += prefill.rows(self._model)

    def _guard(self, job: Job, act: Callable[[], None], broken: list[Broken]) -> None:
        """Do one job's part of a step; where it raises, that job is to blame and the others go on."""
        if any(item.job == job.id for item in broken):
            return
        try:
            act()
        except Exception as error:
            log.exception("request %s failed in the engine", job.id)
            self.cancel(job.id)
            broken.append(Broken(job.id, f"the model failed on this request: {type(error).__name__}: {error}"))
