"""The ranks of a model, as each of them sees them: collective operations, and channels from rank 0 to the others."""

from collections.abc import Sequence
from typing import Any, TypeVar

import mlx.core as mx
from msgspec import msgpack

from orchard.engine.batching.model import LanguageModel
from orchard.engine.ranks.channel import Channel
from orchard.engine.ranks.orders import Order, Stop

T = TypeVar("T")
_orders: msgpack.Decoder[Order | Stop] = msgpack.Decoder(Order | Stop)


class RankGroup:
    """The ranks of one model. Only the engine's thread may use it."""

    def __init__(
        self, group: mx.distributed.Group, channels: Sequence[Channel], free_bytes: Sequence[int] | None = None
    ) -> None:
        """`channels`: from rank 0 to each other rank, or from another rank to rank 0. `free_bytes`: what
        each rank of a pipeline may take; None: each rank has a part of every layer."""
        self._free_bytes = free_bytes
        self.group = group
        """For mlx-lm, which splits the model."""
        self.rank = group.rank()
        self.row_bytes = 0
        """What a row of some length takes on this rank, once that is known: its ratio to that of other ranks counts."""
        self._channels = channels

    @property
    def is_pipeline(self) -> bool:
        """Whether each rank has some of the layers."""
        return self._free_bytes is not None

    @property
    def is_leader(self) -> bool:
        """Whether this is rank 0, which decides."""
        return self.rank == 0

    def split_layers(self, layers: int, kept_bytes: int) -> list[int]:
        """Return how many layers of a pipeline each rank has, as its memory is: at least one.

        `kept_bytes`: what each rank holds besides layers.
        """
        assert self._free_bytes, "it is a pipeline"
        room = [max(free - kept_bytes, 1) for free in self._free_bytes]
        exact = [layers * one / sum(room) for one in room]
        split = [max(1, int(one)) for one in exact]
        while (missing := layers - sum(split)) > 0:
            split[max(range(len(split)), key=lambda rank: exact[rank] - split[rank])] += 1
        for _ in range(-missing):
            split[
                max((rank for rank, own in enumerate(split) if own > 1), key=lambda rank: split[rank] - exact[rank])
            ] -= 1
        return split

    def share(self, array: mx.array) -> mx.array:
        """Return rank 0's array on all ranks; lazy. All ranks must compute it, since that may involve all of them."""
        own = mx.where(mx.array(self.is_leader), array, mx.zeros_like(array))
        return mx.distributed.all_sum(own, group=self.group)

    def agree(self, value: T, kind: Any) -> T:
        """Return rank 0's value on all ranks. `kind`: its type."""
        if self.is_leader:
            self.send(value)
            return value
        agreed: T = msgpack.decode(self._channels[0].receive(), type=kind)
        return agreed

    def find_extremes(self, number: int) -> list[mx.array]:
        """Return the greatest and the least of all ranks' numbers; lazy."""
        own = mx.array([number], mx.int32)
        return [reduce(own, group=self.group) for reduce in (mx.distributed.all_max, mx.distributed.all_min)]

    def find_least(self, number: float) -> mx.array:
        """Return the least of all ranks' numbers, as a float32; lazy."""
        return mx.distributed.all_min(mx.array([number], mx.float32), group=self.group)

    def send(self, message: Any) -> None:
        """Send a message from rank 0 to all other ranks."""
        for channel in self._channels:
            channel.send(message)

    def has_order(self, seconds: float) -> bool:
        """Wait for at most so many seconds for an order of rank 0, or its end; return whether there is one."""
        return self._channels[0].is_readable(seconds)

    def next_order(self) -> Order | Stop:
        """Return rank 0's next order. Raise EOFError if rank 0 has ended."""
        return _orders.decode(self._channels[0].receive())


class ModelOfRankZero:
    """A model whose logits are those of rank 0 on all ranks, so that all find out the same about it."""

    def __init__(self, model: LanguageModel, group: RankGroup) -> None:
        self._model = model
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        """See `LanguageModel`."""
        return self._group.share(self._model.forward(tokens, cache, **given))
