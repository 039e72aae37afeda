"""Decodes recordings of any length into samples, one block at a time. The files may be hostile."""

import math
import os
import struct
from collections.abc import Iterator
from typing import Any

import miniaudio
import numpy as np
from numpy.typing import NDArray

from orchard.backends.audio import ffmpeg
from orchard.core.errors import OrchardError

RATE = 16_000
"""The samples per second of decoded recordings."""
MOST_SECONDS = 24 * 3600
_LEAST_SECONDS = 0.1
_BLOCK = 30 * RATE
_SAMPLE_RATES = range(4_000, 384_001)
_MOST_CHANNELS = 8
_UNKNOWN_SIZE = 0x7FFF_0000  # of a WAV file whose writer could not go back to its header
_MP3_FRAME = 1152  # samples; miniaudio drops the last frame if a tag follows it
_FILTER_ZEROS = 64  # of the resampling filter of mlx-audio, on each side
# What ffmpeg may read. A playlist would make it open other files.
_FORMATS = "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,matroska,webm,mov,mp4,m4a,mp3,mpeg,mpegts,ogg,w64,wav,wv"

Samples = NDArray[np.float32]


def decode(path: str, param: str) -> Iterator[Samples]:
    """Yield mono samples in [-1, 1], 16,000 a second, in blocks of about 30 s.

    WAV, MP3 and FLAC are read here, everything else by ffmpeg. Raise OrchardError("invalid_request") that blames the
    field `param` if the file is empty, broken, truncated, silent or too long, or if ffmpeg is missing.
    """
    loudest, taken = 0.0, 0
    for block in _even(_decoded(path, param)):
        taken += len(block)
        if taken > MOST_SECONDS * RATE:
            raise refusal(param, f"it lasts more than {MOST_SECONDS // 3600} hours")
        loudest = max(loudest, float(np.abs(block).max()))
        yield block
    if taken < _LEAST_SECONDS * RATE:
        raise refusal(param, f"it lasts less than {_LEAST_SECONDS} seconds")
    if loudest < 1e-4:
        raise refusal(param, "it is silent: no sample is louder than -80 dB")


def _even(blocks: Iterator[Samples]) -> Iterator[Samples]:
    """Yield the same samples in blocks of 30 s; the last one may be shorter, none is empty."""
    held: list[Samples] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _BLOCK:
            whole = np.concatenate(held)
            for at in range(0, size - _BLOCK + 1, _BLOCK):
                yield whole[at : at + _BLOCK]
            held = [whole[size // _BLOCK * _BLOCK :]]
            size %= _BLOCK
    if size:
        yield np.concatenate(held)


def _decoded(path: str, param: str) -> Iterator[Samples]:
    with open(path, "rb") as file:
        head = file.read(12)
    if not head:
        raise refusal(param, "it is empty")
    if (info := _info(path, head)) is None:
        return _by_ffmpeg(path, param)
    _check(path, param, head, info)
    return resampled(_by_miniaudio(path, param, info), info.sample_rate)


def _info(path: str, head: bytes) -> Any | None:
    """Return what the header of a WAV, FLAC or MP3 file says; None for another format."""
    reader = None
    if head[:4] in (b"RIFF", b"RF64", b"riff") and head[8:12] == b"WAVE":
        reader = miniaudio.wav_get_file_info
    elif head[:4] == b"fLaC":
        reader = miniaudio.flac_get_file_info
    elif head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2):  # layer III
        reader = miniaudio.mp3_get_file_info
    try:
        return reader(path) if reader else None
    except miniaudio.MiniaudioError:  # ffmpeg knows more formats, or says what is wrong
        return None


def _check(path: str, param: str, head: bytes, info: Any) -> None:
    """Reject what no model can take, and a WAV file that is shorter than its header says: miniaudio would read it."""
    if not 0 < info.nchannels <= _MOST_CHANNELS or info.sample_rate not in _SAMPLE_RATES:
        heard = f"{info.nchannels} channels at {info.sample_rate:,} Hz"
        allowed = f"up to {_MOST_CHANNELS} channels at {_SAMPLE_RATES.start:,} to {_SAMPLE_RATES.stop - 1:,} Hz"
        raise refusal(param, f"it has {heard}, and {allowed} are allowed")
    (size,) = struct.unpack_from("<I", head, 4)
    there = os.path.getsize(path)
    if head[:4] == b"RIFF" and size < _UNKNOWN_SIZE and size + 8 > there:
        raise refusal(param, f"it is truncated: it has {there:,} of {size + 8:,} bytes")


def _by_miniaudio(path: str, param: str, info: Any) -> Iterator[Samples]:
    taken = 0
    try:
        for piece in miniaudio.stream_file(
            path, nchannels=1, sample_rate=info.sample_rate, frames_to_read=10 * info.sample_rate
        ):
            taken += len(piece)
            yield np.frombuffer(piece, np.int16).astype(np.float32) / np.float32(32768)
    except miniaudio.MiniaudioError as error:
        raise refusal(param, f"it is broken ({str(error)[:200]})") from error
    droppable = _MP3_FRAME if info.file_format == miniaudio.FileFormat.MP3 else 0
    if taken + droppable < info.num_frames:
        raise refusal(param, f"it is truncated: it has {taken:,} of {info.num_frames:,} samples")


def _by_ffmpeg(path: str, param: str) -> Iterator[Samples]:
    reads = ["-protocol_whitelist", "file", "-format_whitelist", _FORMATS, "-xerror", "-i", f"file:{path}"]
    writes = ["-map", "0:a:0", "-ac", "1", "-ar", str(RATE), "-f", "f32le", "pipe:1"]
    rest = b""
    try:
        with ffmpeg.Ffmpeg([*reads, *writes]) as program:
            for piece in program.rest():
                whole = rest + piece
                end = len(whole) // 4 * 4
                rest = whole[end:]
                yield np.nan_to_num(np.frombuffer(whole[:end], "<f4")).clip(-1, 1).astype(np.float32)
    except ffmpeg.FfmpegError as error:
        if str(error) == ffmpeg.MISSING:
            raise refusal(param, f"it is not a WAV, MP3 or FLAC file. {error}, or send one of those") from error
        raise refusal(param, f"it is broken, or of a format that is not supported ({error})") from error


def resampled(blocks: Iterator[Samples], rate: int) -> Iterator[Samples]:
    """Yield resampled blocks: together, they equal mlx-audio's result for the whole recording."""
    if rate == RATE:
        yield from blocks
        return
    from mlx_audio.resample import resample_audio_array  # imports scipy.signal, which takes half of a worker's start

    up, down = RATE // math.gcd(rate, RATE), rate // math.gcd(rate, RATE)
    # Cut at multiples of `down`, where samples of the result coincide with given samples.
    halo = -(-(_FILTER_ZEROS * max(up, down) + down) // (up * down)) * down
    held, before = np.zeros(0, np.float32), 0
    for block in blocks:
        held = np.concatenate([held, block])
        core = (len(held) - before - halo) // down * down
        if core < 10 * rate:
            continue
        made = resample_audio_array(held[: before + core + halo], rate, RATE)
        yield made[before * up // down : (before + core) * up // down]
        held, before = held[before + core - halo :], halo
    if len(held) > before:
        yield resample_audio_array(held, rate, RATE)[before * up // down :]


def refusal(param: str, why: str) -> OrchardError:
    """Return the error for a recording that can't be used."""
    return OrchardError("invalid_request", f"the recording can't be read: {why}", param=param)
