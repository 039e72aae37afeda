import stat
import wave
from pathlib import Path

import numpy as np
import pytest

from orchard.backends.audio.sample_process import convert_recording
from orchard.core.tasks.speak import RATE
from tests.support.sounds import noise, wav


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"RIFF", "can't be read"),
        (b"", "it is empty"),
        (wav(noise(0.9)), "must last 1 to 30 seconds"),
        (wav(noise(31, 8000), 8000), "must last 1 to 30 seconds"),
        (wav(noise(200, 8000), 8000), "must last 1 to 30 seconds"),
        (wav(noise(2) * 0), "it is silent"),
    ],
)
def test_recordings_that_cant_be_used(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "source").write_bytes(data)
    why = convert_recording(str(tmp_path / "source"), str(tmp_path / "target"), 1, 30)
    assert words in (why or "")
    assert not (tmp_path / "target").exists()


def test_a_recording_is_written_as_speech_models_read_it(tmp_path: Path) -> None:
    sound = noise(1.25, RATE)
    (tmp_path / "source").write_bytes(wav(np.repeat(sound, 2), RATE, 2))
    assert convert_recording(str(tmp_path / "source"), str(tmp_path / "target"), 1, 30) is None
    with wave.open(str(tmp_path / "target")) as file:
        assert file.getparams()[:4] == (1, 2, RATE, len(sound))
        assert np.abs(np.frombuffer(file.readframes(len(sound)), "<i2").astype(int) - sound).max() <= 1
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o600
