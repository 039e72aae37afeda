"""From bytes to pixels and samples: what is taken, how it is resized, and what is refused before it is decoded."""

import io
import math
import struct
import subprocess
import sys
import tempfile
import wave
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from mlx_vlm.utils import DEFAULT_VIDEO_SAMPLING, VideoSampling, load_audio, load_video
from PIL import Image

from orchard.backends.vision import decode
from orchard.backends.vision.decode import FilmDecoder, decode_audio, decode_image
from orchard.backends.vision.film import LIMITS
from orchard.backends.vision.resize import fit_size, resize_image
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaOptions, MediaPart
from tests.support.bombs import film_of, jpeg_of_scans
from tests.support.media import LOSSLESS, SAMPLE_RATE, StubOpenCV, film_in, heard, picture, png, sound, wav
from tests.support.sounds import encoded

PARAM = "messages[0].content[1]"
FILMS = FilmDecoder()


@pytest.fixture(scope="module", autouse=True)
def _films() -> Iterator[None]:
    yield
    FILMS.close()


def part(data: bytes, kind: MediaKind = "image", **options: Any) -> MediaPart:
    return MediaPart(kind, "", PARAM, data=data, options=MediaOptions(**options))


def refused(data: bytes, kind: MediaKind = "image") -> str:
    decoders: dict[MediaKind, Callable[[MediaPart], object]] = {
        "image": decode_image,
        "audio": lambda given: decode_audio(given, SAMPLE_RATE),
        "video": lambda given: FILMS.decode(given, DEFAULT_VIDEO_SAMPLING),
    }
    with pytest.raises(OrchardError) as caught:
        decoders[kind](part(data, kind))
    assert (caught.value.kind, caught.value.param) == ("invalid_request", PARAM)
    assert caught.value.message.startswith(f"`{PARAM}` can't be read: ")
    return caught.value.message


def same(one: Image.Image, other: Image.Image) -> bool:
    return (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())


def saved(image: Image.Image, name: str, **options: object) -> bytes:
    written = io.BytesIO()
    image.save(written, name, **options)
    return written.getvalue()


