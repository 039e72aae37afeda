import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from orchard.gateway.realtime.samples import FORMATS, Resampler, SpeechConverter, to_float

# Of Python's audioop, which newer versions of Python no longer have: what all 256 bytes of G.711 mean.
DECODED = {
    "audio/pcmu": "3dab54339e520bb2c924826e3b72a917a2b612e9fd12fc867500f1d983a75827",
    "audio/pcma": "e04788d110e58ff8c70c93b8480190d973e3b67876b6119abbaec766cc75c174",
}


def sine(rate: int, pitch: float, seconds: float = 0.5) -> NDArray[np.float32]:
    return (0.5 * np.sin(2 * np.pi * pitch * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


@pytest.mark.parametrize("name", sorted(DECODED))
def test_every_byte_of_g711_means_what_it_should(name: str) -> None:
    assert hashlib.sha256(FORMATS[name].decode(bytes(range(256)))).hexdigest() == DECODED[name]


@pytest.mark.parametrize("name", sorted(DECODED))
def test_a_sample_becomes_the_nearest_byte(name: str) -> None:
    form = FORMATS[name]
    samples = np.arange(-32768, 32768, 5).astype(np.int16)
    back = np.frombuffer(form.decode(form.encode(samples)), "<i2").astype(int)
    levels = np.sort(np.frombuffer(form.decode(bytes(range(256))), "<i2").astype(int))
    nearest = np.abs(levels[:, None] - samples.astype(int)).min(axis=0)
    assert (np.abs(back - samples) == nearest).all()


@pytest.mark.parametrize(("rate", "new_rate"), [(24_000, 16_000), (8_000, 16_000), (24_000, 8_000), (24_000, 24_000)])
def test_a_tone_stays_the_same_tone(rate: int, new_rate: int) -> None:
    changed = Resampler(rate, new_rate).feed(sine(rate, 440))
    assert len(changed) == int(0.5 * new_rate)
    spectrum = np.abs(np.fft.rfft(changed * np.hanning(len(changed))))
    assert np.argmax(spectrum) * 2 == 440  # a bin has 2 Hz
    assert np.abs(changed[new_rate // 10 :]).max() == pytest.approx(0.5, abs=0.005)


def test_what_the_lower_rate_can_not_have_is_left_out() -> None:
    assert np.abs(Resampler(24_000, 8_000).feed(sine(24_000, 5000))[800:]).max() < 0.001


@given(
    st.lists(st.integers(0, 900), max_size=12), st.sampled_from([(24_000, 16_000), (8_000, 16_000), (24_000, 8_000)])
)
def test_pieces_make_no_difference(sizes: list[int], rates: tuple[int, int]) -> None:
    sound = np.random.default_rng(0).standard_normal(sum(sizes)).astype(np.float32)
    pieces = Resampler(*rates)
    found = [pieces.feed(piece) for piece in np.split(sound, np.cumsum(sizes))]
    np.testing.assert_allclose(np.concatenate(found), Resampler(*rates).feed(sound), atol=1e-5)


@given(st.lists(st.integers(0, 700), max_size=8), st.sampled_from(sorted(FORMATS)))
def test_speech_may_be_cut_within_samples(sizes: list[int], name: str) -> None:
    speech = np.random.default_rng(1).integers(-9000, 9000, sum(sizes) // 2 + 1).astype("<i2").tobytes()
    pieces, whole = SpeechConverter(FORMATS[name], 24_000), SpeechConverter(FORMATS[name], 24_000)
    cuts = [0, *np.cumsum(sizes).tolist(), len(speech)]
    found = b"".join(pieces.feed(speech[begin:end]) for begin, end in itertools.pairwise(cuts))
    once = whole.feed(speech)
    if name == "audio/pcm":
        assert found == speech
    else:
        heard = [to_float(FORMATS[name].decode(sound)) for sound in (found, once)]
        np.testing.assert_allclose(heard[0], heard[1], atol=0.01)  # a level of G.711 at most
