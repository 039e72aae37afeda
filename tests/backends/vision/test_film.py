"""What the process that decodes videos does, and what it refuses before it decodes."""

import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import msgspec
import pytest
from PIL import Image

from orchard.backends import ffmpeg
from orchard.backends.vision import film
from orchard.backends.vision.film import FilmHead, FilmRequest, FrameSampling, read_film
from orchard.core.media import MediaOptions
from tests.support.bombs import film_of
from tests.support.media import LOSSLESS, film_in
from tests.support.sounds import program_called

FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
H264 = ("-c:v", "libx264", "-pix_fmt", "yuv420p")
GAPS = ("-vf", "select='not(mod(n,3))+lt(n,20)'", "-fps_mode", "vfr")  # 33 frames in 2.16 seconds
# A file of these arguments, and what OpenCV 5.0 found out about it: frames, frames a second, width and height.
FILMS: dict[str, tuple[tuple[str, ...], int, float, tuple[int, int]]] = {
    "plain.mp4": (H264, 60, 25.0, (64, 48)),
    "parts.mp4": ((*H264, "-movflags", "frag_keyframe+empty_moov"), 60, 25.0, (64, 48)),
    "gaps.mp4": ((*GAPS, *H264), 33, 33 / 2.16, (64, 48)),
    "ntsc.mp4": ((*H264, "-r", "30000/1001"), 72, 30000 / 1001, (64, 48)),
    "one.mp4": ((*H264, "-frames:v", "1"), 1, 25.0, (64, 48)),
    "vp9.webm": (("-c:v", "libvpx-vp9"), 60, 25.0, (64, 48)),
    "hidden.webm": (("-c:v", "libvpx", "-auto-alt-ref", "1", "-lag-in-frames", "10"), 60, 25.0, (64, 48)),
    "fast.webm": (("-c:v", "libvpx-vp9", "-r", "120", "-frames:v", "121"), 121, 120.0, (64, 48)),
    "plain.ts": ((*H264, "-bf", "2"), 60, 25.0, (64, 48)),
    "plain.avi": (LOSSLESS, 60, 25.0, (64, 48)),
}


def pieces(file: Path, **sampling: Any) -> Iterator[bytes]:
    sampled = FrameSampling(**{"fps": 2.0, "min_frames": 4, "max_frames": 768, "frame_factor": 2} | sampling)
    return read_film(msgspec.msgpack.encode(FilmRequest(str(file), sampled, MediaOptions())))


def head_and_frames(file: Path, **sampling: Any) -> tuple[FilmHead, list[bytes]]:
    head, *frames = pieces(file, **{"frame_factor": 1} | sampling)
    return msgspec.msgpack.decode(head, type=FilmHead), frames


