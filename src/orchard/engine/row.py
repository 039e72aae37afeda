"""The two lives of a job in the engine: a prompt being read, then one row for each choice."""

import copy
from collections import deque
from typing import Any

import mlx.core as mx

from orchard.engine.job import Drawn, EndReason, Job
from orchard.engine.model import Model
from orchard.engine.sampler import Draw, Sampler


class Row:
    """One choice of a job, with a cache of its own: nothing it computes can depend on other rows."""

    def __init__(self, job: Job, choice: int, cache: list[Any], sampler: Sampler) -> None:
        """`cache` holds the whole prompt but its last token."""
        self.job = job
        self.choice = choice
        self._cache = cache
        self._sampler = sampler
        self._input = mx.array(job.prompt[-1:], mx.uint32)
        self._unread: deque[Draw] = deque()
        self._launched = 0
        self._read = 0

    def launch(self, model: Model) -> None:
        """Queue the computation of the next token, unless the job's limit has been reached."""
        if self._launched == self.job.max_tokens:
            return
        logits = model.forward(self._input[None], self._cache)[:, -1]
        draw = self._sampler.draw(logits)
        draw.launch()
        self._unread.append(draw)
        self._input = draw.token
        self._launched += 1

    def read(self, eos_token_ids: frozenset[int]) -> Drawn | None:
        """Give the oldest token not read yet; None while reading it would leave the device without work."""
        if len(self._unread) < 2 and self._launched < self.job.max_tokens:
            return None
        sample = self._unread.popleft().read()
        self._read += 1
        reason: EndReason | None = None
        if sample.token in eos_token_ids:
            reason = "stop"
        elif self._read == self.job.max_tokens:
            reason = "length"
        return Drawn(self.job.id, self.choice, sample, reason)


class Prefill:
    """A job whose prompt is being read, all of it but the last token, which is its rows' first input."""

    def __init__(self, job: Job, model: Model) -> None:
        self.job = job
        self._cache = model.new_cache()
        self._done = 0

    @property
    def finished(self) -> bool:
        """Whether `rows` may be called."""
        return self._done >= len(self.job.prompt) - 1

    def advance(self, model: Model, chunk: int) -> int:
        """Read the next piece of at most `chunk` tokens and wait for it; gives its length."""
        piece = self.job.prompt[self._done : min(self._done + chunk, len(self.job.prompt) - 1)]
        # Only the cache is evaluated, so that the logits of a prompt, which nobody reads, are never computed.
        model.forward(mx.array([piece], mx.uint32), self._cache)
        mx.eval([layer.state for layer in self._cache])
        self._done += len(piece)
        return len(piece)

    def rows(self, model: Model) -> list[Row]:
        """Give one row a choice. A forked cache shares its buffers; MLX copies them at the first write."""
        caches = [copy.deepcopy(self._cache) for _ in range(self.job.choices - 1)] + [self._cache]
        return [
            Row(self.job, choice, cache, Sampler(self.job.params, self.job.prompt, model.vocab_size, choice))
            for choice, cache in enumerate(caches)
        ]
