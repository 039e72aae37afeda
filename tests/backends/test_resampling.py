import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.resampling import Samples, resample
from tests.support.examples import examples
from tests.support.sounds import noise

RATE = 16_000
STANDARD = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400, 192_000]


def _noise(seconds: float, rate: int) -> Samples:
    return noise(seconds, rate).astype(np.float32) / np.float32(32768)


def _tone(frequency: int, rate: int) -> Samples:
    """Return two seconds of a sine."""
    return np.array(np.sin(2 * np.pi * frequency / rate * np.arange(2 * rate)), np.float32)


def _whole(samples: Samples, rate: int, wanted: int = RATE) -> Samples:
    return np.concatenate(list(resample(iter([samples]), rate, wanted)))


def _cut(samples: Samples, places: list[int]) -> Iterator[Samples]:
    ends = sorted({0, len(samples), *(place % len(samples) for place in places)})
    return (samples[begin:end] for begin, end in itertools.pairwise(ends))


@pytest.mark.parametrize("rate", STANDARD)
def test_standard_rates_become_what_mlx_audio_makes_of_them(rate: int) -> None:
    from mlx_audio.resample import resample_audio_array  # imports scipy.signal, which each process of the tests would

    samples = _noise(0.7, rate)
    expected = resample_audio_array(samples, rate, RATE)
    found = _whole(samples, rate)
    assert (found.dtype.name, len(found)) == ("float32", len(expected))
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()  # -80 dB


@examples(40)
@given(st.integers(4_000, 384_000) | st.sampled_from(STANDARD), st.lists(st.integers(0, 10**6), max_size=8))
def test_blocks_become_the_samples_that_the_whole_becomes(rate: int, cuts: list[int]) -> None:
    samples = _noise(0.3, rate)
    found = np.concatenate(list(resample(_cut(samples, cuts), rate, RATE)))
    np.testing.assert_allclose(found, _whole(samples, rate), atol=1e-6)
    assert len(found) == math.ceil(len(samples) * RATE / rate)


@pytest.mark.parametrize("rate", [4_001, 15_999, 16_001, 44_101, 191_999, 383_987])
def test_a_tone_at_an_odd_rate_stays_in_time_and_what_can_not_be_heard_goes(rate: int) -> None:
    inner = slice(RATE // 10, -RATE // 10)
    assert np.abs(_whole(_tone(1000, rate), rate) - _tone(1000, RATE))[inner].max() < 1e-4
    if rate > 2 * 9_000:
        assert np.abs(_whole(_tone(9_000, rate), rate)[inner]).max() < 1e-4


def test_a_sound_at_the_wanted_rate_stays_as_it_is_and_nothing_stays_nothing() -> None:
    samples = _noise(0.1, RATE)
    np.testing.assert_array_equal(_whole(samples, RATE), samples)
    assert not list(resample(iter([]), 44_100, RATE))
    assert not list(resample(iter([samples[:0]]), 44_100, RATE))
    assert len(_whole(samples[:1], 384_000)) == 1
