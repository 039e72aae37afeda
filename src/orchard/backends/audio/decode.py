"""Decodes recordings into samples, one block at a time. The files may be hostile."""

from collections.abc import Iterator
from typing import Any

import miniaudio
import numpy as np

from orchard.backends import ffmpeg
from orchard.backends.resampling import Samples, resample
from orchard.backends.sound_files import DataSize, UnfitSoundError, check_wav, read_sound_info
from orchard.core.errors import OrchardError

RATE = 16_000
"""The samples per second of decoded recordings."""
MOST_SECONDS = 24 * 3600
_LEAST_SECONDS = 0.1
_MP3_FRAME = 1152  # samples; miniaudio drops the last frame if a tag follows it
# The formats that ffmpeg may read. A playlist would make it open other files.
_FORMATS = "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,matroska,webm,mov,mp4,m4a,mp3,mpeg,mpegts,ogg,w64,wav,wv"


class SilentError(Exception):
    """No sample of a recording is louder than -80 dB; `seconds` is its length."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds} seconds of silence")
        self.seconds = seconds


def decode_recording(path: str, param: str, rate: int = RATE) -> Iterator[Samples]:
    """Yield mono samples in [-1, 1], `rate` a second, in blocks of 30 s.

    WAV, MP3 and FLAC are read here, everything else by ffmpeg. Raise OrchardError("invalid_request") that blames the
    field `param` if the file is empty, broken, truncated or too long, or if ffmpeg is missing. Raise SilentError
    at the end of a silent recording: models hear words in silence.
    """
    loudest, taken = 0.0, 0
    for block in _regroup_blocks(_decode_blocks(path, param, rate), 30 * rate):
        taken += len(block)
        if taken > MOST_SECONDS * rate:
            raise recording_refusal(param, f"it lasts more than {MOST_SECONDS // 3600} hours")
        loudest = max(loudest, float(np.abs(block).max()))
        yield block
    if taken < _LEAST_SECONDS * rate:
        raise recording_refusal(param, f"it lasts less than {_LEAST_SECONDS} seconds")
    if loudest < 1e-4:
        raise SilentError(taken / rate)


def _regroup_blocks(blocks: Iterator[Samples], length: int) -> Iterator[Samples]:
    """Yield the same samples in blocks of `length`; the last one may be shorter, none is empty."""
    held: list[Samples] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= length:
            whole = np.concatenate(held)
            for at in range(0, size - length + 1, length):
                yield whole[at : at + length]
            held = [whole[size // length * length :]]
            size %= length
    if size:
        yield np.concatenate(held)


def _decode_blocks(path: str, param: str, rate: int) -> Iterator[Samples]:
    try:
        with open(path, "rb") as file:
            head = file.read(12)
            size = check_wav(file)
        if not head:
            raise recording_refusal(param, "it is empty")
        if (info := _read_header(path, head)) is None:  # ffmpeg knows more formats, or says what is wrong
            return _decode_with_ffmpeg(path, param, rate)
    except UnfitSoundError as error:
        raise recording_refusal(param, str(error)) from error
    return resample(_decode_with_miniaudio(path, param, info, size), info.sample_rate, rate)


def _read_header(path: str, head: bytes) -> Any | None:
    """Return what the header of a WAV, FLAC or MP3 file says; None for another format."""
    reader = None
    if head[:4] in (b"RIFF", b"RF64", b"riff") and head[8:12] == b"WAVE":
        reader = miniaudio.wav_get_file_info
    elif head[:4] == b"fLaC":
        reader = miniaudio.flac_get_file_info
    elif head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2):  # layer III
        reader = miniaudio.mp3_get_file_info
    return read_sound_info(reader, path) if reader else None


class _WavSource(miniaudio.StreamableSource):  # type: ignore[misc]
    """Reads a WAV file as if its header contained the size of its data."""

    def __init__(self, path: str, size: DataSize) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - `close` does
        self._size = size

    def read(self, num_bytes: int) -> bytes:
        begin = self._file.tell()
        piece = bytearray(self._file.read(num_bytes))
        for place, byte in enumerate(self._size.content, self._size.place - begin):
            if 0 <= place < len(piece):
                piece[place] = byte
        return bytes(piece)

    def seek(self, offset: int, origin: miniaudio.SeekOrigin) -> bool:
        self._file.seek(offset, origin.value)
        return True

    def close(self) -> None:
        self._file.close()


def _miniaudio_pieces(path: str, rate: int, size: DataSize | None) -> Iterator[Any]:
    """Yield mono pieces of 10 s. `size`: see `check_wav`."""
    layout = {"nchannels": 1, "sample_rate": rate, "frames_to_read": 10 * rate}
    if size is None:
        yield from miniaudio.stream_file(path, **layout)
        return
    with _WavSource(path, size) as source:
        yield from miniaudio.stream_any(source, miniaudio.FileFormat.WAV, **layout)


def _decode_with_miniaudio(path: str, param: str, info: Any, size: DataSize | None) -> Iterator[Samples]:
    taken = 0
    try:
        for piece in _miniaudio_pieces(path, info.sample_rate, size):
            taken += len(piece)
            yield np.frombuffer(piece, np.int16).astype(np.float32) / np.float32(32768)
    except miniaudio.MiniaudioError as error:
        raise recording_refusal(param, f"it is broken ({str(error)[:200]})") from error
    droppable = _MP3_FRAME if info.file_format == miniaudio.FileFormat.MP3 else 0
    if taken + droppable < info.num_frames:
        raise recording_refusal(param, f"it is truncated: it has {taken:,} of {info.num_frames:,} samples")


def _decode_with_ffmpeg(path: str, param: str, rate: int) -> Iterator[Samples]:
    reads = ["-protocol_whitelist", "file", "-format_whitelist", _FORMATS, "-xerror", "-i", f"file:{path}"]
    writes = ["-map", "0:a:0", "-ac", "1", "-ar", str(rate), "-f", "f32le", "pipe:1"]
    rest = b""
    try:
        with ffmpeg.Ffmpeg([*reads, *writes]) as program:
            for piece in program.read_rest():
                whole = rest + piece
                end = len(whole) // 4 * 4
                rest = whole[end:]
                yield np.nan_to_num(np.frombuffer(whole[:end], "<f4")).clip(-1, 1).astype(np.float32)
    except ffmpeg.FfmpegError as error:
        if str(error) == ffmpeg.MISSING_MESSAGE:
            raise recording_refusal(
                param, f"it is not a WAV, MP3 or FLAC file. {error}, or send one of those"
            ) from error
        raise recording_refusal(param, f"it is broken, or of a format that is not supported ({error})") from error


def recording_refusal(param: str, why: str) -> OrchardError:
    """Return the error for a recording that can't be used."""
    return OrchardError("invalid_request", f"the recording can't be read: {why}", param=param)
