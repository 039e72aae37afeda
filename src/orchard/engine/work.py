"""Jobs that have not ended, and their results."""

import copy
from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from orchard.engine.batching.batch import BatchSlot
from orchard.engine.batching.decode import Row, Rows
from orchard.engine.batching.job import DrawnToken, HiddenState, Job, PromptScores
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.prefill import Prefill
from orchard.engine.sampling.logprobs import Scoring
from orchard.engine.ticket import Ticket

Result = DrawnToken | PromptScores | HiddenState


class Work:
    """A job that has not ended: its prefills, then its rows.

    `requested_tokens`: the token limit of the request; `job.max_tokens` is lower if the memory doesn't suffice for it.
    `answers[i]`: the tokens of choice i when its row was last freed (preemption, pause); None if the choice has ended.
    `admitted_with[i]`: how many tokens choice i had when the job was last queued: the scheduler knows of these.
    `scored_tokens`: how many prompt tokens have had the token after them scored, if the job wants prompt logprobs.
    `released_tokens[i]`, `released_scores`: how many tokens of choice i, and how many scores, have left the engine.
    """

    def __init__(self, job: Job, ticket: Ticket) -> None:
        self.job = job
        self.ticket = replace(ticket)  # as it was at the beginning
        self.prefills: list[tuple[Prefill, list[int]]] = []  # each with the choices that start from it
        self.rows: list[Row] = []
        self.answers: list[list[int] | None] = [[] for _ in range(job.choices)]
        self.admitted_with = [0] * job.choices
        self.isolated = False
        self.has_begun = False
        self.requested_tokens = job.max_tokens
        self.scored_tokens = 0
        self.released_tokens = [0] * job.choices
        self.released_scores = 0

    def isolate(self) -> None:
        """Let the job's rows share no pass with others from now on, if it has begun."""
        self.isolated = self.isolated or self.has_begun
        for row in self.rows:
            row.slot.isolated = True

    def save_prefill(self) -> None:
        """Save the part of a prompt that has been read, so that a later request can continue from it."""
        if self.prefills:
            self.prefills[0][0].save()

    def begin(self, store: KVStore, vocab_size: int, *, draws_from_prompt: bool = False) -> None:
        """Look the prompt up in `store` and prepare the prefill of the rest, and of the answers so far.

        `draws_from_prompt`: the pass that reads the last token may give the logits of the first draw.
        """
        job = self.job
        begin = partial(
            Prefill,
            boundaries=job.boundaries,
            store=store,
            spans=job.spans,
            scope=job.cache_scope,
            embed=job.embed,
        )
        # A step with a grammar launches a pass before it waits for the masks; media have positions of their own.
        wants_logits = draws_from_prompt and not (job.grammar or job.embed)
        if any(self.answers):
            self.prefills = [
                (begin([*job.prompt, *answer], wants_logits=wants_logits), [choice])
                for choice, answer in enumerate(self.answers)
                if answer is not None
            ]
        else:
            count, left = job.prompt_logprobs, len(job.prompt) - 1 - self.scored_tokens
            scoring = Scoring(count, vocab_size) if count is not None and left else None
            prefill = begin(
                job.prompt,
                scoring=scoring,
                scored_tokens=self.scored_tokens,
                wants_hidden_state=job.wants_hidden_state,
                wants_logits=wants_logits and not (scoring or job.wants_hidden_state),
            )
            self.prefills = [(prefill, list(range(job.choices)))]

    def start_rows(self, prefill: Prefill, choices: list[int]) -> list[Row]:
        """Make a row for each choice. The copies of the cache share its buffers; MLX copies them at the first write."""
        rows: list[Row] = []
        for choice in choices:
            if (answer := self.answers[choice]) is None:
                continue
            cache = prefill.cache if choice == choices[-1] else copy.deepcopy(prefill.cache)
            tokens = [*self.job.prompt, *answer]
            length = len(tokens) - (prefill.logits is None)
            slot = BatchSlot(cache, length, prefill.position_delta, isolated=self.isolated)
            rows.append(Row(self.job, choice, tokens, slot, prefill.logits))
        self.rows += rows
        return rows

    def free_rows(self, rows: Rows, cacheable: bool = False) -> int:
        """Keep the tokens and free the rows; return the most tokens that a row generated since its admission.

        `cacheable`: the KV caches of its rows and of its prefill may go into the prefix cache.
        """
        generated = 0
        for row in self.rows:
            if self.answers[row.choice] is not None:
                generated = max(generated, len(row.answer_tokens) - self.admitted_with[row.choice])
                self.answers[row.choice] = row.answer_tokens
                row.cacheable = row.cacheable and cacheable
                rows.leave(row)
        if cacheable:
            self.save_prefill()
        self.rows, self.prefills = [], []
        return generated

    def go_back(self) -> int:
        """Forget the tokens that have not left the engine; return the most that a row has left since its admission."""
        for row in self.rows:
            if self.answers[row.choice] is not None:
                self.answers[row.choice] = row.answer_tokens
        self.rows, self.prefills = [], []
        most = 0
        for choice, answer in enumerate(self.answers):
            if answer is not None:
                del answer[self.released_tokens[choice] :]
                most = max(most, len(answer) - self.admitted_with[choice])
        return most


class Results:
    """Results on their way out of the engine. They are released in order, once any error of their work has surfaced.

    That is so when as many draws have been read as a result's mark says. The device computes in the order of launches,
    so a later draw that could be read was computed after the result.
    """

    def __init__(self, is_live: Callable[[Work], bool], end: Callable[[Work, int], None]) -> None:
        """`is_live` returns whether a job has neither ended nor left. `end` is called after a choice's last result."""
        self._is_live = is_live
        self._end = end
        self.pending: deque[tuple[int, Work, Result]] = deque()
        """The results that are not released, with their marks and jobs."""
        self._released: list[Result] = []

    def hold(self, mark: int, work: Work, result: Result) -> None:
        """Add a result, with a mark."""
        self.pending.append((mark, work, result))

    def release(self, reached_mark: int | None = None) -> None:
        """Release the results before the first mark above `reached_mark`; None: all. Drop those of jobs that left."""
        while self.pending and (reached_mark is None or self.pending[0][0] <= reached_mark):
            _, work, result = self.pending.popleft()
            if not self._is_live(work):
                continue
            if isinstance(result, PromptScores):
                work.released_scores += len(result.samples)
            elif isinstance(result, HiddenState):
                self._end(work, 0)
            elif work.answers[result.choice] is None:
                continue
            else:
                work.released_tokens[result.choice] += 1
                if result.reason:
                    self._end(work, result.choice)
            self._released.append(result)

    def drop_pending(self) -> None:
        """Forget the results that are not released."""
        self.pending.clear()

    def take(self) -> tuple[list[DrawnToken], list[PromptScores], list[HiddenState]]:
        """Return and forget what was released since the last call."""
        released, self._released = self._released, []
        drawn = [one for one in released if isinstance(one, DrawnToken)]
        scored = [one for one in released if isinstance(one, PromptScores)]
        return drawn, scored, [one for one in released if isinstance(one, HiddenState)]
