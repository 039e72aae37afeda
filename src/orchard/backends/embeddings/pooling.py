"""Pools the hidden states of a text's tokens into its vector."""

from collections.abc import Sequence

import mlx.core as mx
from mlx import nn

_LEAST_NORM = 1e-12  # as in torch


def pool(hidden: mx.array, mask: mx.array, modes: Sequence[str]) -> mx.array:
    """Return the vectors (rows, width · modes) of hidden states (rows, n, width), in float32.

    `mask` (rows, n) is 1 for a text's tokens, which come first, and 0 for padding.
    """
    hidden = hidden.astype(mx.float32)
    return mx.concatenate([_pool_by_mode(hidden, mask, way) for way in modes], axis=-1)


def _pool_by_mode(hidden: mx.array, mask: mx.array, mode: str) -> mx.array:
    lengths = mask.sum(axis=1, keepdims=True)
    counted = mask[..., None].astype(mx.float32)
    match mode:
        case "cls":
            return hidden[:, 0]
        case "lasttoken":
            return mx.take_along_axis(hidden, (lengths - 1)[..., None], axis=1)[:, 0]
        case "max":
            return mx.max(mx.where(counted > 0, hidden, -mx.inf), axis=1)
        case "mean":
            return (hidden * counted).sum(axis=1) / lengths
        case "mean_sqrt_len_tokens":
            return (hidden * counted).sum(axis=1) / mx.sqrt(lengths.astype(mx.float32))
        case "weightedmean":
            weights = counted * mx.arange(1, hidden.shape[1] + 1, dtype=mx.float32)[None, :, None]
            return (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    raise ValueError(f"the pooling {mode} is not known")


def activate(values: mx.array, activation: str) -> mx.array:
    """Apply an activation function by its name in torch."""
    match activation:
        case "Identity":
            return values
        case "Tanh":
            return mx.tanh(values)
        case "ReLU":
            return mx.maximum(values, 0)
        case "GELU":
            found: mx.array = nn.gelu(values)
            return found
        case "Sigmoid":
            return mx.sigmoid(values)
    raise ValueError(f"the activation function {activation} is not known")


def normalize(vectors: mx.array) -> mx.array:
    """Return vectors (rows, width) normalised to length 1; zero vectors stay zero."""
    return vectors / mx.maximum(mx.linalg.norm(vectors, axis=-1, keepdims=True), _LEAST_NORM)
