"""What MLX computes on."""

import mlx.core as mx


def on_cuda() -> bool:
    """Return whether MLX computes on an NVIDIA GPU."""
    return bool(mx.default_device() == mx.gpu and mx.cuda.is_available())
