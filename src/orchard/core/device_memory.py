"""What a worker knows of its device's memory."""

from msgspec import Struct


class DeviceMemory(Struct, frozen=True):
    """Memory in bytes.

    `free_bytes` and `total_bytes`: of a device with its own memory, which other programs use too; 0 on others. What MLX
    holds in this process: arrays (`active_bytes`), buffers that it keeps for later ones (`cache_bytes`), and the most
    that arrays have taken since MLX last began to count (`peak_bytes`).
    """

    free_bytes: int = 0
    total_bytes: int = 0
    active_bytes: int = 0
    cache_bytes: int = 0
    peak_bytes: int = 0
