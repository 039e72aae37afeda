import os
from pathlib import Path

import numpy as np
import psutil
import pytest

from orchard.backends import ffmpeg
from orchard.backends.ffmpeg import Ffmpeg, FfmpegError
from tests.support.sounds import program_called, use_ffmpeg

RAW = ["-f", "f32le", "-ar", "16000", "-ac", "1"]
TO_FLAC = [*RAW, "-i", "pipe:0", "-f", "flac", "pipe:1"]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return use_ffmpeg(monkeypatch, tmp_path)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that comes first where programs are looked for."""
    folder = tmp_path / "stub"
    folder.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    return folder


def _wave(seconds: float) -> bytes:
    times = np.arange(int(16_000 * seconds)) / 16_000
    return (np.sin(times * 2 * np.pi * 440) * 0.5).astype(np.float32).tobytes()


def test_sound_passes_through_in_pieces_larger_than_pipes_hold(tmp_path: Path) -> None:
    sound = _wave(60)
    with Ffmpeg(TO_FLAC) as encoder:
        flac = b"".join(encoder.feed(sound[at : at + 999_999]) for at in range(0, len(sound), 999_999))
        flac += b"".join(encoder.read_rest())
    (tmp_path / "sound.flac").write_bytes(flac)
    assert 0 < len(flac) < len(sound)
    with Ffmpeg(["-i", str(tmp_path / "sound.flac"), *RAW, "pipe:1"]) as decoder:
        back = np.frombuffer(b"".join(decoder.read_rest()), np.float32)
    np.testing.assert_allclose(back, np.frombuffer(sound, np.float32), atol=1e-4)


def test_it_is_found_where_a_path_lacks_it_or_not_at_all(
    program: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ffmpeg.find_ffmpeg() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(ffmpeg, "_MACOS_FOLDERS", (str(tmp_path / "none"), str(tmp_path)))
    assert ffmpeg.find_ffmpeg() == str(program)
    monkeypatch.setattr(ffmpeg, "_MACOS_FOLDERS", ())
    assert ffmpeg.find_ffmpeg() is None
    with pytest.raises(FfmpegError, match=r"not installed on the server. Install it \(macOS: brew install ffmpeg"):
        Ffmpeg(TO_FLAC)


def test_a_failure_says_why_and_names_no_path(tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(b"\x00\x01\x02" * 1000)
    with (
        Ffmpeg(["-i", str(tmp_path / "noise.mp4"), *RAW, "pipe:1"]) as decoder,
        pytest.raises(FfmpegError, match=r"^Invalid data found when processing input$"),
    ):
        list(decoder.read_rest())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "[aist#0:0/aac @ 0x5f] [dec:aac @ 0x6a] Terminating thread with return code -22 (Invalid argument)",
            "Invalid argument",
        ),
        ("[out#0/f32le @ 0x5f] Nothing was written into output file.", "Nothing was written into output file."),
        ("Error opening input files: End of file", "End of file"),
    ],
)
def test_a_reason_has_no_address_and_no_code(stub: Path, said: str, why: str) -> None:
    program_called(stub, "ffmpeg", f"echo '{said}' >&2; exit 3")
    with Ffmpeg([]) as encoder, pytest.raises(FfmpegError) as caught:
        list(encoder.read_rest())
    assert str(caught.value) == why


def test_a_failure_while_it_is_fed_says_why() -> None:
    arguments = ["-f", "nonsense", "-i", "pipe:0", "pipe:1"]
    with Ffmpeg(arguments) as encoder, pytest.raises(FfmpegError, match="Invalid argument"):
        encoder.feed(_wave(100))


def test_one_that_ends_well_too_early_is_a_failure(stub: Path) -> None:
    program_called(stub, "ffmpeg", "exit 0")
    with Ffmpeg([]) as encoder, pytest.raises(FfmpegError, match="ended before it had read everything"):
        encoder.feed(_wave(100))


def test_one_that_says_a_lot_blocks_nothing_and_its_last_line_is_told(stub: Path) -> None:
    program_called(stub, "ffmpeg", "yes noise | head -c 3000000 >&2; echo '[mov @ 0x1] the end: it broke' >&2; exit 3")
    with Ffmpeg([]) as encoder, pytest.raises(FfmpegError, match=r"^it broke$"):
        list(encoder.read_rest())


def test_one_that_stands_still_is_given_up_and_killed(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffmpeg, "STALL_SECONDS", 0.05)
    program_called(stub, "ffmpeg", "exec sleep 1000")
    before = set(psutil.Process().children())  # other tests' servers
    with Ffmpeg([]) as encoder, pytest.raises(FfmpegError, match=r"did nothing for 0\.05 seconds"):
        list(encoder.read_rest())
    assert set(psutil.Process().children()) == before


def test_leaving_it_early_kills_it_and_closes_its_pipes() -> None:
    before = set(os.listdir("/dev/fd"))
    others = set(psutil.Process().children())
    with Ffmpeg(["-f", "lavfi", "-i", "sine", *RAW, "pipe:1"]) as endless:
        assert len(next(endless.read_rest())) > 0
        (child,) = set(psutil.Process().children()) - others
    assert not child.is_running()
    assert set(os.listdir("/dev/fd")) == before


def test_a_limit_on_cpu_time_ends_what_never_writes(stub: Path) -> None:
    program_called(stub, "ffmpeg", "while :; do :; done")
    with Ffmpeg(TO_FLAC, cpu_seconds=1) as program, pytest.raises(FfmpegError, match="ffmpeg ended with -"):
        list(program.read_rest())
