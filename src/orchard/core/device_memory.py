"""What a worker knows of memory: of its device, and of other ranks that have a part of its model."""

from msgspec import Struct


class DeviceMemory(Struct, frozen=True):
    """Memory in bytes.

    `free_bytes` and `total_bytes`: of the device's own memory, which other programs use too; 0 if it has none. In this
    process, MLX holds arrays (`active_bytes`) and buffers for later arrays (`cache_bytes`). `peak_bytes`: the most that
    arrays have taken since MLX last began to count.
    """

    free_bytes: int = 0
    total_bytes: int = 0
    active_bytes: int = 0
    cache_bytes: int = 0
    peak_bytes: int = 0


class RankReport(Struct, frozen=True):
    """`host`: what the hostfile calls its host. `loaded`: how much of its part is in memory, from 0 to 1.

    `mlx_bytes`: what MLX holds there; `free_bytes`: what is free there. `shares_memory`: with rank 0.
    """

    rank: int
    host: str
    loaded: float
    mlx_bytes: int
    free_bytes: int
    shares_memory: bool

    @property
    def shared_bytes(self) -> int:
        """What MLX holds there of the memory that rank 0 has, too."""
        return self.mlx_bytes if self.shares_memory else 0
