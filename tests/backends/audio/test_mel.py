import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_audio.stt.models.whisper.audio import N_FRAMES, N_SAMPLES, log_mel_spectrogram, pad_or_trim

from orchard.backends.audio.mel import MelFile
from tests.support.examples import examples
from tests.support.sounds import noise


@examples(30)
@given(st.integers(1, 16_000 * 70), st.integers(1, 4))
def test_frames_are_those_of_the_library_over_the_whole(size: int, blocks: int) -> None:
    samples = noise(70)[-size:].astype(np.float32) / np.float32(32768)
    whole = np.array(log_mel_spectrogram(mx.array(samples), n_mels=80, padding=N_SAMPLES))
    mel = MelFile(80, "/tmp")  # noqa: S108 - nothing is written there
    for block in np.array_split(samples, blocks if size > 4000 else 1):
        mel.add(block)
    mel.end()
    assert (mel.frames, mel.seconds) == (len(whole) - N_FRAMES, size / 16_000)
    np.testing.assert_allclose(np.array(mel.beginning()), whole[:N_FRAMES], atol=1e-5)
    for start in range(0, mel.frames, 1700):
        count = min(N_FRAMES, mel.frames - start)
        expected = np.array(pad_or_trim(mx.array(whole[start : start + count]), N_FRAMES, axis=-2))
        np.testing.assert_allclose(np.array(mel.window(start, count)), expected, atol=1e-5)
    assert len(mel.levels()) == mel.frames
    mel.close()


def test_a_long_recording_lies_in_a_file_without_a_name(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchard.backends.audio.mel._MOST_MEMORY_BYTES", 1000)
    folder = tmp_path_factory.mktemp("mel")
    mel = MelFile(80, str(folder))
    mel.add(noise(2).astype(np.float32) / np.float32(32768))
    mel.end()
    assert mel._file._rolled  # type: ignore[attr-defined]
    assert list(folder.iterdir()) == []
    assert mel.window(0, mel.frames).shape == (N_FRAMES, 80)
    mel.close()
