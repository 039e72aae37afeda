"""Rank 0's runner and another rank's in one process: both have the whole model, so there is nothing to add up."""

import queue
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec

from orchard.backends.text.model import TextModel
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import Batch, BatchMode
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.memory import Shares
from orchard.engine.ranks.follower import FollowingRunner, FollowingScheduler
from orchard.engine.ranks.leader import LeadingRunner, LeadingScheduler
from orchard.engine.ranks.orders import Order, Stop
from orchard.engine.ranks.shared_store import SharedStore
from orchard.engine.ticket import Limits
from tests.support.tiny_models import LOOSE, Other, footprint

_PATIENCE = 60.0


class _RecordedModel(Other):
    """A TextModel that notes its passes; `sign` -1: each token that is drawn from its logits is another one."""

    def __init__(self, model: TextModel, sign: int) -> None:
        super().__init__(model, before=lambda tokens, _: self.passes.append(tuple(tokens.shape)))
        self.fingerprint += f" {sign}"
        self.passes: list[tuple[int, ...]] = []
        self._sign = sign

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        return self._sign * super().forward(tokens, cache, **given)


class RankPair:
    """A leading and a following runner. It has a runner's methods; orders cross as bytes."""

    def __init__(
        self,
        model: TextModel,
        limits: Limits = LOOSE,
        cache_bytes: int = 0,
        *,
        errors_come_late: bool = False,
        folders: Sequence[Path] = (),
    ) -> None:
        """`errors_come_late`: results are held back, as on Metal. `folders`: for the cached prompts of each."""
        self._tokens: deque[mx.array] = deque()
        self.orders: deque[bytes] = deque()
        """What the follower has not done yet."""
        self.models = _RecordedModel(model, 1), _RecordedModel(model, -1)
        right, wrong = self.models
        size = footprint(model, TextOptions())
        self._numbers: list[int] = []  # what each rank has said of itself
        self._read: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._reading: set[str] = set()

        def share(tokens: mx.array) -> mx.array:
            self._tokens.append(tokens)
            return tokens

        def make_store(
            of: _RecordedModel, find_extremes: Callable[[int], list[mx.array]], folder: Sequence[Path]
        ) -> SharedStore:
            options = TextOptions(prompt_cache_dir=str(folder[0]) if folder else None)
            store = SharedStore(of, options, cache_bytes, lambda: None, find_extremes)
            store.wait_for_files(_PATIENCE)
            return store

        self.leader = LeadingRunner(
            right,
            make_store(right, self._find_extremes_with_follower, folders[:1]),
            Batch(right, BatchMode.SHARED, short_length=16),
            limits,
            size,
            batched_prefill=True,
            scheduler=LeadingScheduler(limits, None, self._send),
            share_tokens=share,
        )
        self.follower = FollowingRunner(
            wrong,
            make_store(wrong, self._find_extremes, folders[1:]),
            Batch(wrong, BatchMode.SHARED, short_length=16),
            limits,
            size,
            batched_prefill=True,
            scheduler=FollowingScheduler(limits),
            share_tokens=lambda _: self._tokens.popleft(),
        )
        self.leader._errors_come_late = self.follower._errors_come_late = errors_come_late
        self.is_idle = True

    def _send(self, order: Order | Stop) -> None:
        self.orders.append(msgspec.msgpack.encode(order))

    def _find_extremes(self, number: int) -> list[mx.array]:
        self._numbers.append(number)
        return [mx.array([extreme(self._numbers)]) for extreme in (max, min)]

    def _find_extremes_with_follower(self, number: int) -> list[mx.array]:
        """As rank 0, which doesn't go on before the other one says its number, too."""
        self._numbers = [number]
        self._obey()
        assert len(self._numbers) == 2, "the follower does not take part"
        return [mx.array([extreme(self._numbers)]) for extreme in (max, min)]

    def _obey(self) -> None:
        while self.orders:
            match msgspec.msgpack.decode(self.orders.popleft(), type=Order | Stop):
                case Order() as order:
                    self.follower.follow(order)
                case stop:
                    self.follower.close(stop.save_seconds)

    def follow(self) -> None:
        """Let the follower do what it has not done yet, and see that it has done the same as the leader."""
        self._obey()
        leader, follower = (one.passes for one in self.models)
        assert leader == follower
        assert self.follower.store.nbytes == self.leader.store.nbytes
        self.is_idle = self.leader.is_idle and not self._reading

    def step(self) -> EngineStep:
        while not self._read.empty() or (self._reading and self.leader.is_idle):
            job = self._read.get(timeout=_PATIENCE)
            if job.id in self._reading:  # otherwise it was cancelled
                self._reading.remove(job.id)
                self.leader.add(job)
        step = self.leader.step()
        self.follow()
        return step

    def add(self, job: Job) -> None:
        """As the engine does."""
        self.is_idle = False
        self._reading.add(job.id)
        if not self.leader.fetch(job, lambda: self._read.put(job)):
            self._reading.remove(job.id)
            self.leader.add(job)

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """As the engine does."""
        if choice is None:
            self._reading.discard(job_id)
        self.leader.cancel(job_id, choice)

    def close(self) -> None:
        """Let both save their prompts, and end."""
        self.leader.close(_PATIENCE)
        self._obey()

    def limit_memory(self, shares: Shares) -> None:
        self.leader.limit_memory(shares)
        self.follow()
