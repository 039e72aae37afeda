"""What rank 0 and another rank say to each other besides orders. It crosses hosts."""

from msgspec import Struct

from orchard.cluster.host_facts import HostFacts
from orchard.cluster.hostfile import DistributedBackend
from orchard.core.tasks.text_options import TextOptions


class RankQuestion(Struct, frozen=True, array_like=True):
    """Rank 0 to another rank, the first message: what is there? The answer is `RankHost`, or `RankFailed`.

    `path`: the model's folder there. `ips`: the addresses on which the rank is to listen.
    """

    path: str
    ips: tuple[str, ...]


class RankConnection(Struct, frozen=True, array_like=True):
    """How MLX connects the ranks.

    `addresses`: where each rank listens, as in MLX's file for the ring; NCCL and JACCL use the first of rank 0. `rdma`:
    the devices of each rank for each rank, for JACCL.
    """

    backend: DistributedBackend
    addresses: list[list[str]]
    rdma: list[list[str | list[str] | None]]


class RankStart(Struct, frozen=True, array_like=True):
    """Rank 0 to another rank, the second message: load the model.

    `free_bytes`: what each rank of a pipeline may take; None: it is none.
    """

    rank: int
    connection: RankConnection
    path: str
    options: TextOptions
    free_bytes: list[int] | None


class RankHost(Struct, frozen=True, array_like=True, tag="host"):
    """Another rank to rank 0: what is there. `addresses`: ports that are free. Sizes are in bytes.

    `usable_bytes`: what its device offers to models; `free_bytes`: what is free of it now.
    """

    facts: HostFacts
    addresses: list[str]
    usable_bytes: int
    free_bytes: int


class RankProgress(Struct, frozen=True, array_like=True, tag="progress"):
    """Another rank to rank 0: how much of its part is in memory, from 0 to 1."""

    fraction: float


class RankLoaded(Struct, frozen=True, array_like=True, tag="loaded"):
    """Another rank to rank 0: its part of the model is in memory."""


class RankMemory(Struct, frozen=True, array_like=True, tag="memory"):
    """Another rank to rank 0, when it has changed: bytes of memory on its host.

    `mlx_bytes`: what MLX holds in the rank; `free_bytes`: what is free; `allowed_bytes`: what the rank may take now.
    """

    mlx_bytes: int
    free_bytes: int
    allowed_bytes: int


class RankReady(Struct, frozen=True, array_like=True, tag="ready"):
    """Another rank to rank 0: the bytes of its weights, and of a row there."""

    weights_bytes: int
    row_bytes: int


class RankFailed(Struct, frozen=True, array_like=True, tag="failed"):
    """Another rank to rank 0, the last message: it can't go on. `in_load`: it could not load its shard."""

    message: str
    in_load: bool = False


class RankEnded(Struct, frozen=True, array_like=True, tag="ended"):
    """Another rank to rank 0, the last message: it ends as it was told."""


FromRank = RankHost | RankProgress | RankLoaded | RankMemory | RankReady | RankFailed | RankEnded
