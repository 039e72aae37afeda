"""Decodes videos with ffmpeg, in a process of its own: see `helper_process`. This file imports no MLX."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from PIL import Image

from orchard.backends import ffmpeg
from orchard.backends.ffmpeg import Ffmpeg, FfmpegError
from orchard.backends.helper_process import Answer, HelperLimits
from orchard.backends.vision.resize import fit_size, resize_image
from orchard.core.media import MAX_FRAMES, MAX_PIXELS, MediaOptions

MOST_FILM_BYTES = 2 * 2**30
MOST_RATIO = 200
"""The most that the long side of an image or a frame may be, divided by the short side."""
_THREADS = min(os.cpu_count() or 1, 8)  # each holds frames
LIMITS = HelperLimits(cpu_seconds=60.0 * _THREADS, seconds=60.0, memory_bytes=4 * 2**30)
"""What decoding one video may take."""
# What ffmpeg may read. A playlist would make it open other files, and so would a list of files to join.
_FORMATS = "asf,avi,flv,ivf,m4v,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpeg,mpegts,mpegvideo,mxf,nut,ogg"
_COUNTED_FORMATS = ("avi", "mov")  # they say how many frames there are; others say only how long a file is
_BROKEN = "it is not a video that can be read, or it is broken"
# Matches "Input #0, mov,mp4,m4a, from 'file:a':", "  Duration: 00:01:02.40, start: 0.0", and then, about the output,
# "  Stream #0:0(und): Video: h264, yuv420p, 176x144, q=2-31, 29.97 fps, 30k tbn".
_REPORT = re.compile(
    r"^Input #0, (?P<format>\w+)(.*?^  Duration: (?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d\.\d\d))?"
    r".*^Output #0(.*?^ +Stream #0:0[^\n]* (?P<rate>[\d.]+)(?P<thousands>k?) fps)?",
    re.MULTILINE | re.DOTALL,
)
_EACH_FRAME = ["-map", "0:V:0", "-fps_mode", "passthrough"]  # frames are neither repeated nor left out
_NO_OPTION = "Option not found"
_TOO_OLD = "the server's ffmpeg is too old. Install version 5.1 or newer"
_NO_TIME = -(2**63)
_ROUNDING = 0.006  # of seconds, and of frames a second


class FrameSampling(Struct, frozen=True):
    """Which frames to read: the fields of mlx-vlm's class `VideoSampling`, which says what they mean."""

    fps: float | None = None
    min_frames: int | None = None
    max_frames: int | None = None
    frame_factor: int | None = None


class FilmRequest(Struct, frozen=True):
    """The file to decode, which of its frames to read, and how to resize them."""

    path: str
    sampling: FrameSampling
    options: MediaOptions


class FilmHead(Struct, frozen=True):
    """What precedes the frames: the video's number of frames, its frames per second and its (width, height); then the
    numbers of the frames that follow, and their (height, width).
    """

    count: int
    rate: float
    size: tuple[int, int]
    frame_numbers: list[int]
    frame_size: tuple[int, int]


class _Video(Struct, frozen=True):
    """A video's number of frames, its frames per second, and its (width, height) as it is shown."""

    count: int
    rate: float
    size: tuple[int, int]


class _Packets(Struct, frozen=True):
    """What ffmpeg says about a video without decoding it: how many packets it has, and how many seconds they last.

    `rate`: frames per second, rounded. `length`: the file's seconds, rounded. None: ffmpeg doesn't say. `is_complete`:
    the packets last as long as the file. Empty packets don't count.
    """

    format: str
    count: int
    seconds: Fraction
    rate: float | None
    length: float | None
    is_complete: bool


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(FilmRequest)


def make_film_answer(_: bytes) -> Answer:
    """Return the function that decodes videos in the process."""
    return read_film