@pytest.mark.parametrize("name", ["PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_formats_without_loss(name: str) -> None:
    image = picture(1).quantize(16).convert("RGB")
    options = {"lossless": True} if name == "WEBP" else {}
    assert same(decode_image(part(saved(image, name, **options))), image)


def test_a_photo_is_turned_upright() -> None:
    image = picture(2)
    exif = Image.Exif()
    exif[0x0112] = 6  # it was taken with the camera turned to the left
    turned = image.transpose(Image.Transpose.ROTATE_90)
    assert same(decode_image(part(saved(turned, "PNG", exif=exif))), image)


def test_of_an_animation_the_first_picture_is_seen() -> None:
    first, second = (picture(seed).quantize(16).convert("RGB") for seed in (1, 2))
    assert same(decode_image(part(saved(first, "GIF", save_all=True, append_images=[second]))), first)


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def bomb(width: int, height: int) -> bytes:
    """The beginning of a PNG that is larger than any memory; it must be refused by its header."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is no PNG"),
        (b"GIF89a", "it is no PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "it is no PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is no PNG"),
        (png(picture(1))[:-40], "broken or truncated"),
        (bomb(7072, 7072), "it has 7,072 x 7,072 pixels, and at most 50,000,000 are allowed"),
        (bomb(2**30, 2**30), "at most 50,000,000"),
        (bomb(2010, 10), "one side is more than 200 times the other"),
    ],
)
def test_pictures_that_are_refused(data: bytes, words: str) -> None:
    assert words in refused(data)


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        ((600, 800), {}, (600, 800)),
        ((600, 800), {"detail": "high"}, (600, 800)),
        ((600, 800), {"detail": "low"}, (384, 512)),
        ((300, 400), {"detail": "low"}, (300, 400)),
        ((600, 800), {"resize_shape": (300, 400)}, (300, 400)),
        ((600, 800), {"resize_shape": (300, 300)}, (225, 300)),
        ((60, 80), {"resize_shape": (300, 800)}, (300, 400)),
        ((600, 800), {"resize_shape": (1, 1)}, (1, 1)),
        ((600, 800), {"max_pixels": 120_000}, (300, 400)),
        ((600, 800), {"max_pixels": 480_000}, (600, 800)),
        ((60, 80), {"min_pixels": 480_000}, (600, 800)),
        ((60, 80), {"min_pixels": 4_800}, (60, 80)),
        ((600, 800), {"detail": "low", "max_pixels": 49_152}, (192, 256)),
        ((600, 800), {"detail": "low", "resize_shape": (1200, 1600)}, (384, 512)),
        ((600, 800), {"detail": "low", "resize_shape": (300, 400)}, (300, 400)),
    ],
)
def test_sizes(size: tuple[int, int], options: dict[str, Any], expected: tuple[int, int]) -> None:
    given = MediaOptions(**options)
    assert fit_size(size, given) == expected
    image = resize_image(picture(1, *size), given)
    assert (image.height, image.width) == expected


def test_a_processor_may_see_to_the_pixels_itself() -> None:
    image = picture(1, 60, 80)
    assert same(resize_image(image, MediaOptions(max_pixels=100, min_pixels=50), has_bounds=False), image)


def test_samples_are_those_of_mlx_vlm(tmp_path: Path) -> None:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes((np.stack([sound(1), sound(2)], axis=1) * 32767).astype("<i2").tobytes())
    (tmp_path / "sound.wav").write_bytes(written.getvalue())
    expected = load_audio(str(tmp_path / "sound.wav"), SAMPLE_RATE)
    found = decode_audio(part(written.getvalue(), "audio"), SAMPLE_RATE)
    np.testing.assert_allclose(found, expected, atol=1e-4 * float(np.abs(expected).max()))  # -80 dB
    assert len(expected) == math.ceil(len(sound(1)) * SAMPLE_RATE / 44_100)


def headed(data: bytes, offset: int, value: int) -> bytes:
    """A WAV file with another number in its header."""
    return data[:offset] + struct.pack("<I", value) + data[offset + 4 :]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not WAV, MP3 or FLAC"),
        (b"RIFF\x08\0\0\0WAVEfmt ", "not WAV, MP3 or FLAC"),
        (b"ID3" + bytes(500), "not WAV, MP3 or FLAC"),
        (b"\0\0\0\x1cftypisom" + bytes(500), "not WAV, MP3 or FLAC"),
        (wav(sound(1))[:-1000], "truncated: it has 15,044 of 16,044 bytes"),
        (wav(sound(1)[:0]), "truncated"),
        (
            b"fLaC\0\0\0\x22\x10\0\x10\0" + bytes(30) + b"\xff\xf8\xc9\x08\0" + bytes(99),
            "a sample rate of 0 Hz, and 1 to 8 channels",
        ),
        (headed(wav(sound(1)), 24, 100), "1 channels at 100 Hz, and 1 to 8 channels at 4,000 to 384,000 Hz are"),
        (headed(wav(sound(1)), 24, 0), "1 channels at 0 Hz, and 1 to 8 channels at 4,000 to 384,000 Hz are"),
        (headed(wav(sound(1)), 24, 2**32 - 1), "1 channels at 4,294,967,295 Hz, and 1 to 8 channels at"),
        (headed(wav(sound(1)), 20, 0xFFFF_0001), "65,535 channels at 16,000 Hz, and 1 to 8 channels at"),
    ],
)
def test_sounds_that_are_refused(data: bytes, words: str) -> None:
    assert words in refused(data, "audio")


def test_what_is_missing_at_the_end_of_a_flac_file_is_missed() -> None:
    whole = encoded(wav(sound(1, 2.0)), "-f", "flac")
    assert len(decode_audio(part(whole, "audio"), SAMPLE_RATE)) == 2 * SAMPLE_RATE
    assert f"of {2 * SAMPLE_RATE:,} samples" in refused(whole[: len(whole) // 2], "audio")


def test_a_stream_does_not_know_its_length() -> None:
    streamed = headed(wav(sound(1)), 4, 2**32 - 1)
    assert len(decode_audio(part(streamed, "audio"), SAMPLE_RATE)) == len(sound(1))


def test_data_of_size_0_goes_on_to_the_end() -> None:
    written = wav(sound(1))
    unfinished = headed(headed(written, 4, 0), 40, 0)
    assert np.array_equal(decode_audio(part(unfinished, "audio"), SAMPLE_RATE), heard(written))


def test_samples_at_the_models_own_rate_stay_as_they_are() -> None:
    written = wav(sound(1))
    assert np.array_equal(decode_audio(part(written, "audio"), SAMPLE_RATE), heard(written))


def test_blocks_of_a_sound_are_joined_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    written = headed(wav(sound(1, 2.0)), 24, 11_027)
    whole = decode_audio(part(written, "audio"), SAMPLE_RATE)
    monkeypatch.setattr(decode, "_FRAMES_AT_ONCE", 997)
    np.testing.assert_allclose(decode_audio(part(written, "audio"), SAMPLE_RATE), whole, atol=1e-6)


def test_a_long_sound_is_refused_while_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MOST_SOUND_SECONDS", 1)
    assert decode_audio(part(wav(sound(1, 1.0)), "audio"), SAMPLE_RATE).shape == (16_000,)
    assert "more than 1 seconds" in refused(wav(sound(1, 1.1)), "audio")
    monkeypatch.setattr(decode, "MOST_SOUND_SECONDS", 1800)
    monkeypatch.setattr(decode, "MOST_SOUND_SAMPLES", 32_000)
    assert decode_audio(part(wav(sound(1, 2.0)), "audio"), SAMPLE_RATE).shape == (32_000,)
    assert "more than 2 seconds" in refused(wav(sound(1, 2.1)), "audio")


@pytest.fixture(scope="module")
def film_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without loss."""
    return film_in(tmp_path_factory.mktemp("films") / "film.avi", *LOSSLESS)


@pytest.mark.parametrize("asked", [{}, {"fps": 1.0}, {"fps": 60.0}, {"fps": 5.0, "max_frames": 7}, {"min_frames": 12}])
def test_frames_are_those_of_mlx_vlm(film_file: Path, asked: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", StubOpenCV([picture(seed) for seed in range(20)], 5.0))
    sampling = VideoSampling(**asked).merge(DEFAULT_VIDEO_SAMPLING)
    frames, metadata = load_video(str(film_file), sampling)
    film = FILMS.decode(part(film_file.read_bytes(), "video"), sampling)
    assert film.metadata == metadata
    assert np.array_equal(film.frames, frames)


def test_frames_are_resized(film_file: Path) -> None:
    film = FILMS.decode(part(film_file.read_bytes(), "video", resize_shape=(16, 16)), DEFAULT_VIDEO_SAMPLING)
    assert film.frames.shape == (8, 3, 10, 16)
    assert film.size == (48, 32)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:300], lambda data: b"\0" * 5000])
