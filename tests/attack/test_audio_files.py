"""Sound files that once took gigabytes, decoded in a process of their own, whose memory is measured."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sounds import encoded, noise, wav

TRANSCRIPTION = """
from orchard.backends.audio.decode import decode_recording
from orchard.core.errors import OrchardError

def decoded(path):
    return sum(len(block) for block in decode_recording(path, "file"))
"""
CHAT = """
from pathlib import Path
from orchard.backends.vision.decode import decode_audio
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart

def decoded(path):
    return len(decode_audio(MediaPart("audio", "", "audio", data=Path(path).read_bytes()), 16_000))
"""
# Prints how much more memory the process took while it decoded a file, in MiB, and how many samples or which error.
MEASUREMENT = """
import resource, sys

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)

before = peak()
try:
    found = decoded(sys.argv[1])
except OrchardError as error:
    found = error.message
print(peak() - before, found, sep="\\t")
"""
MOST_MIB = 150


def _decoded(decoder: str, file: Path) -> str:
    """Return what came of a file, once its memory is checked."""
    command = [sys.executable, "-c", decoder + MEASUREMENT, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    memory, found = done.stdout.strip().split("\t")
    assert float(memory) < MOST_MIB
    return found


@pytest.mark.parametrize(
    ("decoder", "rate"),
    [(TRANSCRIPTION, 191_999), (TRANSCRIPTION, 383_987), (CHAT, 191_999)],
    ids=["transcription-191999", "transcription-383987", "chat-191999"],
)
def test_an_odd_rate_takes_little_memory(tmp_path: Path, decoder: str, rate: int) -> None:
    (tmp_path / "sound").write_bytes(wav(noise(1, rate), rate))
    assert _decoded(decoder, tmp_path / "sound") == "16000"


def test_a_long_recording_takes_no_more_than_a_short_one(tmp_path: Path) -> None:
    (tmp_path / "sound").write_bytes(encoded(wav(noise(25, 191_999), 191_999), "-f", "flac"))
    assert _decoded(TRANSCRIPTION, tmp_path / "sound") == "400000"


@pytest.mark.parametrize(("channels", "rate"), [(65_535, 16_000), (1, 1), (1, 2**32 - 1), (65_535, 2**32 - 1)])
def test_an_absurd_header_is_refused(tmp_path: Path, channels: int, rate: int) -> None:
    sound = wav(noise(1))
    (tmp_path / "sound").write_bytes(sound[:22] + struct.pack("<HI", channels, rate) + sound[28:])
    refused = f"it has {channels:,} channels at {rate:,} Hz, and 1 to 8 channels at 4,000 to 384,000 Hz are allowed"
    assert _decoded(TRANSCRIPTION, tmp_path / "sound").endswith(refused)
