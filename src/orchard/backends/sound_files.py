"""Checks what the header of a sound file says, before anything is decoded. The files may be hostile."""

import struct
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import miniaudio

SAMPLE_RATES = range(4_000, 384_001)
MOST_CHANNELS = 8
_LEAST_UNKNOWN_SIZE = 0x7FFF_0000  # from here on, a WAV file's size only says that its writer did not know it
_MOST_BYTES = 2**32 - 2  # one more means that the size is unknown
_MOST_CHUNKS = 64


class DataSize(NamedTuple):
    """The data size that a WAV file's header should have: the size's place in the file, and its four bytes."""

    place: int
    content: bytes


class UnfitSoundError(Exception):
    """No model can take a sound file; the message is the reason, such as "it has 99 channels …"."""


def read_sound_info(reader: Callable[[Any], Any], source: str | bytes) -> Any | None:
    """Return what a function of miniaudio reads in a header; None if the format is another.

    Raise UnfitSoundError if it has too many channels, or a sample rate that no recorder uses.
    """
    try:
        info = reader(source)
    except miniaudio.MiniaudioError:
        return None
    except ZeroDivisionError as error:  # miniaudio divides by the sample rate
        raise _layout_error("a sample rate of 0 Hz") from error
    _check_layout(info.nchannels, info.sample_rate)
    return info


def _check_layout(channels: int, rate: int) -> None:
    if not 0 < channels <= MOST_CHANNELS or rate not in SAMPLE_RATES:
        raise _layout_error(f"{channels:,} channels at {rate:,} Hz")


def _layout_error(layout: str) -> UnfitSoundError:
    allowed = f"1 to {MOST_CHANNELS} channels at {SAMPLE_RATES.start:,} to {SAMPLE_RATES.stop - 1:,} Hz"
    return UnfitSoundError(f"it has {layout}, and {allowed} are allowed")


def check_wav(file: BinaryIO) -> DataSize | None:
    """Check the header of a WAV file; files of other formats pass.

    If the header gives the data 0 bytes, return the real size: the writer couldn't go back, and the data goes on to the
    end. Raise UnfitSoundError if the file is truncated, or for its channels and sample rate.
    """
    there = file.seek(0, 2)
    file.seek(0)
    try:
        magic, size, form = struct.unpack("<4sI4s", file.read(12))
        if magic not in (b"RIFF", b"RF64") or form != b"WAVE":
            return None
        if magic == b"RIFF" and size < _LEAST_UNKNOWN_SIZE and size + 8 > there:
            raise UnfitSoundError(f"it is truncated: it has {there:,} of {size + 8:,} bytes")
        for _ in range(_MOST_CHUNKS):
            name, size = struct.unpack("<4sI", file.read(8))
            body = file.tell()
            if name == b"fmt ":
                _check_layout(*struct.unpack("<2xHI", file.read(8)))
            elif name == b"data":
                size_left = min(there - body, _MOST_BYTES)
                return None if size or magic != b"RIFF" else DataSize(body - 4, struct.pack("<I", size_left))
            file.seek(body + size + size % 2)
    except struct.error:  # the file ends here: the decoder says so
        pass
    return None
