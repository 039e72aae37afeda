"""Lets numpy compute Whisper's attention on CPUs on which MLX's products are slow (see `backends.kernels.cpu`)."""

import mlx.core as mx
import numpy as np
from mlx_audio.stt.models.whisper.whisper import Model, MultiHeadAttention
from numpy.typing import NDArray

from orchard.backends.kernels import cpu


def adapt_whisper(model: Model) -> None:
    """Let numpy compute a float32 model's linear layers and attention if MLX's products are slow."""
    if not cpu.is_slow():
        return
    cpu.use_numpy(model)
    for _, module in model.named_modules():
        if type(module) is MultiHeadAttention:
            module.__class__ = _NumpyAttention


class _NumpyAttention(MultiHeadAttention):  # type: ignore[misc]
    def qkv_attention(
        self, q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        queries, keys, values = self._heads(q), self._heads(k), self._heads(v)
        scores = (queries * np.float32(queries.shape[-1] ** -0.5)) @ keys.swapaxes(-1, -2)
        if mask is not None:
            count = queries.shape[2]
            scores += np.asarray(mask)[:count, :count]
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        found = (weights @ values).transpose(0, 2, 1, 3)
        return mx.array(found.reshape(*q.shape)), mx.array(scores)

    def _heads(self, given: mx.array) -> NDArray[np.float32]:
        """Return (batch, heads, n, width) of (batch, n, heads * width)."""
        array: NDArray[np.float32] = np.asarray(given)
        return array.reshape(*array.shape[:2], self.n_head, -1).transpose(0, 2, 1, 3)
