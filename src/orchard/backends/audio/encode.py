"""Encodes audio in OpenAI's formats, piece by piece: each piece is encoded before the next one arrives."""

import struct
from typing import Protocol

import numpy as np
import soundfile
from numpy.typing import NDArray

from orchard.backends.ffmpeg import MISSING_MESSAGE, Ffmpeg, FfmpegError, find_ffmpeg
from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE, SoundFormat

_PCM = ["-f", "s16le", "-ar", str(RATE), "-ac", "1"]
# libsndfile's format and subtype.
_SNDFILE_FORMATS = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
_UNKNOWN_SIZE = 2**32 - 1  # for a file that is still growing
_LARGEST_STRETCH = 2.0  # the highest speed at which one filter drops no samples


class SoundEncoder(Protocol):
    """Encodes mono audio at `RATE` as a file."""

    def feed(self, sound: NDArray[np.int16]) -> bytes:
        """Encode the next samples; return the bytes of the file that are ready."""
        ...

    def end(self) -> bytes:
        """Return the last bytes of the file."""
        ...

    def close(self) -> None:
        """Free what the encoder holds; further calls do nothing."""
        ...


def check_sound_format(format: SoundFormat, speed: float) -> None:
    """Raise OrchardError (invalid_request) if the format or the speed needs ffmpeg, which is missing."""
    if find_ffmpeg() is None:
        if format not in (*_SNDFILE_FORMATS, "wav", "pcm"):
            raise OrchardError(
                "invalid_request", f"'{format}' needs ffmpeg: {MISSING_MESSAGE}", param="response_format"
            )
        if speed != 1:
            raise OrchardError(
                "invalid_request", f"a `speed` other than 1 needs ffmpeg: {MISSING_MESSAGE}", param="speed"
            )


def open_encoder(format: SoundFormat, speed: float = 1.0) -> SoundEncoder:
    """Return an encoder that also changes the speed of the audio, but not its pitch. Raise FfmpegError."""
    filters = _tempo_filters(speed)
    if format == "aac":
        return _FfmpegEncoder([*_PCM, "-i", "pipe:0", *filters, "-c:a", "aac", "-f", "adts", "pipe:1"])
    encoder: SoundEncoder = (
        _SndfileEncoder(*_SNDFILE_FORMATS[format]) if format in _SNDFILE_FORMATS else _PcmEncoder(format == "wav")
    )
    if not filters:
        return encoder
    try:
        return _SpeedEncoder(_FfmpegEncoder([*_PCM, "-i", "pipe:0", *filters, *_PCM, "pipe:1"]), encoder)
    except FfmpegError:
        encoder.close()
        raise


def _tempo_filters(speed: float) -> list[str]:
    """Return ffmpeg's filters for a speed, split into factors at which no filter drops samples."""
    factors: list[float] = []
    while not 1 / _LARGEST_STRETCH <= speed <= _LARGEST_STRETCH:
        factors.append(_LARGEST_STRETCH if speed > 1 else 1 / _LARGEST_STRETCH)
        speed /= factors[-1]
    factors += [speed] if speed != 1 else []
    return ["-filter:a", ",".join(f"atempo={factor:g}" for factor in factors)] if factors else []


class _PcmEncoder:
    """Keeps samples as they are; WAV's header leaves the length open (http://soundfile.sapp.org/doc/WaveFormat)."""

    def __init__(self, header: bool) -> None:
        self._begin = _wav_header() if header else b""

    def feed(self, sound: NDArray[np.int16]) -> bytes:
        begin, self._begin = self._begin, b""
        return begin + sound.astype("<i2").tobytes()

    def end(self) -> bytes:
        return self._begin

    def close(self) -> None:
        pass


def _wav_header() -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", _UNKNOWN_SIZE, b"WAVE") + form + struct.pack("<4sI", b"data", _UNKNOWN_SIZE)


class _GrowingFile:
    """A file that only grows: it drops later writes to its header, which set its length."""

    def __init__(self) -> None:
        self._at = self._size = 0
        self._new = bytearray()

    def take(self) -> bytes:
        """Return what was written since the last call."""
        new, self._new = bytes(self._new), bytearray()
        return new

    def write(self, data: bytes) -> int:
        self._new += data[max(0, self._size - self._at) :]
        self._at += len(data)
        self._size = max(self._size, self._at)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass


class _SndfileEncoder:
    """An encoder that uses libsndfile."""

    def __init__(self, format: str, subtype: str) -> None:
        self._written = _GrowingFile()
        self._file = soundfile.SoundFile(self._written, "w", RATE, 1, subtype, format=format)

    def feed(self, sound: NDArray[np.int16]) -> bytes:
        self._file.write(sound)
        return self._written.take()

    def end(self) -> bytes:
        self._file.close()
        return self._written.take()

    def close(self) -> None:
        self._file.close()


class _FfmpegEncoder:
    """An encoder that uses ffmpeg."""

    def __init__(self, arguments: list[str]) -> None:
        self._ffmpeg: Ffmpeg | None = Ffmpeg(arguments)

    def feed(self, sound: NDArray[np.int16]) -> bytes:
        assert self._ffmpeg
        return self._ffmpeg.feed(sound.astype("<i2").tobytes())

    def end(self) -> bytes:
        assert self._ffmpeg
        return b"".join(self._ffmpeg.read_rest())

    def close(self) -> None:
        if self._ffmpeg:
            self._ffmpeg.close()
            self._ffmpeg = None


class _SpeedEncoder:
    """An encoder that stretches samples before another encoder gets them."""

    def __init__(self, stretcher: _FfmpegEncoder, encoder: SoundEncoder) -> None:
        self._stretcher = stretcher
        self._encoder = encoder
        self._half = b""  # of a sample

    def feed(self, sound: NDArray[np.int16]) -> bytes:
        return self._encode_samples(self._stretcher.feed(sound))

    def end(self) -> bytes:
        return self._encode_samples(self._stretcher.end()) + self._encoder.end()

    def close(self) -> None:
        self._stretcher.close()
        self._encoder.close()

    def _encode_samples(self, samples: bytes) -> bytes:
        samples = self._half + samples
        whole = len(samples) // 2 * 2
        self._half = samples[whole:]
        return self._encoder.feed(np.frombuffer(samples[:whole], "<i2").astype(np.int16))
