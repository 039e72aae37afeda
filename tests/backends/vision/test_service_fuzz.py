"""Real files of media, made wrong at random: each is read, or refused as the caller's fault; the worker goes on.

`make test-deep` tries 10,000. `FUZZ_REQUESTS` says how many else, and `FUZZ_SEED` chooses others.
"""

import io
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest
from PIL import Image

from orchard.backends.vision.service import VisionService
from orchard.core.events import Event, Failed, Started, collect
from orchard.core.media import MediaKind, MediaPart
from orchard.core.tasks.generate import Count, Generate, Message, Sampling, TextPart
from tests.support.bombs import bombs
from tests.support.fuzzing import AMOUNT, SEED
from tests.support.media import film, picture, sound, video, wav
from tests.support.sounds import encoded
from tests.support.worker_caller import serving

FILES = AMOUNT if AMOUNT >= 1000 else AMOUNT // 8  # where time matters, few
PARAM = "messages[0].content[0]"
NUMBERS = [b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\1\0\0", b"\0\0\0\x80"]


def pictures() -> list[bytes]:
    """A picture in every format that is read, in several ways."""
    image = picture(1, 40, 56)
    ways: list[tuple[Image.Image, str, dict[str, Any]]] = [
        *((image, name, {}) for name in ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "AVIF")),
        (image.quantize(16), "GIF", {"save_all": True, "append_images": [picture(2, 40, 56).quantize(16)]}),
        (image, "JPEG", {"progressive": True}),
        (image, "WEBP", {"lossless": True}),
        *((image, "TIFF", {"compression": name}) for name in ("tiff_lzw", "jpeg", "tiff_deflate")),
        (image.convert("1"), "TIFF", {"compression": "group4"}),
        *((image.convert(mode), "PNG", {}) for mode in ("I;16", "RGBA", "P")),
        (image.convert("CMYK"), "JPEG", {}),
    ]
    files = [io.BytesIO() for _ in ways]
    for file, (given, name, options) in zip(files, ways, strict=True):
        given.save(file, name, **options)
    return [file.getvalue() for file in files]


def sounds() -> list[bytes]:
    """A sound in every format that is read, in several ways."""
    plain = wav(sound(1, 0.3))
    codecs = (encoded(plain, "-f", "wav", "-c:a", name) for name in ("pcm_f32le", "pcm_alaw", "adpcm_ms"))
    return [plain, encoded(plain, "-f", "mp3"), encoded(plain, "-f", "flac"), *codecs]


def films(folder: Path) -> list[bytes]:
    """A film in formats of many kinds."""
    first = folder / "film.avi"
    first.write_bytes(video(film(1, 6)))
    found = [first.read_bytes()]
    for name, codec in (("a.mp4", "libx264"), ("b.mp4", "mpeg4"), ("c.webm", "libvpx-vp9"), ("d.mov", "mjpeg")):
        made = folder / name
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(first), "-c:v", codec]
        subprocess.run([*command, "-pix_fmt", "yuvj420p" if codec == "mjpeg" else "yuv420p", str(made)], check=True)
        found.append(made.read_bytes())
    return found


def damaged(rng: random.Random, file: bytes) -> bytes:
    """Change a file in a few places, most of them near its beginning, where sizes and kinds are said."""
    data = bytearray(file)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(min(len(data), 200) if rng.random() < 0.6 else len(data))
        length = rng.randrange(1, 64)
        match rng.randrange(7):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice([0, 1, 127, 128, 255])
            case 2:
                data[at : at + 4] = rng.choice(NUMBERS)
            case 3:
                del data[at + 1 : at + length]
            case 4:
                data[at:at] = rng.randbytes(length)
            case 5:
                data[at:at] = data[at : at + length]
            case 6 if rng.random() < 0.3:
                del data[at + 1 :]
    return bytes(data)


def asked(kind: MediaKind, data: bytes) -> Generate:
    part = MediaPart(kind, "", PARAM, data=data)
    return Generate((Message("user", (part, TextPart("?"))),), sampling=Sampling(temperature=0.0), max_tokens=2)


@pytest.mark.timeout(3600)
async def test_broken_files(vision_folder: Callable[[str], Path], tmp_path: Path) -> None:
    files: dict[MediaKind, list[bytes]] = {"image": pictures(), "audio": sounds(), "video": films(tmp_path)}
    outcomes: Counter[str] = Counter()
    faults: list[str] = []

    def note(name: str, event: Event) -> None:
        match event:
            case Failed("invalid_request", str(message), str(param)) if param == PARAM:
                outcomes[message.split(":")[1][:25]] += 1
            case Failed():
                faults.append(f"{name}: {event}")
            case _:
                outcomes["read"] += 1

    async with serving(vision_folder("qwen3_omni_moe"), VisionService) as caller:
        for kind, whole in files.items():
            for number, data in enumerate(whole):
                (first, *_) = await caller.stream("whole", Count(asked(kind, data)))
                assert isinstance(first, Started), (kind, number, first)
        for number, data in enumerate(bombs()):
            note(f"bomb {number}", (await caller.stream("bomb", Count(asked("image", data))))[-1])
        files["image"] += bombs()
        for number in range(FILES):
            rng = random.Random(f"{SEED}:{number}")
            kind = rng.choice(list(files))
            task = asked(kind, damaged(rng, rng.choice(files[kind])))
            # Most are only prepared; some are looked at, too.
            events = await caller.stream(str(number), Count(task) if number % 20 else task)
            note(f"{SEED}:{number} ({kind})", events[-1])
        assert collect(await caller.stream("after", asked("image", files["image"][0]))).choices[0].text
    print(f"{FILES} files: {dict(outcomes.most_common())}")
    assert not faults, f"{len(faults)} of {FILES} fail:\n" + "\n".join(faults[:20])
    assert outcomes["read"]
    assert len(outcomes) > 3, outcomes