def test_what_is_no_film_is_refused(film_file: Path, damage: object) -> None:
    assert callable(damage)
    assert "video that can be read" in refused(damage(film_file.read_bytes()), "video")


def test_a_film_does_not_name_other_files(film_file: Path) -> None:
    """ffmpeg would put together those that a list names."""
    with tempfile.NamedTemporaryFile(suffix=".avi") as other:
        other.write(film_file.read_bytes())
        other.flush()
        assert len(FILMS.decode(part(Path(other.name).read_bytes(), "video"), DEFAULT_VIDEO_SAMPLING).frames) == 8
        for name in (Path(other.name).name, other.name):
            concatenated = f"ffconcat version 1.0\nfile {name}\nduration 4.0\n"
            playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{name}\n#EXT-X-ENDLIST\n"
            for content in (concatenated, playlist):
                assert "video that can be read" in refused(content.encode(), "video")


@pytest.mark.parametrize("ending", ["mp4", "mov", "mkv", "webm", "avi", "ts", "mpg", "wmv", "flv", "3gp"])
def test_formats_of_films(ending: str, film_file: Path, tmp_path: Path) -> None:
    file = tmp_path / f"film.{ending}"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(film_file), "-s", "176x144", "-r", "25"]
    subprocess.run([*command, "-pix_fmt", "yuv420p", str(file)], check=True)
    film = FILMS.decode(part(file.read_bytes(), "video"), DEFAULT_VIDEO_SAMPLING)
    assert film.frames.shape[1:] == (3, 144, 176)


@pytest.mark.parametrize(
    ("frames", "words"), [(1, "`max_frames` is 1, and this model looks at 2"), (None, "it has 20 frames, and")]
)
def test_a_film_of_too_few_frames_is_refused(film_file: Path, frames: int | None, words: str) -> None:
    data = part(film_file.read_bytes(), "video")
    wanted = VideoSampling(max_frames=frames, frame_factor=2 if frames else 21).merge(DEFAULT_VIDEO_SAMPLING)
    with pytest.raises(OrchardError, match=words):
        FILMS.decode(data, wanted)


def test_a_truncated_film_is_refused(film_file: Path) -> None:
    data = film_file.read_bytes()
    assert "truncated" in refused(data[: len(data) // 2], "video")


def test_a_film_with_a_frame_that_takes_hours_is_given_up_and_the_next_one_is_read(film_file: Path) -> None:
    films = FilmDecoder(LIMITS._replace(seconds=6.0))
    endless, film = part(film_of(jpeg_of_scans(4000, 3000, 20_000)), "video"), part(film_file.read_bytes(), "video")
    with pytest.raises(OrchardError, match="could not be decoded within 6 seconds") as refusal:
        films.decode(endless, DEFAULT_VIDEO_SAMPLING)
    assert (refusal.value.kind, refusal.value.param) == ("invalid_request", PARAM)
    assert len(films.decode(film, DEFAULT_VIDEO_SAMPLING).frames) == 8
    films.close()


def test_a_film_that_takes_too_much_memory_is_refused(film_file: Path) -> None:
    films = FilmDecoder(LIMITS._replace(memory_bytes=2**20))  # not even the process fits into this
    with pytest.raises(OrchardError, match="it is broken, or decoding it takes too much memory"):
        films.decode(part(film_file.read_bytes(), "video"), DEFAULT_VIDEO_SAMPLING)
    films.close()
