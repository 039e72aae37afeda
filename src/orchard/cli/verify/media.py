"""Pictures and a recording for the checks, made here: nothing of the user's, and no library of images."""

import base64
import io
import math
import struct
import wave
import zlib
from collections.abc import Callable

_SIDE = 128  # pixels
_RATE = 16_000  # samples per second
_WHITE = bytes((255, 255, 255))

_SHAPES: dict[str, tuple[tuple[int, int, int], Callable[[float, float], bool]]] = {
    "a blue square": ((30, 60, 220), lambda x, y: max(abs(x), abs(y)) < 0.5),
    "a red circle": ((220, 30, 30), lambda x, y: x * x + y * y < 0.3),
    "a green triangle": ((20, 160, 60), lambda x, y: -0.6 < y < 0.6 and abs(x) < (0.6 + y) / 2),
}
PICTURES = tuple(_SHAPES)
"""What is in the pictures."""
PITCHES = (110.0, 160.0)
"""Of the recordings, in Hz."""


def draw_picture(name: str) -> bytes:
    """Return the PNG file of one of `PICTURES`. The format: https://www.w3.org/TR/png-3/."""
    colour, is_inside = _SHAPES[name]
    places = [2 * (place + 0.5) / _SIDE - 1 for place in range(_SIDE)]
    rows = (b"\0" + b"".join(bytes(colour) if is_inside(x, y) else _WHITE for x in places) for y in places)
    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def picture_url(name: str) -> str:
    """Return a picture as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(draw_picture(name)).decode()}"


def make_recording(pitch: float) -> bytes:
    """Return three seconds of a voice-like sound, as a WAV file: a buzz in syllables, whose vowels change."""
    samples = []
    for number in range(3 * _RATE):
        second = number / _RATE
        loudness = max(0.0, math.sin(2 * math.pi * 3 * second)) ** 0.5
        formants = 500 + 300 * math.sin(2 * math.pi * second), 1500 + 500 * math.cos(2 * math.pi * 0.7 * second)
        sound = sum(
            math.sin(2 * math.pi * pitch * harmonic * second)
            * sum(math.exp(-(((pitch * harmonic - formant) / 200) ** 2)) for formant in formants)
            for harmonic in range(1, 16)
        )
        samples.append(round(max(-1.0, min(1.0, 0.3 * loudness * sound)) * 32767))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(_RATE)
        writer.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return file.getvalue()
