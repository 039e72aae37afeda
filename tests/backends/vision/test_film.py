"""What the process that decodes videos does, and what it refuses before it decodes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import msgspec
import numpy as np
import pytest
from mlx_vlm.utils import DEFAULT_VIDEO_SAMPLING, VideoSampling, load_video

from orchard.backends.vision import film
from orchard.backends.vision.film import FilmRequest, FrameSampling, read_film
from orchard.core.media import MediaOptions
from tests.support.media import film_in


def pieces(file: Path, **sampling: Any) -> Iterator[bytes]:
    sampled = FrameSampling(**{"fps": 2.0, "min_frames": 4, "max_frames": 768, "frame_factor": 2} | sampling)
    return read_film(msgspec.msgpack.encode(FilmRequest(str(file), sampled, MediaOptions())))


@pytest.fixture(scope="module")
def film_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_in(tmp_path_factory.mktemp("films") / "film.avi", "FFV1")


class Counted:
    """OpenCV's reader, which counts the frames that it decodes."""

    decoded = 0
    _real = cv2.VideoCapture

    def __init__(self, *given: Any) -> None:
        self._film = self._real(*given)

    def grab(self) -> bool:
        Counted.decoded += 1
        return bool(self._film.grab())

    def __getattr__(self, name: str) -> Any:
        assert name in ("get", "isOpened", "retrieve", "release")
        return getattr(self._film, name)


def test_a_frame_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these but the first is what changed since the last: to go to one is to decode all before it."""
    file = film_in(tmp_path / "film.mp4", "mp4v")
    sampling = VideoSampling(fps=5.0, max_frames=10).merge(DEFAULT_VIDEO_SAMPLING)
    expected, _ = load_video(str(file), sampling)
    monkeypatch.setattr(cv2, "VideoCapture", Counted)
    _, *frames = pieces(file, fps=5.0, max_frames=10)
    assert b"".join(frames) == expected.tobytes()
    assert (len(frames), Counted.decoded) == (10, 20)


def test_frames_of_several_sizes_are_refused(film_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCV makes them alike, as far as is known."""
    shapes = iter([(32, 48, 3), (48, 32, 3)])
    monkeypatch.setattr(film, "_frames", lambda *_: (np.zeros(shape, np.uint8) for shape in shapes))
    with pytest.raises(ValueError, match="its frames differ in size"):
        list(pieces(film_file))


def test_a_film_that_is_too_large_is_refused(film_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "MOST_FILM_BYTES", 8 * 32 * 48 * 3 - 1)
    with pytest.raises(ValueError, match="its 8 frames take 36,864 bytes"):
        next(pieces(film_file))
    monkeypatch.setattr(film, "MAX_PIXELS", 1000)
    with pytest.raises(ValueError, match="48 x 32 pixels, and at most 1,000"):
        next(pieces(film_file))


def test_the_process_needs_no_mlx() -> None:
    code = "import orchard.backends.vision.film, sys; sys.exit('mlx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
