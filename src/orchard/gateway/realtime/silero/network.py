"""Silero's network at 16 kHz: how likely each 32 ms of a sound are speech."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Samples = NDArray[np.floating[Any]]

RATE = 16_000
WINDOW = 512
"""The samples of a window."""

_CONTEXT, _PAD = 64, 64  # samples of the window before, and of this one in reverse
_FRAME, _HOP = 256, 128
_FRAMES = np.arange(_FRAME) + _HOP * np.arange((_CONTEXT + WINDOW + _PAD - _FRAME) // _HOP + 1)[:, None]
_BINS, _STATE = 129, 128
_LOWEST = -80.0  # exp(80) is finite in float32


@cache
def _weights() -> dict[str, Samples]:
    """Return the matrices: `basis` makes real and imaginary parts of a frame; `weight1` to `weight4` are convolutions
    over three frames, the last over one; `gates` are those of an LSTM: input, forget, cell and output."""
    with np.load(Path(__file__).parent / "weights.npz", allow_pickle=False) as file:
        return dict(file)


def use_one_thread() -> None:
    """Compute numpy's products in one thread from now on: for these small ones, threads mostly wait for each other."""
    threadpool_limits(1, user_api="blas")


class VoiceDetector:
    """Listens to one sound. It remembers what came before, as the original does."""

    def __init__(self) -> None:
        self._weights = _weights()
        self.reset()

    def reset(self) -> None:
        """Forget what came before."""
        self._context: Samples = np.zeros(_CONTEXT, np.float32)
        self._hidden: Samples = np.zeros(_STATE, np.float32)
        self._cell: Samples = np.zeros(_STATE, np.float32)

    def listen(self, window: Samples) -> float:
        """Return the probability, from 0 to 1, that the next `WINDOW` samples, from -1 to 1, are speech."""
        weights = self._weights
        sound = np.concatenate([self._context, window, window[-2 : -_PAD - 2 : -1]])
        self._context = window[-_CONTEXT:]
        parts = sound[_FRAMES] @ weights["basis"]
        heard: Samples = np.sqrt(parts[:, :_BINS] ** 2 + parts[:, _BINS:] ** 2)
        for number, stride in ((1, 1), (2, 2), (3, 2)):
            heard = self._convolve(heard, number, stride)
        heard = np.maximum(heard @ weights["weight4"] + weights["bias4"], 0)
        gates = np.concatenate([heard[0], self._hidden]) @ weights["gates"] + weights["gate_bias"]
        opened = _sigmoid(gates)
        into, keep, _, out = np.split(opened, 4)
        self._cell = keep * self._cell + into * np.tanh(gates[2 * _STATE : 3 * _STATE])
        self._hidden = out * np.tanh(self._cell)
        return float(_sigmoid(np.maximum(self._hidden, 0) @ weights["output"] + weights["output_bias"])[0])

    def _convolve(self, frames: Samples, number: int, stride: int) -> Samples:
        """Return a convolution over three frames, which are padded with zeros, and a ReLU of it."""
        count, width = frames.shape
        padded = np.zeros((count + 2, width), np.float32)
        padded[1:-1] = frames
        rows = padded[np.arange(3) + stride * np.arange((count - 1) // stride + 1)[:, None]]
        found: Samples = rows.reshape(len(rows), -1) @ self._weights[f"weight{number}"] + self._weights[f"bias{number}"]
        return np.maximum(found, 0)


def _sigmoid(values: Samples) -> Samples:
    return 1 / (1 + np.exp(-np.maximum(values, _LOWEST)))
