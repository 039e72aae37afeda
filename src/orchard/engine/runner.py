"""Carries out the scheduler's plans: decodes rows, prefills prompts, and reports the results."""

import logging
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import mlx.core as mx
import numpy as np
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.device.out_of_memory import (
    free_after_error,
    has_late_errors,
    insufficient_memory,
    is_out_of_memory,
    raise_late_errors,
    wait_for_launched_work,
)
from orchard.engine.batching.batch import Batch
from orchard.engine.batching.batched_cache import GROWTH
from orchard.engine.batching.decode import Rows
from orchard.engine.batching.job import Begun, Drawn, EngineStep, HiddenState, Job, JobFailed, Scored
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.prefill import group_by_length, read_batch
from orchard.engine.batching.speculating_rows import SpeculatingRows, VerifyingError
from orchard.engine.memory import MemoryGiver, Shares, Use
from orchard.engine.sampling.grammar import GrammarError
from orchard.engine.sampling.logprobs import Logprobs
from orchard.engine.scheduler import Scheduler, StepPlan, TooLarge
from orchard.engine.shortage import Alone, Shortage
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import LEAST_CHUNK, Limits, Ticket
from orchard.engine.work import Results, Work

log = logging.getLogger("orchard.engine")

T = TypeVar("T")


class Runner:
    """Holds all jobs. Not thread-safe: only the engine's thread uses it."""

    def __init__(
        self,
        model: LanguageModel,
        store: KVStore,
        batch: Batch,
        limits: Limits,
        footprint: Footprint,
        *,
        batched_prefill: bool = False,
        speculation: Speculation | None = None,
    ) -> None:
        """`batched_prefill`: several prompts may share a pass. `speculation`: None turns speculative decoding off."""
        self._model = model
        self._batched_prefill = batched_prefill
        self.store = store
        self._uncached = store.uncached()
        self.speculation = speculation
        """What proposes tokens to verify; None: no speculative decoding."""
        self._rows = Rows(model, batch, store)
        if speculation:
            self._rows = SpeculatingRows(model, batch, store, speculation, lambda: self._scheduler.room)
        self.batch_mode = batch.mode
        """Which rows share a forward pass."""
        self._scheduler = Scheduler(limits)
        self._memory = MemoryGiver(store, speculation)
        self._most_bytes = limits.most
        self._step_work = limits.work
        self._footprint = footprint
        self._work: dict[str, Work] = {}
        self._broken: list[JobFailed] = []
        self._begun: list[Begun] = []
        self._scores: list[tuple[Work, Logprobs]] = []  # launched, not read yet
        self._hidden: list[tuple[Work, mx.array]] = []  # launched, not read yet
        self._results = Results(lambda work: self._work.get(work.job.id) is work, self._end)
        self._late = has_late_errors()
        self._shortage = Shortage()
        self._reported: tuple[int, list[str]] = (0, [])  # the jobs that the last step reported
        self.read_tokens = 0

    @property
    def idle(self) -> bool:
        """Whether a step would have nothing to do and nothing to report."""
        reported = self._reported == self._jobs
        return (
            self._scheduler.idle
            and self._rows.idle
            and not (self._broken or self._hidden or self._results.held)
            and reported
        )

    @property
    def _jobs(self) -> tuple[int, list[str]]:
        return self._scheduler.running + self._scheduler.waiting, self._scheduler.starved

    def add(self, job: Job) -> None:
        """Queue a job. If all memory that there may be holds less than `max_tokens`, answers get fewer."""
        tokens = len(job.prompt)
        whole = [span.stop - span.start for span in job.spans if not span.divisible]
        ticket = Ticket(
            id=job.id,
            priority=job.priority,
            prompt_tokens=tokens - (0 if job.hidden else 1),
            rows=job.choices,
            max_tokens=job.max_tokens,
            length=tokens,
            least=max([LEAST_CHUNK, *whole]) if self.store.in_pieces else 0,
            prompt_bytes=self._footprint.bytes(tokens) - self._footprint.fixed,
            bytes_per_token=self._growth(tokens),
            fixed_bytes=self._footprint.fixed + GROWTH * self._growth(tokens),
            state_bytes=self._footprint.fixed,
            media_bytes=job.media_bytes,
            sender=job.sender,
        )
        work = self._work[job.id] = Work(job, ticket)
        ticket.max_tokens = self._most_tokens(work)
        work.job = replace(job, max_tokens=ticket.max_tokens)
        if refusal := self._scheduler.add(ticket):
            self._refuse(refusal)

    def _growth(self, tokens: int) -> int:
        return self._footprint.bytes(tokens + 1) - self._footprint.bytes(tokens)

    def _most_tokens(self, work: Work) -> int:
        """Return the token limit of a job's answers: `wanted`, or what fits into all memory that there may be."""
        rows = sum(answer is not None for answer in work.answers)

        def fits(count: int) -> bool:
            # After a preemption, the prompt and its media are read again while the generated tokens need memory, too.
            length = work.ticket.length + count
            ticket = replace(work.ticket, rows=rows, max_tokens=count, length=length)
            return ticket.alone(count, self._step_work) <= self._most_bytes

        if fits(work.wanted):
            return work.wanted
        return max(bisect_left(range(work.wanted), True, key=lambda count: not fits(count + 1)), 1)

    def limit_memory(self, shares: Shares) -> None:
        """Limit rows and cached prompts to these shares, from the next step on.

        Jobs that don't fit for now are preempted and wait; jobs that can never fit are rejected.
        """
        self._survive(lambda: self._memory.limit(shares, self._scheduler.used_bytes))
        if shares.rows != self._most_bytes:
            self._most_bytes = shares.rows
            for work in self._work.values():
                self._bound(work)
        for refusal in self._scheduler.limit_memory(shares.rows_now, shares.rows):
            self._refuse(refusal)

    @property
    def planned_bytes(self) -> int:
        """The bytes that rows, cached prompts and the last step were planned to take at most."""
        return self._scheduler.planned_bytes + self.store.nbytes

    @property
    def use(self) -> Use:
        """What rows and cached prompts take, and what starved jobs need."""
        return Use(self._scheduler.used_bytes, self.store.nbytes, self._scheduler.wanted_bytes)

    def _bound(self, work: Work) -> None:
        """Recompute a job's token limit from the memory, but leave room for every launched token and one more."""
        rows = [row for row in work.rows if not row.ended]
        generated = [row.launched for row in rows] + [len(answer) for answer in work.answers if answer]
        most = max(self._most_tokens(work), max(generated, default=0) + 1)
        most = min(most, work.wanted)
        work.job = replace(work.job, max_tokens=most)
        for row in rows:
            row.job = work.job
        self._scheduler.bound(work.job.id, most)

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """Cancel a job, or one choice of it (which must have begun). Unknown ids are ignored."""
        if not (work := self._work.get(job_id)):
            return
        if choice is None:
            self._forget(job_id)
        else:
            self._end(work, choice)

        def leave() -> None:
            for row in work.rows:
                if choice in (None, row.choice):
                    self._rows.leave(row)
            if choice is None:
                work.save_prefill()

        self._survive(leave)

    def pause(self, job_id: str) -> None:
        """Stop a job at the next step and free its memory, until it is resumed. Unknown ids are ignored."""
        self._scheduler.pause(job_id)

    def resume(self, job_id: str) -> None:
        """Continue a paused job from its tokens. Unknown ids are ignored."""
        if refusal := self._scheduler.resume(job_id):
            self._refuse(refusal)

    def fetch(self, job: Job, done: Callable[[], None]) -> bool:
        """Begin to read a job's cached prompt from disk: see `KVStore.fetch`."""
        return bool(self._survive(lambda: self.store.fetch(job.prompt, done, job.spans, job.cache_scope)))

    def write_back(self) -> bool:
        """Give the disk's thread some cached prompts, while idle; return whether it could take more now."""

        def write() -> bool:
            self._confirm()
            return self.store.write_back()

        return bool(self._survive(write))

    def close(self, timeout: float) -> None:
        """Write cached prompts that aren't on disk yet, for at most about `timeout` seconds."""
        self._survive(self._confirm)
        self._survive(lambda: self.store.close(timeout))

    def step(self) -> EngineStep:
        """Take one step: decode every row, then prefill prompts; return what this one and earlier ones produced.

        No result is returned before the errors of its work must have surfaced: see `Results`.
        """
        self._survive(self._step)
        begun, self._begun = self._begun, []
        broken, self._broken = self._broken, []
        self._reported = self._jobs
        drawn, scored, hidden = self._results.take()
        jobs = self._scheduler.running, self._scheduler.waiting
        return EngineStep(begun, drawn, broken, *jobs, scored, hidden, self._scheduler.starved)

    def _step(self) -> None:
        self.store.settle(self._rows.seen, self._rows.launched + 2)  # a step launches one draw
        plan = self._scheduler.plan()
        for refusal in plan.too_large:
            self._refuse(refusal)
        if plan.preempt or plan.pause or plan.displace:
            self._release_memory(plan)
        if self._memory.short:
            self._memory.make_room(self._scheduler.used_bytes)
        for job_id in plan.begin:
            self._guard(job_id, self._begin)
        self.store.end_admission()
        self._decode()
        launched, self._hidden = self._hidden, []
        self._prefill(plan.prefill)
        for work, vector in launched:
            self._results.hold(self._rows.launched + 1, work, HiddenState(work.job.id, np.array(vector)))
        if plan.prefill:
            self._rows.disturb()
            # The device is busy with the prompts, so waiting for the newest tokens costs nothing.
            self._hold(self._rows.read())
        if self._rows.idle and (launched or self._scheduler.idle):
            self._confirm()
        self._results.tell(self._rows.seen if self._late else None)
        if self._shortage.calm():
            self._scheduler.limit_running(self._shortage.most)

    def _hold(self, drawn: list[Drawn]) -> None:
        """Hold tokens that were just read, until a token that was launched after them could be read."""
        for one in drawn:
            if work := self._work.get(one.job):
                self._results.hold(self._rows.seen + 1, work, one)

    def _confirm(self) -> None:
        """Wait for the device; if it reports no error, tell all results that are held."""
        raise_late_errors()
        self.store.confirm()
        self.store.settle(self._rows.seen, self._rows.launched + 2)
        self._results.tell()

    def _survive(self, act: Callable[[], T]) -> T | None:
        """Return what `act` returns; None if it ran out of memory: then all jobs go on from what they have told."""
        try:
            return act()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            log.warning("memory ran out; %d requests begin again", self._scheduler.running, exc_info=error)
            wait_for_launched_work()
            self._recover()
            free_after_error(error)
            return None

    def _recover(self) -> None:
        """Give up memory and whatever is computed, and queue all jobs that ran; fail one that has failed too often."""
        running, ids = self._scheduler.running, self._scheduler.preempt_all()
        works = [self._work[job_id] for job_id in ids]
        alone = works[0] if running == len(works) == 1 else None
        self._shortage.fail(running, Alone(alone.job.id, sum(alone.told) + alone.told_scores) if alone else None)
        self._results.drop_held()
        self._scores, self._hidden = [], []
        self._rows.drop_all()
        self._model.drop_all()
        self.store.retract()
        if self._shortage.takes_prompts:
            self.store.drop_all()
        for work in works:
            self._requeue(work, work.go_back())
        for work in self._work.values():
            work.scored = work.told_scores  # also those of jobs that were stopped a moment ago are dropped
        self._scheduler.limit_running(self._shortage.most)
        if alone and self._shortage.hopeless:
            refusal = insufficient_memory()
            self._break(JobFailed(alone.job.id, refusal.message, refusal=refusal))

    def _begin(self, work: Work) -> None:
        """Look the prompt up in the prefix cache and prepare the prefill of the rest."""
        work.begin(self._uncached if work.job.hidden else self.store, self._model.vocab_size)
        if not work.begun:
            work.begun = True
            prefill, _ = work.prefills[0]
            self._begun.append(Begun(work.job.id, prefill.cached, prefill.miss))
        self._read(work, 0)

    def _prefill(self, due: list[tuple[str, int]]) -> None:
        """Prefill each (job id, tokens) of `due`; similar prompts share a pass."""
        alike: dict[object, list[tuple[Work, int]]] = {}
        encoding = False
        for job_id, tokens in due:
            if work := self._work.get(job_id):
                encodes = bool(work.prefills) and work.prefills[0][0].encodes_next and not self._rows.idle
                # While rows decode, a step encodes the media of one prompt only; the others wait for later steps.
                budget = 0 if encodes and encoding else tokens
                encoding = encoding or encodes
                alike.setdefault(self._batch_key(work), []).append((work, budget))
        # Copies may take what the step leaves.
        most_places = self._scheduler.spare_bytes // max(self._footprint.per_token, 1)
        for pieces in alike.values():
            sizes = [(work.prefills[0][0].done, tokens) for work, tokens in pieces if work.prefills]
            for of in group_by_length(sizes, most_places) if len(pieces) > 1 else [[0]]:
                self._prefill_group([pieces[index] for index in of])

    def _batch_key(self, work: Work) -> object:
        """Return a key that is equal for jobs whose prompts may share a pass; `work` itself if it can't share one."""
        key = work.prefills[0][0].batch_key if work.prefills and self._batched_prefill and not work.isolated else None
        return key or work

    def _prefill_group(self, pieces: list[tuple[Work, int]]) -> None:
        """Prefill these prompts in one pass. If it raises, prefill each alone, since any of them may be the cause."""
        if self._batch_key(pieces[0][0]) is not pieces[0][0]:
            try:
                read_batch(self._model, [(work.prefills[0][0], tokens) for work, tokens in pieces])
            except Exception as error:
                self._check(error)
                log.warning("reading %d prompts in one pass failed; each is read alone", len(pieces), exc_info=error)
                for work, _ in pieces:
                    work.isolated = True
        for work, tokens in pieces:
            self._guard(work.job.id, partial(self._read, budget=tokens))

    def _read(self, work: Work, budget: int) -> None:
        """Prefill up to `budget` tokens; a job whose prompt is complete decodes from the next step on."""
        while work.prefills:
            prefill, choices = work.prefills[0]
            read = prefill.advance(self._model, budget)
            budget -= read
            self.read_tokens += read
            if prefill.scoring:
                work.scored = max(work.scored, prefill.done)
                self._scores += [(work, piece) for piece in prefill.scoring.take()]
            if prefill.left:
                break
            prefill.save()
            del work.prefills[0]
            if prefill.hidden is None:
                for row in work.start_rows(prefill, choices):
                    self._rows.join(row)
            else:
                self._hidden.append((work, prefill.hidden))
        self._scheduler.remains(work.job.id, sum(prefill.left for prefill, _ in work.prefills))

    def _decode(self) -> None:
        drawn, failed = self._rows.step()
        # The device is busy with this step's passes while scores are read. They come before all tokens.
        scores, self._scores = self._scores, []
        for of, piece in scores:
            self._results.hold(self._rows.launched + 1, of, Scored(of.job.id, piece.read()))
        self._hold(drawn)
        if self._late and self._results.held and not self._rows.in_flight:
            self._confirm()
        for job_id in {one.job for one in drawn if one.verified}:
            self._advance(job_id)
        for rows, error in failed:
            self._check(error)
            jobs = {row.job.id for row in rows}
            if len(jobs) == 1 and not isinstance(error, VerifyingError):
                self._fail(jobs.pop(), error)
                continue
            # Any of them may be the cause, so each continues from its tokens in its own passes.
            log.warning("a step of %d requests failed; each of them goes on alone", len(jobs), exc_info=error)
            for job_id in jobs:
                if work := self._work.get(job_id):
                    work.free_rows(self._rows)
                    work.isolated = True
                    self._guard(job_id, self._begin)

    def _advance(self, job_id: str) -> None:
        """Tell the scheduler how many tokens a job's rows have: a step that verifies may generate several of each."""
        if work := self._work.get(job_id):
            generated = (row.launched - work.admitted_with[row.choice] for row in work.rows if not row.ended)
            self._scheduler.advanced(job_id, max(generated, default=0))

    def _release_memory(self, plan: StepPlan) -> None:
        """Preempt, pause and displace jobs as planned. They continue from the tokens that have been launched."""
        self._hold(self._rows.read())
        self._confirm()
        for job_id in [*plan.preempt, *plan.pause, *plan.displace]:
            if work := self._work.get(job_id):
                if job_id in plan.preempt:
                    held = [len(row.tokens) for row in work.rows] + [prefill.done for prefill, _ in work.prefills]
                    self._memory.tell("running requests", sum(map(self._footprint.bytes, held)))
                # A preemption means that memory is short, so its KV cache must not go into the prefix cache.
                self._stop(work, cacheable=job_id not in plan.preempt)

    def _stop(self, work: Work, cacheable: bool) -> None:
        self._requeue(work, work.free_rows(self._rows, cacheable))

    def _requeue(self, work: Work, generated: int) -> None:
        """Queue a job whose rows are free; `generated`: the most tokens that a row generated since its admission."""
        left = sum(len(work.job.prompt) + len(answer) - 1 for answer in work.answers if answer is not None)
        work.admitted_with = [len(answer or []) for answer in work.answers]
        if refusal := self._scheduler.returned(work.job.id, left, generated):
            self._refuse(refusal)

    def _end(self, work: Work, choice: int) -> None:
        """Note that one choice has ended."""
        if work.answers[choice] is None:
            return
        work.answers[choice] = None
        self._scheduler.ended(work.job.id)
        if all(answer is None for answer in work.answers):
            self._work.pop(work.job.id, None)

    def _forget(self, job_id: str) -> None:
        self._scheduler.cancel(job_id)
        self._work.pop(job_id, None)

    def _refuse(self, refusal: TooLarge) -> None:
        media = self._work[refusal.id].job.media_bytes
        message = (
            f"this request needs {refusal.needed_bytes:,} bytes for its KV cache and for computing it"
            f"{f', with the encoding of its media ({media:,})' if media else ''}; "
            f"there are at most {refusal.memory_bytes:,} for all requests"
        )
        self._break(JobFailed(refusal.id, message, too_large=True))

    def _fail(self, job_id: str, error: Exception) -> None:
        log.error("request %s failed in the engine", job_id, exc_info=error)
        known = isinstance(error, GrammarError)
        refusal = error if isinstance(error, OrchardError) else None
        if refusal and job_id in self._work:  # raised before a pass, so the cache is in a known state
            self._work[job_id].save_prefill()
        told = known or refusal is not None
        message = str(error) if told else f"the model failed on this request: {type(error).__name__}: {error}"
        self._break(JobFailed(job_id, message, by_grammar=known, refusal=refusal))

    def _break(self, broken: JobFailed) -> None:
        if not (work := self._work.get(broken.job)):
            return  # it has already failed: another of its rows did, in another pass
        for row in work.rows:
            row.cacheable = False
            self._rows.leave(row)
        self._forget(broken.job)
        self._broken.append(broken)

    def _guard(self, job_id: str, act: Callable[[Work], None]) -> None:
        """Do one job's part of a step. If it raises, only that job fails."""
        if work := self._work.get(job_id):
            try:
                act(work)
            except Exception as error:
                self._check(error)
                self._fail(job_id, error)

    def _check(self, error: Exception) -> None:
        """Raise an error that says that memory ran out, or that one of earlier work, which may have caused it."""
        if is_out_of_memory(error):
            raise error
        self._confirm()
