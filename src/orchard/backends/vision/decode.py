"""Decodes images, audio and video into pixels and samples. Files may be hostile, so everything has a limit."""

import io
import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import miniaudio
import numpy as np
from mlx_vlm.utils import VideoMetadata, VideoSampling
from numpy.typing import NDArray
from PIL import Image

from orchard.backends.picture_files import open_picture
from orchard.backends.resampling import Samples, resampled
from orchard.backends.sound_files import UnfitSoundError, check_wav, read_info
from orchard.core.errors import brief
from orchard.core.media import MAX_FRAMES, MAX_PIXELS, MediaOptions, MediaPart, refusal

MOST_FILM_BYTES = 2 * 2**30
MOST_SOUND_SECONDS = 1800
MOST_SOUND_SAMPLES = MOST_SOUND_SECONDS * 48_000  # of each channel: a few bytes of FLAC may be gigabytes
MOST_FILM_SECONDS = 60.0  # for decoding: a worker that is silent for longer is taken for stuck
LOW_DETAIL = (512, 512)
_MOST_RATIO = 200
_FRAMES_AT_ONCE = 65_536
# Formats that Pillow decodes by itself, without starting a program (EPS) or downloading anything (SVG).
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
# What FFmpeg may read. A playlist would make it open other files, and so would a list of files to put together.
_FILM_FORMATS = "asf,avi,flv,ivf,m4v,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpeg,mpegts,mpegvideo,mxf,nut,ogg"
os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = f"format_whitelist;{_FILM_FORMATS}|protocol_whitelist;file"


class Film(NamedTuple):
    """Frames (frames, 3, height, width) that were sampled from a video, and the video's properties.

    `size`: its width and height before it was resized.
    """

    frames: NDArray[np.uint8]
    metadata: VideoMetadata
    size: tuple[int, int]


def decode_image(part: MediaPart) -> Image.Image:
    """Return an image in RGB, upright; of an animation, the first frame.

    Raise OrchardError("invalid_request") that blames the part if it is broken, truncated or too large.
    """
    return open_picture(part, _FORMATS, most_ratio=_MOST_RATIO, mode="RGB")


def decode_audio(part: MediaPart, sample_rate: int) -> Samples:
    """Return mono samples in [-1, 1] at a sample rate in Hz.

    Raise OrchardError("invalid_request") that blames the part if it is broken, truncated or too long.
    """
    try:
        data = part.data
        if size := check_wav(io.BytesIO(data)):
            data = data[: size.place] + size.content + data[size.place + 4 :]
        info = _sound_info(part, data)
    except UnfitSoundError as error:
        raise refusal(part, str(error)) from error
    return np.concatenate(list(resampled(_blocks(part, data, info), info.sample_rate, sample_rate)))


def _sound_info(part: MediaPart, data: bytes) -> Any:
    """Return what the header of audio says."""
    for reader in (miniaudio.wav_get_info, miniaudio.flac_get_info, miniaudio.mp3_get_info):
        if info := read_info(reader, data):
            return info
    raise refusal(part, "it is not WAV, MP3 or FLAC audio, or it is broken")


def _blocks(part: MediaPart, data: bytes, info: Any) -> Iterator[Samples]:
    """Yield mono samples at the rate of the audio."""
    most = min(MOST_SOUND_SECONDS * info.sample_rate, MOST_SOUND_SAMPLES)
    taken = 0
    try:
        stream = miniaudio.stream_memory(
            data, nchannels=info.nchannels, sample_rate=info.sample_rate, frames_to_read=_FRAMES_AT_ONCE
        )
        for piece in stream:  # a few bytes of FLAC may be hours of silence, whatever the header says
            channels = np.array(piece, np.int16).reshape(-1, info.nchannels)
            taken += len(channels)
            if taken > most:
                raise refusal(part, f"it lasts more than {most / info.sample_rate:,.0f} seconds")
            yield (channels.astype(np.float32) / 32768).mean(axis=1)
    except miniaudio.MiniaudioError as error:
        raise refusal(part, f"it is broken ({brief(error)})") from error
    if taken < max(info.num_frames, 1):
        raise refusal(part, f"it is truncated: it has {taken:,} of {info.num_frames:,} samples")


def decode_video(part: MediaPart, sampling: VideoSampling) -> Film:
    """Return sampled frames of a video, resized as its options say. In `sampling`, only nframes may be None.

    Raise OrchardError("invalid_request") that blames the part if it is broken, too short or too large.
    """
    # OpenCV only reads files. The folder has no other file that a name in a hostile file could refer to.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "video")
        file.write_bytes(part.data)
        film = cv2.VideoCapture(str(file), cv2.CAP_FFMPEG)
        try:
            return _frames(part, film, sampling)
        finally:
            film.release()


