"""Sound in the formats of the Realtime API, and its sample rates."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Samples = NDArray[np.floating[Any]]

# Of the low-pass filter: zero crossings on each side, the cutoff as a part of the lower rate's half, and the
# parameter of its Kaiser window.
_ZEROS, _CUTOFF, _BETA = 16, 0.92, 8.0


class SoundFormat(Struct, frozen=True):
    """The samples of a format: how many a second, and how many bytes each has. `curve`: G.711's levels of bytes."""

    rate: int
    width: int
    curve: str = ""

    def decode(self, data: bytes) -> bytes:
        """Return samples of 16 bits, little-endian."""
        return _levels(self.curve)[np.frombuffer(data, np.uint8)].tobytes() if self.curve else data

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the bytes of samples."""
        if not self.curve:
            return samples.astype("<i2").tobytes()
        levels = _levels(self.curve)
        order = np.argsort(levels, kind="stable")
        middles = (levels[order[1:]].astype(np.int32) + levels[order[:-1]]) // 2
        return order[np.searchsorted(middles, samples, side="right")].astype(np.uint8).tobytes()


FORMATS: Mapping[str, SoundFormat] = {
    "audio/pcm": SoundFormat(24_000, 2),
    "audio/pcmu": SoundFormat(8_000, 1, "mu"),
    "audio/pcma": SoundFormat(8_000, 1, "A"),
}
"""By the names of the API (RFC 3551 for G.711)."""


def _levels(curve: str) -> NDArray[np.int16]:
    """Return the sample of each byte (ITU-T G.711)."""
    if curve == "mu":
        code = ~np.arange(256) & 0xFF
        size = (((code & 15) << 3) + 0x84 << (code >> 4 & 7)) - 0x84
        return np.where(code & 0x80, -size, size).astype("<i2")
    code = np.arange(256) ^ 0x55
    power = code >> 4 & 7
    size = np.where(power == 0, ((code & 15) << 4) + 8, ((code & 15) << 4) + 0x108 << np.maximum(power - 1, 0))
    return np.where(code & 0x80, size, -size).astype("<i2")


class Resampler:
    """Changes the rate of one sound, block by block. It adds a delay of less than 3 ms."""

    def __init__(self, rate: int, new_rate: int) -> None:
        common = math.gcd(rate, new_rate)
        self._up, self._down = new_rate // common, rate // common
        half = _ZEROS * max(self._up, self._down)
        at = np.arange(-half, half + self._up) / max(self._up, self._down)
        filter_ = np.sinc(_CUTOFF * at) * np.i0(_BETA * np.sqrt(np.clip(1 - (at / _ZEROS) ** 2, 0, None)))
        taps = -(-len(at) // self._up)
        filter_ = np.resize(np.append(filter_, np.zeros(taps * self._up - len(at))), (taps, self._up))
        self._phases = (filter_[::-1] / filter_.sum(axis=0)).T.astype(np.float32)  # a constant signal stays the same
        self._before = np.zeros(taps - 1, np.float32)
        self._place = 0  # of the next sample, from the next block's begin; a sample of the block is `_up`

    def feed(self, block: Samples) -> Samples:
        """Return what the next samples add."""
        if self._up == self._down or not len(block):
            return block
        held = np.concatenate([self._before, block])
        places = np.arange(self._place, len(block) * self._up, self._down)
        self._place = self._place + len(places) * self._down - len(block) * self._up
        self._before = held[len(held) - len(self._before) :]
        windows = sliding_window_view(held, self._phases.shape[1])
        found: Samples = np.einsum("ij,ij->i", windows[places // self._up], self._phases[places % self._up])
        return found


def to_float(samples: bytes) -> Samples:
    """Return samples of 16 bits as numbers from -1 to 1."""
    return np.frombuffer(samples, "<i2").astype(np.float32) / 32768


class SpeechConverter:
    """Turns speech, `RATE` samples of 16 bits a second, into a format, piece by piece."""

    def __init__(self, target: SoundFormat, rate: int) -> None:
        self._target = target
        self._resampler = Resampler(rate, target.rate)
        self._is_same = not target.curve and rate == target.rate
        self._odd = b""

    def feed(self, data: bytes) -> bytes:
        """Return what the next bytes add; they may end within a sample."""
        data = self._odd + data
        whole = len(data) // 2 * 2
        self._odd = data[whole:]
        if self._is_same:
            return data[:whole]
        samples = self._resampler.feed(to_float(data[:whole]))
        return self._target.encode((samples * 32767).clip(-32768, 32767).astype(np.int16))
