"""How a process becomes a rank: through `mx.distributed`, with the variables and the file of MLX's own launcher.

The variables are those that `mlx/_distributed_utils/launch.py` sets. JACCL has not been tried yet.
"""

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

from orchard.backends.ranks.messages import RankConnection, RankStart
from orchard.engine.ranks.channel import Channel
from orchard.engine.ranks.group import RankGroup


def join_group(start: RankStart, channels: Sequence[Channel]) -> RankGroup:
    """Connect to the other ranks, and wait for them. Raise RuntimeError if they can't be reached."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        variables, content = _launch_variables(start.rank, start.connection, file.name)
        json.dump(content, file)
        file.flush()
        os.environ.update(variables)
        try:
            group = mx.distributed.init(strict=True, backend=start.connection.backend)
        finally:
            for name in variables:
                del os.environ[name]
    return RankGroup(group, channels, start.free_bytes)


def _launch_variables(rank: int, connection: RankConnection, file: str) -> tuple[dict[str, str], Any]:
    """Return the variables of a rank, and what is to be in the file that one of them names."""
    own = {"MLX_RANK": str(rank)}
    first = connection.addresses[0][0]
    match connection.backend:
        case "ring":
            return own | {"MLX_HOSTFILE": file}, connection.addresses
        case "jaccl":
            return own | {"MLX_IBV_DEVICES": file, "MLX_JACCL_COORDINATOR": first}, connection.rdma
        case "nccl":
            host, _, port = first.rpartition(":")
            return own | {
                "MLX_WORLD_SIZE": str(len(connection.addresses)),
                "NCCL_HOST_IP": host,
                "NCCL_PORT": port,
            }, None


@contextlib.contextmanager
def hold_addresses(ips: Sequence[str]) -> Iterator[list[str]]:
    """Yield these addresses of this machine with free ports, which nobody else gets in this context.

    Leave it right before MLX binds them. Raise OSError if one isn't this machine's.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in ips]
        for one, ip in zip(sockets, ips, strict=True):
            one.bind((ip, 0))
        yield [f"{ip}:{one.getsockname()[1]}" for one, ip in zip(sockets, ips, strict=True)]
