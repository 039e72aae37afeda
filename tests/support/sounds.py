"""Sounds for tests, and an ffmpeg that is there on every machine."""

import os
from pathlib import Path

import imageio_ffmpeg
import pytest


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
