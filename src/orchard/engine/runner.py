"""Carries out the scheduler's plans: decodes rows, prefills prompts, and reports the results."""

import logging
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
from orchard.engine.batching.batch import Batch, BatchMode, VerifyMode
from orchard.engine.batching.decode import Rows
from orchard.engine.batching.job import DrawnToken, EngineStep, HiddenState, Job, JobFailure, JobStart, PromptScores
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.prefill import group_by_length, read_batch
from orchard.engine.batching.speculating_rows import SpeculatingRows, VerifyError
from orchard.engine.batching.traced_pass import TracedPasses
from orchard.engine.calibration import Calibration
from orchard.engine.job_size import JobSizes
from orchard.engine.memory import MemoryGiver, Shares, Use
from orchard.engine.prefill_price import PrefillLap, PrefillPrice
from orchard.engine.sampling.grammar import GrammarError
from orchard.engine.sampling.logprobs import Logprobs
from orchard.engine.sampling.sampler import ShareTokens
from orchard.engine.scheduler import Scheduler, StepPlan, TooLargeRequest
from orchard.engine.shortage import LoneJob, Shortage
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import Limits
from orchard.engine.work import Results, Work

log = logging.getLogger("orchard.engine")

_PREFILLS_BEFORE_TRACE = 2  # tracing takes about as long as a pass without a trace
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
        draws_from_prompt: bool = False,
        speculation: Speculation | None = None,
        price: PrefillPrice | None = None,
        scheduler: Scheduler | None = None,
        share_tokens: ShareTokens | None = None,
    ) -> None:
        """`batched_prefill`: several prompts may share a pass. `draws_from_prompt`: first tokens may be drawn from it.
        `speculation`: None turns speculative decoding off.

        `price`: see `Scheduler`. `scheduler`: one with the same limits and price. `share_tokens`: see `Sampler`.
        """
        self._model = model
        self._batched_prefill = batched_prefill
        self._draws_from_prompt = draws_from_prompt
        self.store = store
        self._uncached_store = store.copy_without_cache()
        self.speculation = speculation
        """What proposes tokens to verify; None: no speculative decoding."""
        self._rows = Rows(model, batch, store, share_tokens)
        if speculation:
            self._rows = SpeculatingRows(model, batch, store, speculation, lambda: self._scheduler.room)
        self._batch = batch
        self._traced_prefill = TracedPasses(_PREFILLS_BEFORE_TRACE) if batch.traced else None
        self._scheduler = scheduler or Scheduler(limits, price)
        self._lap = PrefillLap(price) if price else None
        self._price = price
        self._memory = MemoryGiver(store, speculation)
        self._footprint = footprint
        self._sizes = JobSizes(footprint, limits, in_pieces=store.in_pieces, batched_prefill=batched_prefill)
        self._work: dict[str, Work] = {}
        self._failures: list[JobFailure] = []
        self._starts: list[JobStart] = []
        self._complete: list[str] = []  # the jobs of which the last step has read a prompt's last tokens
        self._scores: list[tuple[Work, Logprobs]] = []  # launched, not read yet
        self._hidden_states: list[tuple[Work, mx.array]] = []  # launched, not read yet
        self._results = Results(lambda work: self._work.get(work.job.id) is work, self._end)
        self._errors_come_late = has_late_errors()
        self._shortage = Shortage()
        self._reported_jobs: tuple[int, list[str]] = (0, [])  # the jobs that the last step reported

    @property
    def batch_mode(self) -> BatchMode:
        """Which rows share a forward pass."""
        return self._batch.mode

    @property
    def is_idle(self) -> bool:
        """Whether a step would have nothing to do and nothing to report."""
        reported = self._reported_jobs == self._jobs
        return (
            self._scheduler.is_idle
            and self._rows.is_idle
            and not (self._failures or self._hidden_states or self._results.pending)
            and reported
        )

    @property
    def _jobs(self) -> tuple[int, list[str]]:
        return self._scheduler.running + self._scheduler.waiting, self._scheduler.starved_ids

    def add(self, job: Job) -> None:
        """Queue a job. If all memory that there may be holds less than `max_tokens`, answers get fewer."""
        ticket = self._sizes.make_ticket(job)
        work = self._work[job.id] = Work(job, ticket)
        ticket.max_tokens = self._sizes.max_tokens(work)
        work.job = replace(job, max_tokens=ticket.max_tokens)
        if refusal := self._scheduler.add(ticket):
            self._refuse(refusal)

    def limit_memory(self, shares: Shares) -> None:
        """Limit rows and cached prompts to these shares, from the next step on.

        Jobs that don't fit for now are preempted and wait; jobs that can never fit are rejected.
        """
        self._survive(lambda: self._memory.limit(shares, self._scheduler.used_bytes))
        if shares.rows != self._sizes.max_request_bytes:
            self._sizes.max_request_bytes = shares.rows
            for work in self._work.values():
                self._limit_tokens(work)
        for refusal in self._scheduler.limit_memory(shares.rows_now, shares.rows):
            self._refuse(refusal)

    def reserve(self, nbytes: int) -> None:
        """Keep this much memory for work beside the jobs: see `Scheduler.reserve`."""
        self._scheduler.reserve(nbytes)

    def adopt(self, found: Calibration, limits: Limits) -> None:
        """Use what was found out about the model, and its limits but those of memory and rows, from the next step on.

        If rows share passes in another way than before, jobs that have begun keep the passes that their tokens came
        from: each row its own.
        """
        if found.batch_mode is not self._batch.mode:
            for work in self._work.values():
                work.isolate()
        self._batch.mode, self._batch.verify_mode = found.batch_mode, found.verify_mode or VerifyMode.NEVER
        self._batched_prefill = self._sizes.batched_prefill = found.batched_prefill
        self._sizes.step_work = limits.work
        if self._price and found.tokens_per_second:
            self._price.begin(found.tokens_per_second)
        self._scheduler.adopt(limits)

    def work_beside(self, work: Callable[[], bool]) -> bool:
        """Do work between two steps that may run out of memory, as a step may; return its result, False if it did.

        If the steps before have run out of memory, or the jobs leave less than is reserved, do nothing and return True:
        the work is still to be done.
        """
        if self._scheduler.running and self._scheduler.spare_bytes < self._scheduler.reserved_bytes:
            return True

        def confirm() -> bool:
            self._confirm()  # what the work measures must not include the steps before
            return True

        self._rows.disturb()
        if self._lap:
            self._lap.disturb()
        return not self._survive(confirm) or bool(self._survive(work))

    @property
    def planned_bytes(self) -> int:
        """The bytes that rows, cached prompts, the last step and work beside it were planned to take at most."""
        return self._scheduler.planned_bytes + self.store.nbytes + self._scheduler.reserved_bytes

    @property
    def use(self) -> Use:
        """What rows and cached prompts take, and what starved jobs need."""
        return Use(self._scheduler.used_bytes, self.store.nbytes, self._scheduler.wanted_bytes)

    @property
    def read_tokens_by_job(self) -> dict[str, int]:
        """How many tokens of their prompts the jobs in prefill have read, by id."""
        return {id_: work.prefills[0][0].tokens_read for id_, work in self._work.items() if work.prefills}

    def _limit_tokens(self, work: Work) -> None:
        """Recompute a job's token limit from the memory, but leave room for every launched token and one more."""
        rows = [row for row in work.rows if not row.ended]
        generated = [row.launched_tokens for row in rows] + [len(answer) for answer in work.answers if answer]
        most = max(self._sizes.max_tokens(work), max(generated, default=0) + 1)
        most = min(most, work.requested_tokens)
        work.job = replace(work.job, max_tokens=most)
        for row in rows:
            row.job = work.job
        self._scheduler.limit_tokens(work.job.id, most)

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

    def fetch(self, job: Job, on_done: Callable[[], None]) -> bool:
        """Begin to read a job's cached prompt from disk: see `KVStore.fetch`."""
        return bool(self._survive(lambda: self.store.fetch(job.prompt, on_done, job.spans, job.cache_scope)))

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
        begun, self._starts = self._starts, []
        broken, self._failures = self._failures, []
        self._reported_jobs = self._jobs
        drawn, scored, hidden = self._results.take()
        jobs = self._scheduler.running, self._scheduler.waiting
        return EngineStep(begun, drawn, broken, *jobs, scored, hidden, self._scheduler.starved_ids)

    def _step(self) -> None:
        self.store.settle(self._rows.read_draws, self._rows.launched_draws + 2)  # a step launches one draw
        self._rows.save_prompts()
        complete, self._complete = self._complete, []
        for job_id in complete:
            self._guard(job_id, self._start_rows)
        plan = self._scheduler.plan()
        for refusal in plan.too_large:
            self._refuse(refusal)
        if plan.preempt or plan.pause or plan.displace:
            self._release_memory(plan)
        if self._memory.is_short:
            self._memory.make_room(self._scheduler.used_bytes)
        for job_id in plan.begin:
            self._guard(job_id, self._begin)
        self.store.end_admission()
        prefill = self._scheduler.plan_prefill()
        self._decode()
        launched, self._hidden_states = self._hidden_states, []
        self._prefill(prefill)
        for work, vector in launched:
            self._results.hold(self._rows.launched_draws + 1, work, HiddenState(work.job.id, np.array(vector)))
        if prefill:
            self._rows.disturb()
            # The device is busy with the prompts, so waiting for the newest tokens costs nothing.
            self._hold_tokens(self._rows.read())
        if self._rows.is_idle and (launched or self._scheduler.is_idle):
            self._confirm()
        self._results.release(self._rows.read_draws if self._errors_come_late else None)
        if self._lap:
            self._lap.end(self._rows.read_draws)
        if self._shortage.note_calm_step():
            self._scheduler.limit_running(self._shortage.max_running)

    def _hold_tokens(self, tokens: list[DrawnToken]) -> None:
        """Hold tokens that were just read, until a token that was launched after them could be read."""
        for one in tokens:
            if work := self._work.get(one.job):
                work.job.stopwatch.stop("decode")
                self._results.hold(self._rows.read_draws + 1, work, one)

    def _confirm(self) -> None:
        """Wait for the device; if it reports no error, release all results."""
        raise_late_errors()
        self.store.confirm()
        self.store.settle(self._rows.read_draws, self._rows.launched_draws + 2)
        self._results.release()

    def _survive(self, act: Callable[[], T]) -> T | None:
        """Return what `act` returns; None if it ran out of memory: then all jobs go on from their released results."""
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
        """Give up memory and all unreleased results, and queue all jobs that ran; fail a job that failed too often."""
        running, ids = self._scheduler.running, self._scheduler.preempt_all()
        works = [self._work[job_id] for job_id in ids]
        alone = works[0] if running == len(works) == 1 else None
        self._shortage.note_failure(
            running, LoneJob(alone.job.id, sum(alone.released_tokens) + alone.released_scores) if alone else None
        )
        self._results.drop_pending()
        self._complete, self._scores, self._hidden_states = [], [], []
        self._rows.drop_all()
        self._model.drop_all()
        self.store.retract()
        if self._shortage.takes_prompts:
            self.store.drop_all()
        for work in works:
            self._requeue(work, work.go_back())
        for work in self._work.values():
            work.scored_tokens = work.released_scores  # also those of jobs that were stopped a moment ago are dropped
        self._scheduler.limit_running(self._shortage.max_running)
        if alone and self._shortage.is_hopeless:
            refusal = insufficient_memory()
            self._drop_failed_job(JobFailure(alone.job.id, refusal.message, refusal=refusal))

    def _begin(self, work: Work) -> None:
        """Look the prompt up in the prefix cache and prepare the prefill of the rest."""
        work.job.stopwatch.lap("queue")
        store = self._uncached_store if work.job.wants_hidden_state else self.store
        work.begin(store, self._model.vocab_size, draws_from_prompt=self._draws_from_prompt)
        work.job.stopwatch.lap("lookup")
        if not work.has_begun:
            work.has_begun = True
            prefill, _ = work.prefills[0]
            self._starts.append(JobStart(work.job.id, prefill.cached_tokens, prefill.miss))
        self._start_rows(work)
        self._set_prompt_tokens(work)

    def _prefill(self, due: list[tuple[str, int]]) -> None:
        """Prefill each (job id, tokens) of `due`; similar prompts share a pass."""
        alike: dict[object, list[tuple[Work, int]]] = {}
        encoding = False
        for job_id, tokens in due:
            if work := self._work.get(job_id):
                encodes = bool(work.prefills) and work.prefills[0][0].encodes_next and not self._rows.is_idle
                if encodes and self._lap:
                    self._lap.disturb()
                # While rows decode, a step encodes the media of one prompt only; the others wait for later steps.
                budget = 0 if encodes and encoding else tokens
                encoding = encoding or encodes
                alike.setdefault(self._batch_key(work), []).append((work, budget))
        # Copies may take what the step leaves.
        most_places = self._scheduler.spare_bytes // max(self._footprint.per_token, 1)
        for pieces in alike.values():
            sizes = [(work.prefills[0][0].tokens_read, tokens) for work, tokens in pieces if work.prefills]
            for indices in group_by_length(sizes, most_places) if len(pieces) > 1 else [[0]]:
                self._prefill_group([pieces[index] for index in indices])

    def _batch_key(self, work: Work) -> object:
        """Return a key that is equal for jobs whose prompts may share a pass; `work` itself if it can't share one."""
        key = work.prefills[0][0].batch_key if work.prefills and self._batched_prefill and not work.isolated else None
        return key or work

    def _prefill_group(self, pieces: list[tuple[Work, int]]) -> None:
        """Prefill these prompts in one pass. If it raises, prefill each alone, since any of them may be the cause."""
        if self._batch_key(pieces[0][0]) is not pieces[0][0]:
            try:
                due = [(work.prefills[0][0], tokens) for work, tokens in pieces]
                read_batch(self._model, due, self._traced_prefill)
            except Exception as error:
                self._check_error(error)
                log.warning("reading %d prompts in one pass failed; each is read alone", len(pieces), exc_info=error)
                for work, _ in pieces:
                    work.isolated = True
        for work, tokens in pieces:
            self._guard(work.job.id, partial(self._read_prompt, budget=tokens))

    def _read_prompt(self, work: Work, budget: int) -> None:
        """Prefill up to `budget` tokens. If that completes the prompt, the next step begins with `_start_rows`.

        To save a prompt may take until its last chunk is computed, and the tokens of other rows must not wait for that.
        """
        if not work.prefills:
            return
        prefill, _ = work.prefills[0]
        read = prefill.advance(self._model, budget)
        if self._lap:
            self._lap.note(read, prefill.tokens_read - read)
        if prefill.scoring:
            work.scored_tokens = max(work.scored_tokens, prefill.tokens_read)
            self._scores += [(work, piece) for piece in prefill.scoring.take()]
        if not prefill.tokens_left:
            self._complete.append(work.job.id)
        self._set_prompt_tokens(work)

    def _start_rows(self, work: Work) -> None:
        """Save the prompts of a job that are complete; their rows decode from the current step on."""
        while work.prefills and not work.prefills[0][0].tokens_left:
            prefill, choices = work.prefills.pop(0)
            if prefill.logits is None:  # otherwise its rows save it once they have drawn their first token
                prefill.save()
            work.job.stopwatch.lap("prefill")
            if prefill.hidden_state is None:
                for row in work.start_rows(prefill, choices):
                    self._rows.join(row)
            else:
                self._hidden_states.append((work, prefill.hidden_state))

    def _set_prompt_tokens(self, work: Work) -> None:
        self._scheduler.set_prompt_tokens(work.job.id, sum(prefill.tokens_left for prefill, _ in work.prefills))

    def _decode(self) -> None:
        drawn, failed = self._rows.step()
        # The device is busy with this step's passes while scores are read. They come before all tokens.
        scores, self._scores = self._scores, []
        for scored_work, piece in scores:
            self._results.hold(
                self._rows.launched_draws + 1, scored_work, PromptScores(scored_work.job.id, piece.read())
            )
        self._hold_tokens(drawn)
        if self._errors_come_late and self._results.pending and not self._rows.has_unread_draws:
            self._confirm()
        for job_id in {one.job for one in drawn if one.verified}:
            self._advance(job_id)
        for rows, error in failed:
            self._check_error(error)
            jobs = {row.job.id for row in rows}
            if len(jobs) == 1 and not isinstance(error, VerifyError):
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
            generated = (row.launched_tokens - work.admitted_with[row.choice] for row in work.rows if not row.ended)
            self._scheduler.note_generated(job_id, max(generated, default=0))

    def _release_memory(self, plan: StepPlan) -> None:
        """Preempt, pause and displace jobs as planned. They continue from the tokens that have been launched."""
        self._hold_tokens(self._rows.read())
        self._confirm()
        for job_id in [*plan.preempt, *plan.pause, *plan.displace]:
            if work := self._work.get(job_id):
                if job_id in plan.preempt:
                    held = [len(row.tokens) for row in work.rows] + [
                        prefill.tokens_read for prefill, _ in work.prefills
                    ]
                    self._memory.log_release("running requests", sum(map(self._footprint.bytes, held)))
                # A preemption means that memory is short, so its KV cache must not go into the prefix cache.
                self._stop(work, cacheable=job_id not in plan.preempt)

    def _stop(self, work: Work, cacheable: bool) -> None:
        self._requeue(work, work.free_rows(self._rows, cacheable))

    def _requeue(self, work: Work, generated: int) -> None:
        """Queue a job whose rows are free; `generated`: the most tokens that a row generated since its admission."""
        left = sum(len(work.job.prompt) + len(answer) - 1 for answer in work.answers if answer is not None)
        work.admitted_with = [len(answer or []) for answer in work.answers]
        if refusal := self._scheduler.requeue(work.job.id, left, generated):
            self._refuse(refusal)

    def _end(self, work: Work, choice: int) -> None:
        """Note that one choice has ended."""
        if work.answers[choice] is None:
            return
        work.answers[choice] = None
        self._scheduler.end_row(work.job.id)
        if all(answer is None for answer in work.answers):
            self._work.pop(work.job.id, None)

    def _forget(self, job_id: str) -> None:
        self._scheduler.cancel(job_id)
        self._work.pop(job_id, None)

    def _refuse(self, refusal: TooLargeRequest) -> None:
        media = self._work[refusal.id].job.media_bytes
        message = (
            f"this request needs {refusal.needed_bytes:,} bytes for its KV cache and for computing it"
            f"{f', with the encoding of its media ({media:,})' if media else ''}; "
            f"there are at most {refusal.memory_bytes:,} for all requests"
        )
        self._drop_failed_job(JobFailure(refusal.id, message, too_large=True))

    def _fail(self, job_id: str, error: Exception) -> None:
        log.error("request %s failed in the engine", job_id, exc_info=error)
        known = isinstance(error, GrammarError)
        refusal = error if isinstance(error, OrchardError) else None
        if refusal and job_id in self._work:  # raised before a pass, so the cache is in a known state
            self._work[job_id].save_prefill()
        told = known or refusal is not None
        message = str(error) if told else f"the model failed on this request: {type(error).__name__}: {error}"
        self._drop_failed_job(JobFailure(job_id, message, by_grammar=known, refusal=refusal))

    def _drop_failed_job(self, failure: JobFailure) -> None:
        if not (work := self._work.get(failure.job)):
            return  # it has already failed: another of its rows did, in another pass
        for row in work.rows:
            row.cacheable = False
            self._rows.leave(row)
        self._forget(failure.job)
        self._failures.append(failure)

    def _guard(self, job_id: str, act: Callable[[Work], None]) -> None:
        """Do one job's part of a step. If it raises, only that job fails."""
        if work := self._work.get(job_id):
            try:
                act(work)
            except Exception as error:
                self._check_error(error)
                self._fail(job_id, error)

    def _check_error(self, error: Exception) -> None:
        """Raise the error if memory ran out. If not, raise the error of earlier work, if any: it may be the cause."""
        if is_out_of_memory(error):
            raise error
        self._confirm()
