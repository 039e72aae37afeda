"""Pictures, sounds and films of noise: no two of different seeds are alike in any part."""

import io
import subprocess
import tempfile
import wave
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from PIL import Image

SAMPLE_RATE = 16_000
LOSSLESS = ("-c:v", "ffv1", "-pix_fmt", "bgr0")


def picture(seed: int, height: int = 32, width: int = 48) -> Image.Image:
    """Blocks of 4 x 4 pixels, each of a colour of its own."""
    noise = np.random.default_rng(seed).integers(0, 256, (-(-height // 4), -(-width // 4), 3), dtype=np.uint8)
    return Image.fromarray(noise.repeat(4, axis=0).repeat(4, axis=1)[:height, :width])


def with_one_pixel(image: Image.Image, at: tuple[int, int] = (9, 5)) -> Image.Image:
    """The same picture, but for a pixel (x, y), which gets the colour that differs most."""
    changed = image.copy()
    old = changed.getpixel(at)
    assert isinstance(old, tuple)
    changed.putpixel(at, tuple(0 if value > 127 else 255 for value in old))
    return changed


def png(image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def sound(seed: int, seconds: float = 0.5) -> NDArray[np.float32]:
    """Mono samples in [-1, 1] at 16 kHz: 50 ms each of its own loudness."""
    rng = np.random.default_rng(seed)
    samples = rng.uniform(-1, 1, int(seconds * SAMPLE_RATE))
    loudness = rng.uniform(0.05, 1, len(samples) // 800 + 1).repeat(800)[: len(samples)]
    return (samples * loudness).astype(np.float32)


def wav(samples: NDArray[np.float32]) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return written.getvalue()


def heard(wav_file: bytes) -> NDArray[np.float32]:
    """Read the samples of what `wav` wrote."""
    with wave.open(io.BytesIO(wav_file)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples.astype(np.float32) / np.float32(32768)


def film(seed: int, frames: int = 4, height: int = 32, width: int = 48) -> NDArray[np.uint8]:
    """Frames (frames, 3, height, width), each a picture of its own."""
    shot = [np.asarray(picture(seed * 1000 + n, height, width)) for n in range(frames)]
    return np.stack(shot).transpose(0, 3, 1, 2)


def video(frames: NDArray[np.uint8], rate: float = 2.0) -> bytes:
    """Write frames (frames, 3, height, width) as a film of so many a second, without loss."""
    with tempfile.TemporaryDirectory() as folder:
        return write_film(Path(folder, "film.avi"), frames, rate, *LOSSLESS).read_bytes()


def film_in(file: Path, *arguments: str) -> Path:
    """Write a film of 20 frames, 5 of them a second, as ffmpeg encodes it with these arguments."""
    frames = np.stack([np.asarray(picture(seed)) for seed in range(20)]).transpose(0, 3, 1, 2)
    return write_film(file, frames, 5.0, *arguments)


def write_film(file: Path, frames: NDArray[np.uint8], rate: float, *arguments: str) -> Path:
    height, width = frames.shape[2:]
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(rate), "-i", "pipe:0"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *raw, *arguments, str(file)]
    subprocess.run(command, input=frames.transpose(0, 2, 3, 1).tobytes(), check=True)
    return file


class StubOpenCV:
    """What mlx-vlm's `load_video` uses of OpenCV, which isn't installed. Each file has these frames.

    The constants are not names of what is asked for, but the answers.
    """

    CAP_PROP_POS_FRAMES = COLOR_BGR2RGB = -1

    def __init__(self, frames: list[Image.Image], rate: float) -> None:
        self._frames = frames
        self._place = 0
        self.CAP_PROP_FRAME_COUNT, self.CAP_PROP_FPS = len(frames), rate
        self.CAP_PROP_FRAME_WIDTH, self.CAP_PROP_FRAME_HEIGHT = frames[0].size

    def VideoCapture(self, _: str) -> "StubOpenCV":
        return self

    def isOpened(self) -> bool:
        return True

    def get(self, answer: float) -> float:
        return answer

    def set(self, _: int, place: int) -> None:
        self._place = place

    def read(self) -> tuple[bool, NDArray[np.uint8]]:
        return True, np.asarray(self._frames[self._place])

    def cvtColor(self, frame: NDArray[np.uint8], _: int) -> NDArray[np.uint8]:
        return frame

    def release(self) -> None:
        pass
