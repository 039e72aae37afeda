"""The ranks of a model, as each of them sees them: collective operations, and channels from rank 0 to the others."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import mlx.core as mx
from msgspec import msgpack

from orchard.engine.batching.model import LanguageModel
from orchard.engine.ranks.orders import Order, Stop

T = TypeVar("T")
_HEADER_BYTES = 4
_orders: msgpack.Decoder[Order | Stop] = msgpack.Decoder(Order | Stop)


class Channel:
    """Messages to and from another process, over two file descriptors, which may be the same. It blocks."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def send(self, message: Any) -> None:
        """Send a message. Raise OSError if nobody can read it any more."""
        data = msgpack.encode(message)
        left = memoryview(len(data).to_bytes(_HEADER_BYTES, "big") + data)
        while left:
            left = left[os.write(self._outgoing, left) :]

    def receive(self) -> bytes:
        """Return the next message, encoded. Raise EOFError if there is none any more."""
        return self._read(int.from_bytes(self._read(_HEADER_BYTES), "big"))

    def close(self) -> None:
        """Let the other process read the end."""
        for descriptor in {self._incoming, self._outgoing}:
            with suppress(OSError):
                os.close(descriptor)

    def _read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = os.read(self._incoming, size)
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class RankGroup:
    """The ranks of one model. Only the engine's thread may use it."""

    def __init__(self, group: mx.distributed.Group, channels: Sequence[Channel], *, is_pipeline: bool) -> None:
        """`channels`: from rank 0 to each other rank, or from another rank to rank 0. `is_pipeline`: each rank has some
        of the layers, not a part of every layer."""
        self.is_pipeline = is_pipeline
        self.group = group
        """For mlx-lm, which splits the model."""
        self.rank = group.rank()
        self._channels = channels

    @property
    def is_leader(self) -> bool:
        """Whether this is rank 0, which decides."""
        return self.rank == 0

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

    def send(self, message: Any) -> None:
        """Send a message from rank 0 to all other ranks."""
        for channel in self._channels:
            channel.send(message)

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
