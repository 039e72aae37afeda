"""What a worker knows of its device's memory."""

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
