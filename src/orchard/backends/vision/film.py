"""Decodes videos with OpenCV's FFmpeg, in a process of its own: see `helper_process`. This file imports no MLX."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import msgspec
import numpy as np
from msgspec import Struct
from PIL import Image

from orchard.backends.helper_process import Answer, HelperLimits
from orchard.backends.vision.resize import fitted, resized
from orchard.core.media import MAX_FRAMES, MAX_PIXELS, MediaOptions

MOST_FILM_BYTES = 2 * 2**30
MOST_RATIO = 200
"""How many times as long as the other a side of an image or a frame may be."""
_THREADS = min(os.cpu_count() or 1, 8)  # each holds frames
LIMITS = HelperLimits(cpu_seconds=60.0 * _THREADS, seconds=60.0, memory_bytes=4 * 2**30)
"""What decoding one video may take."""
# What FFmpeg may read. A playlist would make it open other files, and so would a list of files to put together.
_FORMATS = "asf,avi,flv,ivf,m4v,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpeg,mpegts,mpegvideo,mxf,nut,ogg"
os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = f"format_whitelist;{_FORMATS}|protocol_whitelist;file"
os.environ["OPENCV_FFMPEG_LOGLEVEL"] = "-8"  # it writes a line for each mistake in a file


class FrameSampling(Struct, frozen=True):
    """Which frames to read: the fields of mlx-vlm's class `VideoSampling`, which says what they mean."""

    fps: float | None = None
    min_frames: int | None = None
    max_frames: int | None = None
    frame_factor: int | None = None


class FilmRequest(Struct, frozen=True):
    """The file to decode, which of its frames, and how they are resized."""

    path: str
    sampling: FrameSampling
    options: MediaOptions


class FilmHead(Struct, frozen=True):
    """What is known before the frames: how many the video has and how many a second, its width and height, the numbers
    of the frames that follow, and their (height, width).
    """

    count: int
    rate: float
    size: tuple[int, int]
    wanted: list[int]
    frame: tuple[int, int]


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(FilmRequest)


def make_answer(_: bytes) -> Answer:
    """Return what decodes videos in the process."""
    cv2.setNumThreads(1)
    return read_film


def read_film(question: bytes) -> Iterator[bytes]:
    """Yield a video's `FilmHead`, and then its frames (3, height, width). `question`: a `FilmRequest`.

    Raise ValueError with the reason if it is broken, too short or too large.
    """
    request = _requests.decode(question)
    film = cv2.VideoCapture(request.path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, _THREADS])
    try:
        head = _head(film, request)
        yield _encoder.encode(head)
        found = 0
        for frame in _frames(film, head.wanted):
            picture = resized(Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)), request.options)
            if (picture.height, picture.width) != head.frame:
                raise ValueError("its frames differ in size")
            yield np.asarray(picture).transpose(2, 0, 1).tobytes()
            found += 1
        if found < len(head.wanted):
            last = head.wanted[found]
            raise ValueError(f"it is broken or truncated: frame {last} of {head.count} can't be read")
    finally:
        film.release()


def _head(film: Any, request: FilmRequest) -> FilmHead:
    count, rate = int(film.get(cv2.CAP_PROP_FRAME_COUNT)), film.get(cv2.CAP_PROP_FPS)
    width, height = int(film.get(cv2.CAP_PROP_FRAME_WIDTH)), int(film.get(cv2.CAP_PROP_FRAME_HEIGHT))
    if not film.isOpened() or min(count, width, height) <= 0 or not 0 < rate < 1e6:
        raise ValueError("it is not a video that can be read, or it is broken")
    if width * height > MAX_PIXELS:
        raise ValueError(f"it has {width:,} x {height:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    if max(width, height) > MOST_RATIO * min(width, height):
        raise ValueError(f"one side is more than {MOST_RATIO} times the other")
    sampling = request.sampling
    wanted = sampled_frames(count, rate, sampling)
    if not wanted:
        least = sampling.frame_factor or 1
        few = f"it has {count} frames" if count < least else f"`max_frames` is {sampling.max_frames}"
        raise ValueError(f"{few}, and this model looks at {least} at least")
    frame = fitted((height, width), request.options)
    if (taken := 3 * frame[0] * frame[1] * len(wanted)) > MOST_FILM_BYTES:
        most = f"{MOST_FILM_BYTES:,}; lower fps or max_frames, or set resize_shape"
        raise ValueError(f"its {len(wanted)} frames take {taken:,} bytes, and at most {most}")
    return FilmHead(count, rate, (width, height), wanted, frame)


def _frames(film: Any, wanted: Sequence[int]) -> Iterator[Any]:
    """Yield the frames with these ascending numbers, until one can't be read.

    All frames before the last are decoded once: to seek one, OpenCV decodes from the last key frame on, which may be
    the first of the video.
    """
    place = -1
    for index in wanted:
        while place < index:
            if not film.grab():
                return
            place += 1
        found, frame = film.retrieve()
        if not found:
            return
        yield frame


def sampled_frames(count: int, rate: float, sampling: FrameSampling) -> list[int]:
    """Return the numbers of a video's frames to use, as in `mlx_vlm.utils.load_video`; [] if it is too short.

    `rate`: the video's frames per second.
    """
    factor = sampling.frame_factor or 1
    least = -(-(sampling.min_frames or 1) // factor) * factor
    most = min(sampling.max_frames or MAX_FRAMES, MAX_FRAMES, count) // factor * factor
    number = int(min(max(count / rate * (sampling.fps or 1.0), least), most)) // factor * factor
    return [int(place) for place in np.linspace(0, count - 1, number).round()] if number else []