def _frames(part: MediaPart, film: Any, sampling: VideoSampling) -> Film:
    count, rate = int(film.get(cv2.CAP_PROP_FRAME_COUNT)), film.get(cv2.CAP_PROP_FPS)
    width, height = int(film.get(cv2.CAP_PROP_FRAME_WIDTH)), int(film.get(cv2.CAP_PROP_FRAME_HEIGHT))
    if not film.isOpened() or min(count, width, height) <= 0 or not 0 < rate < 1e6:
        raise refusal(part, "it is not a video that can be read, or it is broken")
    if width * height > MAX_PIXELS:
        raise refusal(part, f"it has {width:,} x {height:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    if max(width, height) > _MOST_RATIO * min(width, height):
        raise refusal(part, f"one side is more than {_MOST_RATIO} times the other")
    wanted = sampled_frames(count, rate, sampling)
    if not wanted:
        least = sampling.frame_factor or 1
        few = f"it has {count} frames" if count < least else f"`max_frames` is {sampling.max_frames}"
        raise refusal(part, f"{few}, and this model looks at {least} at least")
    size = fitted((height, width), part.options)
    if (taken := 3 * size[0] * size[1] * len(wanted)) > MOST_FILM_BYTES:
        most = f"{MOST_FILM_BYTES:,}; lower fps or max_frames, or set resize_shape"
        raise refusal(part, f"its {len(wanted)} frames take {taken:,} bytes, and at most {most}")
    frames = np.empty((len(wanted), 3, *size), np.uint8)
    found = 0
    for frame in _read_frames(part, film, wanted):
        picture = resized(Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)), part.options)
        if (picture.height, picture.width) != size:
            raise refusal(part, "its frames differ in size")
        frames[found] = np.asarray(picture).transpose(2, 0, 1)
        found += 1
    if found < len(wanted):
        raise refusal(part, f"it is broken or truncated: frame {wanted[found]} of {count} can't be read")
    metadata = VideoMetadata(count, rate, wanted, size[1], size[0], count / rate)
    return Film(frames, metadata, (width, height))


def _read_frames(part: MediaPart, film: Any, wanted: Sequence[int]) -> Iterator[Any]:
    """Yield the frames with these ascending numbers, until one can't be read.

    All frames before the last are decoded once. If OpenCV seeks a frame, it decodes from the last key frame on, which
    may be the first of the video, and can't be interrupted.
    """
    begun = time.monotonic()
    place = -1
    for index in wanted:
        while place < index:
            if not film.grab():
                return
            place += 1
            if time.monotonic() - begun > MOST_FILM_SECONDS:
                slow = f"its frames could not be decoded within {MOST_FILM_SECONDS:g} seconds"
                raise refusal(part, f"{slow}; send a shorter or smaller video")
        found, frame = film.retrieve()
        if not found:
            return
        yield frame


def sampled_frames(count: int, rate: float, sampling: VideoSampling) -> list[int]:
    """Return the numbers of a video's frames to use, as in `mlx_vlm.utils.load_video`; [] if it is too short.

    `rate`: the video's frames per second.
    """
    factor = sampling.frame_factor or 1
    least = -(-(sampling.min_frames or 1) // factor) * factor
    most = min(sampling.max_frames or MAX_FRAMES, MAX_FRAMES, count) // factor * factor
    number = int(min(max(count / rate * (sampling.fps or 1.0), least), most)) // factor * factor
    return [int(place) for place in np.linspace(0, count - 1, number).round()] if number else []


def resized(image: Image.Image, options: MediaOptions, *, bounded: bool = True) -> Image.Image:
    """Return an image, resized for the model's processor: see `fitted`."""
    size = fitted((image.height, image.width), options, bounded=bounded)
    if size == (image.height, image.width):
        return image
    return image.resize(size[::-1], Image.Resampling.BICUBIC)


def fitted(size: tuple[int, int], options: MediaOptions, *, bounded: bool = True) -> tuple[int, int]:
    """Return the (height, width) to which an image is resized before the model's processor.

    Proportions are kept. `resize_shape` is a box that the image fills as far as they allow, as in mlx-vlm; "low" detail
    only makes it smaller. `bounded`: apply `min_pixels` and `max_pixels` to the result; False: the processor does.
    """
    height, width = size
    ratio = 1.0
    if options.resize_shape is not None:
        ratio = min(options.resize_shape[0] / height, options.resize_shape[1] / width)
    if options.detail == "low":
        ratio = min(LOW_DETAIL[0] / height, LOW_DETAIL[1] / width, ratio)
    pixels = height * width * ratio**2
    if bounded and options.max_pixels is not None and pixels > options.max_pixels:
        ratio *= math.sqrt(options.max_pixels / pixels)
    elif bounded and options.min_pixels is not None and pixels < options.min_pixels:
        # Round up: fewer pixels would be too few.
        ratio *= math.sqrt(options.min_pixels / pixels)
        return math.ceil(height * ratio), math.ceil(width * ratio)
    return max(1, int(height * ratio)), max(1, int(width * ratio))
