"""Products on a CPU for which MLX has no library: its own are twenty times slower than numpy's (2 GFLOP/s a machine).

On a Mac, MLX's products on the CPU are Accelerate's.
"""

import sys

import mlx.core as mx
import numpy as np
from mlx import nn


def is_slow() -> bool:
    """Return whether MLX runs on such a CPU."""
    return sys.platform != "darwin" and mx.default_device() == mx.cpu


def adapt(network: nn.Module) -> None:
    """Let numpy compute the products of a network's float32 layers, where it runs on such a CPU."""
    if not is_slow():
        return
    for _, module in network.named_modules():
        if type(module) is nn.Linear and module.weight.dtype == mx.float32:
            module.__class__ = _NumpyLinear


class _NumpyLinear(nn.Linear):  # type: ignore[misc]
    def __call__(self, inputs: mx.array) -> mx.array:
        if inputs.dtype != mx.float32:
            return super().__call__(inputs)  # type: ignore[no-any-return]
        rows = np.asarray(inputs).reshape(-1, inputs.shape[-1])
        found = rows @ np.asarray(self.weight).T
        if "bias" in self:
            found += np.asarray(self.bias)
        return mx.array(found).reshape(*inputs.shape[:-1], -1)
