"""Rank 0's runner and another rank's in one process: both have the whole model, so there is nothing to add up."""

from collections import deque
from typing import Any

import mlx.core as mx
import msgspec

from orchard.backends.text.model import TextModel
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import Batch, BatchMode
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.memory import Shares
from orchard.engine.ranks.follower import FollowingRunner, FollowingScheduler
from orchard.engine.ranks.leader import LeadingRunner, LeadingScheduler
from orchard.engine.ranks.orders import Order, Stop
from orchard.engine.ticket import Limits
from tests.support.tiny_models import LOOSE, Other, footprint


class _RecordedModel(Other):
    """A TextModel that notes its passes; `sign` -1: each token that is drawn from its logits is another one."""

    def __init__(self, model: TextModel, sign: int) -> None:
        super().__init__(model, before=lambda tokens, _: self.passes.append(tuple(tokens.shape)))
        self.passes: list[tuple[int, ...]] = []
        self._sign = sign

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        return self._sign * super().forward(tokens, cache, **given)


class RankPair:
    """A leading and a following runner. It has a runner's methods; orders cross as bytes."""

    def __init__(
        self, model: TextModel, limits: Limits = LOOSE, cache_bytes: int = 0, *, errors_come_late: bool = False
    ) -> None:
        """`errors_come_late`: results are held back, as on Metal."""
        self._tokens: deque[mx.array] = deque()
        self.orders: deque[bytes] = deque()
        """What the follower has not done yet."""
        self.models = _RecordedModel(model, 1), _RecordedModel(model, -1)
        right, wrong = self.models
        options, size = TextOptions(), footprint(model, TextOptions())

        def share(tokens: mx.array) -> mx.array:
            self._tokens.append(tokens)
            return tokens

        self.leader = LeadingRunner(
            right,
            KVStore(right, options, cache_bytes),
            Batch(right, BatchMode.SHARED, short_length=16),
            limits,
            size,
            batched_prefill=True,
            scheduler=LeadingScheduler(limits, None, self._send),
            share_tokens=share,
        )
        self.follower = FollowingRunner(
            wrong,
            KVStore(wrong, options, cache_bytes),
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

    def follow(self) -> None:
        """Let the follower do what it has not done yet, and see that it has done the same as the leader."""
        while self.orders:
            self.follower.follow(msgspec.msgpack.decode(self.orders.popleft(), type=Order))
        leader, follower = (one.passes for one in self.models)
        assert leader == follower
        assert self.follower.store.nbytes == self.leader.store.nbytes
        self.is_idle = self.leader.is_idle

    def step(self) -> EngineStep:
        step = self.leader.step()
        self.follow()
        return step

    def add(self, job: Job) -> None:
        self.leader.add(job)
        self.is_idle = False

    def limit_memory(self, shares: Shares) -> None:
        self.leader.limit_memory(shares)
        self.follow()
