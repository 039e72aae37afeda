"""Samples as bytes on the mu-law curve, which takes half of the space of 16 bits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_level(sound: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return samples from -1 to 1 of bytes on the mu-law curve, as those in tests/demo/clips."""
    levels = np.arange(256) / 255 * 2 - 1
    curve = (np.sign(levels) * np.expm1(np.abs(levels) * np.log1p(255)) / 255).astype(np.float32)
    samples: NDArray[np.float32] = curve[sound]
    return samples


def write_level(samples: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Return the bytes of samples."""
    curve = np.sign(samples) * np.log1p(255 * np.abs(samples)) / np.log1p(255)
    levels: NDArray[np.uint8] = ((curve.clip(-1, 1) + 1) / 2 * 255).round().astype(np.uint8)
    return levels
