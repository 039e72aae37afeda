"""What is known of one rank of a model that is split among several."""

from msgspec import Struct


class RankReport(Struct, frozen=True):
    """`host`: what the hostfile calls its host. `loaded`: how much of its part is in memory, from 0 to 1.

    `mlx_bytes`: what MLX holds there; `free_bytes`: what is free on its host. `is_local`: that is this machine.
    """

    rank: int
    host: str
    loaded: float
    mlx_bytes: int
    free_bytes: int
    is_local: bool

    @property
    def local_bytes(self) -> int:
        """What MLX holds there of this machine's memory."""
        return self.mlx_bytes if self.is_local else 0
