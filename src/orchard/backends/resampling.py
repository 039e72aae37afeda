"""Changes the sample rate of sound, block by block and in constant memory, whatever the two rates are."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Samples = NDArray[np.float32]

# mlx-audio's low-pass filter: a sinc of this many zero crossings on each side, a cutoff below half of the lower rate,
# and the parameter of its Kaiser window.
_ZEROS, _CUTOFF, _BETA = 64, 0.9475937167399596, 14.769656459379492
_PHASES = 512  # of the filter per zero crossing; values between two phases are interpolated
_WINDOW_SAMPLES = 2**17  # samples in the windows that are multiplied at once


def resample(blocks: Iterator[Samples], rate: int, new_rate: int) -> Iterator[Samples]:
    """Yield blocks of mono samples, `new_rate` a second, from blocks with `rate` a second.

    Together they differ from mlx-audio's result for the whole sound by less than -80 dB.
    """
    if rate == new_rate:
        yield from blocks
        return
    filters = _lowpass_filters(max(1.0, rate / new_rate))
    half = filters.shape[1] // 2
    held, first, made = np.zeros(0, np.float32), -half, 0  # `first`: the number of the sample held[0]
    for block in _pad_edges(blocks, half):
        held = np.concatenate([held, block])
        end = max(made, -(-(first + len(held) - half) * new_rate // rate))
        if end > made:
            yield _interpolate(held, np.arange(made, end) * rate - first * new_rate, new_rate, filters)
        made = end
        unused = made * rate // new_rate - half + 1 - first
        held, first = held[unused:], first + unused


def _lowpass_filters(scale: float) -> NDArray[np.float32]:
    """Return the low-pass filter at each phase and at the next sample's first phase: (phases + 1, taps).

    `scale`: the input samples per zero crossing.
    """
    half, phases = math.ceil(_ZEROS * scale), math.ceil(_PHASES / scale)
    at = (np.arange(1 - half, half + 1) - np.arange(phases + 1)[:, None] / phases) / scale
    window = np.i0(_BETA * np.sqrt(np.clip(1 - (at / _ZEROS) ** 2, 0, None))) / np.i0(_BETA)
    return (_CUTOFF / scale * np.sinc(_CUTOFF * at) * window).astype(np.float32)


def _pad_edges(blocks: Iterator[Samples], size: int) -> Iterator[Samples]:
    """Yield blocks; before them, repeat the first sample `size` times, and after them the last sample."""
    last = None
    for block in blocks:
        if len(block):
            if last is None:
                yield np.full(size, block[0])
            yield block
            last = block[-1]
    if last is not None:
        yield np.full(size, last)


def _interpolate(held: Samples, places: NDArray[np.int64], wanted: int, filters: NDArray[np.float32]) -> Samples:
    """Return the result's samples at these places in the input; an input sample is `wanted` places long."""
    phases, taps = len(filters) - 1, filters.shape[1]
    windows = sliding_window_view(held, taps)
    found = np.empty(len(places), np.float32)
    step = max(1, _WINDOW_SAMPLES // taps)
    for begin in range(0, len(places), step):
        sample, part = np.divmod(places[begin : begin + step], wanted)
        phase, rest = np.divmod(part * phases, wanted)
        heard = windows[sample - taps // 2 + 1]
        one, next_one = (np.einsum("ij,ij->i", heard, filters[at]) for at in (phase, phase + 1))
        found[begin : begin + step] = one + (next_one - one) * (rest / wanted)
    return found
