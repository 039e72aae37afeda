"""Decodes images, audio and video into pixels and samples. Files may be hostile, so everything has a limit.

Images and audio are decoded in the caller's thread: a file within the limits takes about ten seconds at most, depending
on its size; reading a header or a block of sound takes hundredths of a second. A single video frame may take hours
without a return to Python, so a separate process decodes videos (`film.py`).
"""

import io
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import miniaudio
import msgspec
import numpy as np
from mlx_vlm.utils import VideoMetadata, VideoSampling
from numpy.typing import NDArray
from PIL import Image

from orchard.backends.helper_process import HelperLimits, HelperProcess, TooLargeError, TooSlowError
from orchard.backends.picture_files import open_picture
from orchard.backends.resampling import Samples, resample
from orchard.backends.sound_files import UnfitSoundError, check_wav, read_sound_info
from orchard.backends.vision.film import LIMITS, MOST_RATIO, FilmHead, FilmRequest, FrameSampling
from orchard.core.errors import short_message
from orchard.core.media import MediaPart, media_error

MOST_SOUND_SECONDS = 1800
MOST_SOUND_SAMPLES = MOST_SOUND_SECONDS * 48_000  # of each channel: a few bytes of FLAC may be gigabytes
_FRAMES_AT_ONCE = 65_536
# Formats that Pillow decodes by itself, without starting a program (EPS) or downloading anything (SVG).
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_film_heads = msgspec.msgpack.Decoder(FilmHead)


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
    return open_picture(part, _FORMATS, most_ratio=MOST_RATIO, mode="RGB")


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
        raise media_error(part, str(error)) from error
    return np.concatenate(list(resample(_decode_sound_blocks(part, data, info), info.sample_rate, sample_rate)))


def _sound_info(part: MediaPart, data: bytes) -> Any:
    for reader in (miniaudio.wav_get_info, miniaudio.flac_get_info, miniaudio.mp3_get_info):
        if info := read_sound_info(reader, data):
            return info
    raise media_error(part, "it is not WAV, MP3 or FLAC audio, or it is broken")


def _decode_sound_blocks(part: MediaPart, data: bytes, info: Any) -> Iterator[Samples]:
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
                raise media_error(part, f"it lasts more than {most / info.sample_rate:,.0f} seconds")
            yield (channels.astype(np.float32) / 32768).mean(axis=1)
    except miniaudio.MiniaudioError as error:
        raise media_error(part, f"it is broken ({short_message(error)})") from error
    if taken < max(info.num_frames, 1):
        raise media_error(part, f"it is truncated: it has {taken:,} of {info.num_frames:,} samples")


class FilmDecoder:
    """Decodes videos in a process, which the first video starts. Only one thread may call `decode`."""

    def __init__(self, limits: HelperLimits = LIMITS) -> None:
        self._process = HelperProcess("orchard.backends.vision.film:make_film_answer", limits)

    def decode(self, part: MediaPart, sampling: VideoSampling) -> Film:
        """Return sampled frames of a video, resized as its options say. In `sampling`, only nframes may be None.

        Raise OrchardError("invalid_request") that blames the part if it is broken, too short or too large, or if
        decoding it takes too much.
        """
        sampled = msgspec.convert(asdict(sampling), FrameSampling)
        # ffmpeg seeks in the file. The folder has no other file that a name in a hostile file could refer to.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "video")
            file.write_bytes(part.data)
            try:
                return self._read_film(FilmRequest(str(file), sampled, part.options))
            except ValueError as error:
                raise media_error(part, str(error)) from error
            except TooSlowError as error:
                slow = f"its frames could not be decoded within {self._process.limits.seconds:g} seconds"
                raise media_error(part, f"{slow}; send a shorter or smaller video") from error
            except TooLargeError as error:
                raise media_error(part, "it is broken, or decoding it takes too much memory") from error

    def _read_film(self, request: FilmRequest) -> Film:
        pieces = self._process.ask(msgspec.msgpack.encode(request))
        head = _film_heads.decode(next(pieces))
        height, width = head.frame_size
        frames = np.empty((len(head.frame_numbers), 3, height, width), np.uint8)
        for place, piece in enumerate(pieces):
            frames[place] = np.frombuffer(piece, np.uint8).reshape(3, height, width)
        metadata = VideoMetadata(head.count, head.rate, head.frame_numbers, width, height, head.count / head.rate)
        return Film(frames, metadata, head.size)

    def close(self) -> None:
        """End the process. Any thread may call this."""
        self._process.close()
