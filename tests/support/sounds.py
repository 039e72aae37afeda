"""Sounds for tests, and an ffmpeg that is there on every machine."""

import io
import os
import subprocess
import tempfile
import wave
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from numpy.typing import NDArray


def use_ffmpeg(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Make the package's ffmpeg the only program of that name in this process and its children; return its link."""
    program = folder / "ffmpeg"
    program.symlink_to(imageio_ffmpeg.get_ffmpeg_exe())
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    return program


def program_called(folder: Path, name: str, script: str) -> Path:
    """Write a shell script that stands in for a program."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def noise(seconds: float, rate: int = 16_000) -> NDArray[np.int16]:
    """Return noise that swells and fades, the same each time."""
    count = int(seconds * rate)
    made = np.random.default_rng(0).standard_normal(count) * np.abs(np.sin(np.arange(count) / rate * 2)) * 0.2
    return (made.clip(-1, 1) * 32767).astype(np.int16)


def wav(samples: NDArray[np.int16], rate: int = 16_000, channels: int = 1) -> bytes:
    """Return a WAV file."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return made.getvalue()


def encoded(sound: bytes, *arguments: str) -> bytes:
    """Return a sound as ffmpeg encodes it with these arguments, such as `-f mp3`."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "sound")
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", "pipe:0", *arguments, str(target)]
        subprocess.run(command, input=sound, check=True)
        return target.read_bytes()