def read_film(question: bytes) -> Iterator[bytes]:
    """Yield a video's `FilmHead`, and then its frames (3, height, width). `question`: a `FilmRequest`.

    Raise ValueError with the reason if it is broken, too short or too large, or if ffmpeg is missing.
    """
    request = _requests.decode(question)
    if ffmpeg.find_ffmpeg() is None:
        raise ValueError(ffmpeg.MISSING_MESSAGE)
    head = _make_head(_read_video(request.path), request)
    yield _encoder.encode(head)
    found = 0
    for frame in _read_frames(request.path, head):
        yield np.asarray(resize_image(frame, request.options)).transpose(2, 0, 1).tobytes()
        found += 1
    if found < len(head.frame_numbers):
        last = head.frame_numbers[found]
        raise ValueError(f"it is broken or truncated: frame {last} of {head.count} can't be read")


def _make_head(video: _Video, request: FilmRequest) -> FilmHead:
    count, rate, (width, height) = video.count, video.rate, video.size
    if min(count, width, height) <= 0 or not 0 < rate < 1e6:
        raise ValueError(_BROKEN)
    if width * height > MAX_PIXELS:
        raise ValueError(f"it has {width:,} x {height:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    if max(width, height) > MOST_RATIO * min(width, height):
        raise ValueError(f"one side is more than {MOST_RATIO} times the other")
    sampling = request.sampling
    wanted = sample_frames(count, rate, sampling)
    if not wanted:
        least = sampling.frame_factor or 1
        few = f"it has {count} frames" if count < least else f"`max_frames` is {sampling.max_frames}"
        raise ValueError(f"{few}, and this model looks at {least} at least")
    frame = fit_size((height, width), request.options)
    if (taken := 3 * frame[0] * frame[1] * len(wanted)) > MOST_FILM_BYTES:
        most = f"{MOST_FILM_BYTES:,}; lower fps or max_frames, or set resize_shape"
        raise ValueError(f"its {len(wanted)} frames take {taken:,} bytes, and at most {most}")
    return FilmHead(count, rate, (width, height), wanted, frame)


def _run_ffmpeg(path: str, arguments: Sequence[str], level: Literal["error", "info"] = "error") -> Ffmpeg:
    reads = ["-protocol_whitelist", "file", "-format_whitelist", _FORMATS, "-threads", str(_THREADS)]
    every = ["-filter_threads", "1", *reads, "-i", f"file:{path}"]
    return Ffmpeg([*every, *arguments, "pipe:1"], level=level, cpu_seconds=int(LIMITS.cpu_seconds))


def _read_video(path: str) -> _Video:
    packets = _read_packets(path)
    try:
        with _run_ffmpeg(path, [*_EACH_FRAME, "-frames:v", "1", "-f", "framecrc"]) as program:
            fields = dict(line[1:].split(": ", 1) for line in _output_lines(program) if line.startswith("#"))
        base_rate = float(1 / Fraction(fields["tb 0"]))
        width, height = fields["dimensions 0"].split("x")  # turned upright
    except (FfmpegError, KeyError, ValueError, ZeroDivisionError) as error:
        raise ValueError(_TOO_OLD if str(error) == _NO_OPTION else _BROKEN) from error
    rate = _choose_rate(packets, base_rate)
    count = _frame_count(packets, rate)
    if count > packets.count and packets.is_complete and packets.length:  # the frame rate varies
        count, rate = packets.count, packets.count / packets.length
    return _Video(count, rate, (int(width), int(height)))


def _read_packets(path: str) -> _Packets:
    """Read a video to its end. Raise ValueError if that is not possible."""
    count, length, unit = 0, 0, "0/1"
    times: list[int] = []
    copied = ["-map", "0:V:0", "-c", "copy", "-copyinkf", "-map_metadata", "-1", "-map_chapters", "-1"]
    try:
        with _run_ffmpeg(path, ["-xerror", *copied, "-f", "framecrc"], "info") as program:
            for line in _output_lines(program):
                if line.startswith("#tb 0: "):
                    unit = line.removeprefix("#tb 0: ")
                elif not line.startswith("#"):  # stream, decoding time, time, duration, bytes, checksum
                    _, _, time, duration, size, *_ = map(str.strip, line.split(","))
                    count += size != "0"  # an empty packet repeats the frame before it
                    length += int(duration)
                    times.append(int(time))
    except FfmpegError as error:
        raise ValueError("it is broken or truncated" if count else _BROKEN) from error
    if not (said := _REPORT.search(program.error_output)):
        raise ValueError(_BROKEN)
    file_seconds = _duration_seconds(said) if said["hours"] else None
    return _Packets(
        format=said["format"],
        count=count,
        seconds=length * Fraction(unit),
        rate=float(said["rate"]) * (1000 if said["thousands"] else 1) if said["rate"] else None,
        length=file_seconds,
        is_complete=file_seconds is None or _seconds_of(times, Fraction(unit)) > file_seconds - _ROUNDING,
    )


def _seconds_of(times: list[int], unit: Fraction) -> float:
    """Return how long packets with these times last at most; the last counts as long as the longest of the others."""
    times = sorted(time for time in times if time != _NO_TIME)
    if len(times) < 2:
        return 0.0
    return float((times[-1] - times[0] + max(after - before for before, after in pairwise(times))) * unit)


def _duration_seconds(said: re.Match[str]) -> float:
    return int(said["hours"]) * 3600 + int(said["minutes"]) * 60 + float(said["seconds"])


def _choose_rate(packets: _Packets, base_rate: float) -> float:
    """Return the mean frames per second. `base_rate`: the exact rate of a video whose rate is constant."""
    if packets.rate is None:
        return base_rate
    exact = [base_rate, float(packets.count / packets.seconds)] if packets.seconds > 0 else [base_rate]
    return next((rate for rate in exact if abs(rate - packets.rate) < _ROUNDING), packets.rate)


def _frame_count(packets: _Packets, rate: float) -> int:
    """Return how many frames a video has; not every packet contains a frame that is shown."""
    if packets.length is None or packets.format in _COUNTED_FORMATS:
        return packets.count
    frames = packets.length * rate
    return packets.count if abs(packets.count - frames) <= _ROUNDING * rate else int(frames + 0.5)


def _output_lines(program: Ffmpeg) -> Iterator[str]:
    rest = ""
    for piece in program.read_rest():
        *whole, rest = (rest + piece.decode("ascii", "replace")).split("\n")
        yield from whole


def _read_frames(path: str, head: FilmHead) -> Iterator[Image.Image]:
    """Yield the frames that the head names, until one can't be read. All frames before the last are decoded once."""
    chosen = ["-vf", f"select='{_select_expression(head.frame_numbers)}'", "-frames:v", str(len(head.frame_numbers))]
    size = 3 * head.size[0] * head.size[1]
    data = bytearray()
    with (
        suppress(FfmpegError),
        _run_ffmpeg(path, [*_EACH_FRAME, *chosen, "-f", "rawvideo", "-pix_fmt", "rgb24"]) as program,
    ):
        for piece in program.read_rest():
            data += piece
            while len(data) >= size:
                yield Image.frombytes("RGB", head.size, bytes(data[:size]))
                del data[:size]


def _select_expression(wanted: Sequence[int]) -> str:
    """Return an expression for ffmpeg's `select` that is 1 for these ascending numbers. A sum would nest too deeply."""
    if len(wanted) == 1:
        return f"eq(n,{wanted[0]})"
    middle = len(wanted) // 2
    return f"if(lt(n,{wanted[middle]}),{_select_expression(wanted[:middle])},{_select_expression(wanted[middle:])})"


def sample_frames(count: int, rate: float, sampling: FrameSampling) -> list[int]:
    """Return the numbers of a video's frames to use, as in `mlx_vlm.utils.load_video`; [] if it is too short.

    `rate`: the video's frames per second.
    """
    factor = sampling.frame_factor or 1
    least = -(-(sampling.min_frames or 1) // factor) * factor
    most = min(sampling.max_frames or MAX_FRAMES, MAX_FRAMES, count) // factor * factor
    number = int(min(max(count / rate * (sampling.fps or 1.0), least), most)) // factor * factor
    return [int(place) for place in np.linspace(0, count - 1, number).round()] if number else []
