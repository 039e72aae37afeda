"""Products on a CPU for which MLX has no library: its own are twenty times slower than numpy's (2 GFLOP/s a machine).

On a Mac, MLX's products on the CPU are Accelerate's.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, cast

import mlx.core as mx
import numpy as np
from mlx import nn
from threadpoolctl import ThreadpoolController

FEWEST_ROWS = 4
"""From how many rows on numpy multiplies in a model that writes: fewer gain little, and what MLX computes of a row
doesn't depend on the rows beside it."""
MANY_ROWS = 64
"""From how many rows on numpy multiplies in all its threads there."""


def is_slow() -> bool:
    """Return whether MLX runs on such a CPU."""
    return sys.platform != "darwin" and mx.default_device() == mx.cpu


def adapt(network: nn.Module, fewest_rows: int = 1) -> None:
    """Let numpy compute the products of a network's float32 layers with so many rows, where it runs on such a CPU."""
    if not is_slow():
        return
    for _, module in network.named_modules():
        if type(module) is nn.Linear and module.weight.dtype == mx.float32:
            module.__class__ = _NumpyLinear
            module.fewest_rows = fewest_rows


def widen(network: nn.Module) -> None:
    """Let a network with quantised layers compute in float32, where it runs on such a CPU.

    MLX's product of quantised weights there takes ten times as long with inputs of half the width.
    """
    if is_slow() and any("scales" in module for module in network.modules()):
        network.set_dtype(mx.float32)
        adapt(network, FEWEST_ROWS)


def threads_for(rows: int) -> AbstractContextManager[Any]:
    """Let numpy multiply fewer than `MANY_ROWS` rows in one thread, within this context.

    Its threads wait for each other in a loop: where other programs keep the cores busy, a short product takes 20 times
    as long with several.
    """
    if rows >= MANY_ROWS:
        return nullcontext()
    return cast(AbstractContextManager[Any], _libraries().limit(limits=1, user_api="blas"))


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def product(inputs: mx.array, weights: mx.array) -> mx.array:
    """Multiply float32 inputs (..., width) by weights (outputs, width) with numpy."""
    rows = np.asarray(inputs).reshape(-1, inputs.shape[-1])
    return mx.array(rows @ np.asarray(weights).T).reshape(*inputs.shape[:-1], -1)


class _NumpyLinear(nn.Linear):  # type: ignore[misc]
    fewest_rows: int

    def __call__(self, inputs: mx.array) -> mx.array:
        rows = inputs.size // inputs.shape[-1]
        if inputs.dtype != mx.float32 or rows < self.fewest_rows:
            return super().__call__(inputs)  # type: ignore[no-any-return]
        with threads_for(rows) if self.fewest_rows > 1 else nullcontext():
            found = product(inputs, self.weight)
        return found + self.bias if "bias" in self else found