def every_frame(file: Path) -> list[bytes]:
    """Each frame (3, height, width) that ffmpeg decodes."""
    command = [FFMPEG, "-v", "error", "-i", str(file), "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "image2pipe"]
    printed = subprocess.run([*command, "-c:v", "ppm", "-"], stdout=subprocess.PIPE, check=True).stdout
    files = [BytesIO(b"P6\n" + file) for file in printed.split(b"P6\n")[1:]]
    return [b"".join(band.tobytes() for band in Image.open(file).split()) for file in files]


@pytest.fixture(scope="module")
def film_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_in(tmp_path_factory.mktemp("films") / "film.avi", *LOSSLESS)


def moving(file: Path, *arguments: str) -> Path:
    """A film of 2.4 seconds, 25 frames each, if the arguments say nothing else."""
    source = ["-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=2.4"]
    subprocess.run([FFMPEG, "-v", "error", *source, *arguments, str(file)], check=True)
    return file


@pytest.mark.parametrize("name", FILMS)
def test_frames_are_those_that_opencv_chose(name: str, tmp_path: Path) -> None:
    arguments, count, rate, size = FILMS[name]
    file = moving(tmp_path / name, *arguments)
    frames = every_frame(file)
    assert len(frames) == count
    for sampling in ({}, {"fps": 60.0}):
        head, chosen = head_and_frames(file, **sampling)
        assert (head.count, head.size) == (count, size)
        assert head.rate == pytest.approx(rate, rel=1e-3)  # of gaps.mp4, ffmpeg 7 rounds it
        assert chosen == [frames[index] for index in head.frame_numbers]


@pytest.mark.parametrize(("degrees", "size"), [(90, (48, 64)), (180, (64, 48)), (-90, (48, 64))])
def test_frames_are_turned_upright(degrees: int, size: tuple[int, int], tmp_path: Path) -> None:
    plain = moving(tmp_path / "plain.mp4", *H264)
    turned = tmp_path / "turned.mov"
    how = ["-display_rotation", str(degrees)]
    subprocess.run([FFMPEG, "-v", "error", *how, "-i", str(plain), "-c", "copy", str(turned)], check=True)
    (flat, (first, *_)), (head, (upright, *_)) = (head_and_frames(file) for file in (plain, turned))
    channels = [
        Image.frombytes("L", flat.size, first[place:]).rotate(degrees, expand=True) for place in (0, 3072, 6144)
    ]
    assert (head.size, head.frame_size, head.frame_numbers) == (size, size[::-1], flat.frame_numbers)
    assert upright == b"".join(channel.tobytes() for channel in channels)


def test_the_sound_may_be_longer_than_the_pictures(tmp_path: Path) -> None:
    file = moving(tmp_path / "film.mp4", "-f", "lavfi", "-i", "sine=d=3.1", *H264, "-c:a", "aac")
    head, frames = head_and_frames(file)
    assert (head.count, len(frames)) == (60, 4)


VARIABLE = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-vf", "setpts=N*N/25/10/TB", "-fps_mode", "vfr"]


@pytest.mark.parametrize(("name", "arguments"), [("rate.mkv", VARIABLE), ("repeats.ogv", ["-c:v", "libtheora"])])
def test_a_film_whose_rate_varies_is_read_to_its_end(name: str, arguments: list[str], tmp_path: Path) -> None:
    """Its file says how long it lasts, and not how many frames it has; Theora repeats a frame by an empty packet."""
    file = moving(tmp_path / name, *arguments)
    frames = every_frame(file)
    head, chosen = head_and_frames(file, fps=60.0)
    assert head.count == len(frames)
    assert head.frame_numbers[-1] == len(frames) - 1
    assert chosen == [frames[index] for index in head.frame_numbers]


def test_many_frames_are_chosen(tmp_path: Path) -> None:
    file = moving(tmp_path / "film.mp4", *H264, "-r", "400")
    frames = every_frame(file)
    head, chosen = head_and_frames(file, fps=400.0)
    assert len(head.frame_numbers) == 768
    assert chosen == [frames[index] for index in head.frame_numbers]


def test_a_sound_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "sound.mp4"
    subprocess.run([FFMPEG, "-v", "error", "-f", "lavfi", "-i", "sine=d=1", str(file)], check=True)
    with pytest.raises(ValueError, match="it is not a video that can be read, or it is broken"):
        next(pieces(file))


@pytest.mark.parametrize("name", ["plain.mp4", "vp9.webm", "plain.avi"])
def test_a_truncated_film_is_refused(name: str, tmp_path: Path) -> None:
    index_first = ["-movflags", "+faststart"] if name.endswith("mp4") else []
    data = moving(tmp_path / name, *FILMS[name][0], *index_first).read_bytes()
    short = tmp_path / f"short-{name}"
    short.write_bytes(data[: len(data) * 4 // 5])
    with pytest.raises(ValueError, match="it is broken or truncated"):
        list(pieces(short))


def test_frames_of_several_sizes_are_made_alike(tmp_path: Path) -> None:
    """They get the size of the first, as with OpenCV."""
    pictures = [BytesIO(), BytesIO()]
    for picture, size in zip(pictures, ((48, 32), (32, 48)), strict=True):
        Image.new("RGB", size, (200, 30, 90)).save(picture, "JPEG")
    file = tmp_path / "film.avi"
    file.write_bytes(film_of(*(picture.getvalue() for picture in pictures)))
    head, frames = head_and_frames(file)
    assert (head.frame_size, [len(frame) for frame in frames]) == ((32, 48), [3 * 32 * 48] * 2)


def test_a_film_that_is_too_large_is_refused(film_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "MOST_FILM_BYTES", 8 * 32 * 48 * 3 - 1)
    with pytest.raises(ValueError, match="its 8 frames take 36,864 bytes"):
        next(pieces(film_file))
    monkeypatch.setattr(film, "MAX_PIXELS", 1000)
    with pytest.raises(ValueError, match="48 x 32 pixels, and at most 1,000"):
        next(pieces(film_file))


def test_a_server_without_ffmpeg_says_what_to_install(film_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffmpeg, "find_ffmpeg", lambda: None)
    with pytest.raises(ValueError, match=r"ffmpeg is not installed on the server. Install it \(macOS: brew install"):
        next(pieces(film_file))


def test_a_server_with_an_old_ffmpeg_says_what_to_install(
    film_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Unrecognized option 'fps_mode'.\nError splitting the argument list: Option not found"
    old = f"""case "$*" in *fps_mode*) echo "{words}" >&2; exit 1;; *) exec "{FFMPEG}" "$@";; esac"""
    program = program_called(tmp_path, "ffmpeg", old)
    monkeypatch.setattr(ffmpeg, "find_ffmpeg", lambda: str(program))
    with pytest.raises(ValueError, match=r"ffmpeg is too old. Install version 5.1 or newer"):
        next(pieces(film_file))


def test_the_process_needs_no_mlx() -> None:
    code = "import orchard.backends.vision.film, sys; sys.exit('mlx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
