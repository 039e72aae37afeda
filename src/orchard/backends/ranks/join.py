"""How a process becomes a rank: through `mx.distributed`, with the variables and the file of MLX's own launcher."""

import json
import os
import tempfile
from collections.abc import Sequence

import mlx.core as mx
from msgspec import Struct

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.ranks.group import Channel, RankGroup


class RankStart(Struct, frozen=True, array_like=True):
    """Rank 0 to another rank, the first message: who the ranks are, and the model to load.

    `addresses`: where each rank listens, as in MLX's file for the ring.
    """

    rank: int
    addresses: list[list[str]]
    path: str
    options: TextOptions


class RankLoaded(Struct, frozen=True, array_like=True, tag="loaded"):
    """Another rank to rank 0: its part of the model is in memory."""


class RankFailed(Struct, frozen=True, array_like=True, tag="failed"):
    """Another rank to rank 0, the last message: it can't go on. `in_load`: it could not load its shard."""

    message: str
    in_load: bool = False


class RankEnded(Struct, frozen=True, array_like=True, tag="ended"):
    """Another rank to rank 0, the last message: it ends as it was told."""


FromRank = RankLoaded | RankFailed | RankEnded


def join_group(start: RankStart, channels: Sequence[Channel]) -> RankGroup:
    """Connect to the other ranks, and wait for them. Raise RuntimeError if they can't be reached."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(start.addresses, file)
        file.flush()
        variables = {"MLX_RANK": str(start.rank), "MLX_HOSTFILE": file.name}
        os.environ.update(variables)
        try:
            group = mx.distributed.init(strict=True, backend="ring")
        finally:
            for name in variables:
                del os.environ[name]
    return RankGroup(group, channels, is_pipeline=start.options.parallel == "pipeline")
