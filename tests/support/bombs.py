"""Pictures of few bytes that ask for much: huge canvases, frames and tiles, thousands of frames, thousands of scans."""

import io
import struct
import zlib
from typing import Any

from PIL import Image

_GIF_PIXEL = b"\x02\x02\x44\x01\x00"  # one pixel, in codes of three bits


def bombs() -> list[bytes]:
    """All of them; those with many frames, whose canvas is small, can be read."""
    huge = [gif(65_535, 1), gif(1, 65_535), webp(16_384), tiff(65_535), tiff(2**31 - 1), avif(16_384), avif(65_535)]
    inner = [tiff(40, tile=2**15), tiff(40, tile=2**31), jpeg(8000, 5000, 500)]
    return [*huge, *inner, gif(40, 1, frames=3000), webp(40, frames=3000), tiff(40, frames=3000)]


def gif(canvas: int, frame: int, frames: int = 1) -> bytes:
    """Make a GIF whose canvas and frames are squares of these sides; each frame ends after its first pixel."""
    one = b"," + struct.pack("<4HB", 0, 0, frame, frame, 0) + _GIF_PIXEL
    return b"GIF89a" + struct.pack("<2H3B", canvas, canvas, 0x80, 0, 0) + bytes(6) + one * frames + b";"


def webp(canvas: int, frames: int = 1) -> bytes:
    """Make an animated WebP, a square, whose frames have one pixel."""
    pixel = _saved(Image.new("RGB", (1, 1)), "WEBP", lossless=True)[12:]
    frame = _chunk(b"ANMF", bytes(12) + _uint24(100) + b"\0" + pixel)
    head = _chunk(b"VP8X", struct.pack("<I", 2) + _uint24(canvas - 1) * 2) + _chunk(b"ANIM", bytes(6))
    content = b"WEBP" + head + frame * frames
    return b"RIFF" + struct.pack("<I", len(content)) + content


def tiff(side: int, *, tile: int = 0, frames: int = 1) -> bytes:
    """Make a grey TIFF, a square, that has all it says it has in one short strip, or in one tile of that side."""
    data = zlib.compress(bytes(48 * 48))
    tags = {256: side, 257: side, 258: 8, 259: 8, 262: 1, 277: 1}
    tags |= {322: tile, 323: tile, 324: 8, 325: len(data)} if tile else {273: 8, 278: side, 279: len(data)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    first = 8 + len(data)
    size = 2 + len(entries) + 4
    nexts = [first + number * size for number in range(1, frames)] + [0]
    directories = (struct.pack("<H", len(tags)) + entries + struct.pack("<I", place) for place in nexts)
    return b"II*\0" + struct.pack("<I", first) + data + b"".join(directories)


def avif(side: int) -> bytes:
    """Make an AVIF that says that it is a square of that side; what is in it is smaller."""
    small = _saved(Image.new("RGB", (16, 16)), "AVIF", speed=10)
    return _replaced(small, b"ispe" + bytes(4), ">II", (16, 16), side, side)


def jpeg(width: int, height: int, scans: int) -> bytes:
    """Make a progressive JPEG of that size that repeats its last scan; the others are those of a small picture."""
    small = _saved(Image.new("L", (16, 16), 90), "JPEG", progressive=True)
    file = _replaced(small, b"\xff\xc2\x00\x0b\x08", ">HH", (16, 16), height, width)
    last = file[file.rindex(b"\xff\xda") : -2]
    return file[:-2] + last * scans + file[-2:]


def jpeg_of_scans(width: int, height: int, scans: int) -> bytes:
    """Make a progressive JPEG that repeats its last scan of 70 bytes; FFmpeg decodes all of them, too."""
    file = _saved(Image.new("L", (width, height), 90), "JPEG", progressive=True)
    last = file[file.rindex(b"\xff\xda") : -2]
    return file[:-2] + last * scans + file[-2:]


def film_of(picture: bytes, second: bytes | None = None) -> bytes:
    """Make an AVI whose two frames are this JPEG, or this one and a second."""
    width, height = Image.open(io.BytesIO(picture)).size
    head = struct.pack("<14I", 200_000, 0, 0, 0, 2, 0, 1, len(picture), width, height, 0, 0, 0, 0)
    stream = b"vidsMJPG" + struct.pack("<10I4H", 0, 0, 0, 1, 5, 0, 2, len(picture), 0, 0, 0, 0, width, height)
    kind = struct.pack("<IiiHH4s5I", 40, width, height, 1, 24, b"MJPG", 0, 0, 0, 0, 0)
    streams = _chunk(b"LIST", b"strl" + _chunk(b"strh", stream) + _chunk(b"strf", kind))
    lists = _chunk(b"LIST", b"hdrl" + _chunk(b"avih", head) + streams)
    lists += _chunk(b"LIST", b"movi" + _chunk(b"00dc", picture) + _chunk(b"00dc", second or picture))
    return _chunk(b"RIFF", b"AVI " + lists)


def _saved(image: Image.Image, name: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def _replaced(file: bytes, head: bytes, form: str, said: tuple[int, int], *size: int) -> bytes:
    """Return a file that says another size after `head`."""
    old = head + struct.pack(form, *said)
    assert file.count(old) == 1
    return file.replace(old, head + struct.pack(form, *size))


def _uint24(number: int) -> bytes:
    return struct.pack("<I", number)[:3]


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)
