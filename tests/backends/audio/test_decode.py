import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from orchard.backends import ffmpeg
from orchard.backends.audio import decode as decoding
from orchard.backends.audio.decode import RATE, SilentError, decode_recording
from orchard.backends.resampling import Samples
from orchard.core.errors import OrchardError
from tests.support.sounds import encoded, noise, use_ffmpeg, wav


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return use_ffmpeg(monkeypatch, tmp_path)


def _decoded(folder: Path, sound: bytes) -> Samples:
    file = folder / "upload-1"
    file.write_bytes(sound)
    return np.concatenate(list(decode_recording(str(file), "file")))


def _refusal(folder: Path, sound: bytes) -> str:
    with pytest.raises(OrchardError) as caught:
        _decoded(folder, sound)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "file")
    assert str(folder) not in caught.value.message
    return caught.value.message.removeprefix("the recording can't be read: ")


def test_blocks_are_even_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(wav(noise(75)))
    sizes = [len(block) for block in decode_recording(str(tmp_path / "a"), "file")]
    assert sizes == [30 * RATE, 30 * RATE, 15 * RATE]


def test_16_khz_mono_is_taken_as_it_is_and_stereo_is_mixed(tmp_path: Path) -> None:
    samples = noise(1)
    expected = samples.astype(np.float32) / 32768
    np.testing.assert_array_equal(_decoded(tmp_path, wav(samples)), expected)
    stereo = np.stack([samples, np.zeros_like(samples)], axis=1)
    np.testing.assert_allclose(_decoded(tmp_path, wav(stereo, channels=2)), expected / 2, atol=1e-4)


@pytest.mark.parametrize("arguments", [("-f", "flac"), ("-f", "mp3", "-b:a", "320k"), ("-f", "wav", "-ar", "48000")])
def test_common_formats_need_no_ffmpeg(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = encoded(wav(noise(2)), *arguments)
    monkeypatch.setattr(ffmpeg, "find_ffmpeg", lambda: None)
    found = _decoded(tmp_path, sound)
    assert len(found) == pytest.approx(2 * RATE, abs=3000)
    assert np.abs(found).max() > 0.3


@pytest.mark.parametrize("arguments", [("-f", "mp4"), ("-f", "ogg", "-c:a", "libopus"), ("-f", "aiff"), ("-f", "adts")])
def test_others_are_read_by_ffmpeg_or_it_is_named(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = encoded(wav(noise(2)), *arguments)
    assert len(_decoded(tmp_path, sound)) == pytest.approx(2 * RATE, abs=3000)
    monkeypatch.setattr(ffmpeg, "find_ffmpeg", lambda: None)
    message = _refusal(tmp_path, sound)
    assert message.startswith("it is not a WAV, MP3 or FLAC file. ffmpeg is not installed on the server.")


def test_broken_files_are_refused(tmp_path: Path) -> None:
    sound = wav(noise(2))
    assert _refusal(tmp_path, b"") == "it is empty"
    assert "it is truncated: it has 63,044 of 64,044 bytes" in _refusal(tmp_path, sound[:-1000])
    assert "not supported (Invalid data" in _refusal(tmp_path, b"fLaC" + bytes(range(200)))
    assert "it is truncated: it has" in _refusal(tmp_path, encoded(sound, "-f", "flac")[:-5000])
    assert "it is truncated: it has" in _refusal(tmp_path, encoded(sound, "-f", "mp3")[:-5000])
    assert "not supported" in _refusal(tmp_path, encoded(sound, "-f", "mp4")[:-1000])
    assert _refusal(tmp_path, wav(noise(0.05))) == "it lasts less than 0.1 seconds"


@pytest.mark.parametrize("loudest", [0, 3])
def test_silence_has_a_length(tmp_path: Path, loudest: int) -> None:
    with pytest.raises(SilentError) as silent:
        _decoded(tmp_path, wav(np.full(RATE + 800, loudest, np.int16)))
    assert silent.value.seconds == 1.05
    assert len(_decoded(tmp_path, wav(np.full(RATE, 4, np.int16)))) == RATE


@pytest.mark.parametrize(("channels", "rate"), [(99, 16_000), (65_535, 16_000), (0, 16_000), (1, 0), (1, 2**32 - 1)])
def test_a_layout_that_no_model_takes_is_refused_from_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channels: int, rate: int
) -> None:
    monkeypatch.setattr(ffmpeg, "find_ffmpeg", lambda: None)
    sound = wav(noise(2))
    refused = _refusal(tmp_path, sound[:22] + struct.pack("<HI", channels, rate) + sound[28:])
    allowed = "1 to 8 channels at 4,000 to 384,000 Hz are allowed"
    assert refused == f"it has {channels:,} channels at {rate:,} Hz, and {allowed}"


@pytest.mark.parametrize("rate", [0, 400_000])
def test_a_flac_file_with_a_rate_that_no_model_takes_is_refused(tmp_path: Path, rate: int) -> None:
    sound = bytearray(encoded(wav(noise(0.2)), "-f", "flac"))
    sound[18:21] = (rate << 4 | sound[20] & 15).to_bytes(3)
    assert f"{rate:,} Hz, and 1 to 8 channels" in _refusal(tmp_path, bytes(sound))


@pytest.mark.parametrize("arguments", [("-f", "flac"), ("-f", "ogg", "-c:a", "vorbis", "-strict", "-2", "-ac", "2")])
def test_an_odd_rate_is_taken(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    found = _decoded(tmp_path, encoded(wav(noise(2, 44_099), 44_099), *arguments))
    assert len(found) == pytest.approx(2 * RATE, abs=3000)


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_wav_file_whose_writer_left_its_sizes_0_lasts_as_long_as_the_file(tmp_path: Path, rate: int) -> None:
    sound = wav(noise(12, rate), rate)
    left = sound[:4] + bytes(4) + sound[8:40] + bytes(4) + sound[44:]
    np.testing.assert_array_equal(_decoded(tmp_path, left), _decoded(tmp_path, sound))
    unknown = sound[:4] + b"\xff" * 4 + sound[8:40] + b"\xff" * 4 + sound[44:]
    np.testing.assert_array_equal(_decoded(tmp_path, unknown), _decoded(tmp_path, sound))


@pytest.mark.parametrize("tag", [b"TAG" + bytes(125), b"APETAGEX" + bytes(24), bytes(2000)])
def test_an_mp3_file_may_end_with_tags_or_padding(tmp_path: Path, tag: bytes) -> None:
    found = _decoded(tmp_path, encoded(wav(noise(2)), "-f", "mp3") + tag)
    assert len(found) == pytest.approx(2 * RATE, abs=1152)


def test_a_recording_that_is_too_long_is_refused_when_the_limit_is_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_SECONDS", 40)
    (tmp_path / "a").write_bytes(wav(noise(75)))
    blocks = decode_recording(str(tmp_path / "a"), "file")
    next(blocks)
    with pytest.raises(OrchardError, match="it lasts more than"):
        next(blocks)


@pytest.mark.parametrize(
    "playlist",
    ["#EXTM3U\n#EXTINF:1,\n{}\n", "ffconcat version 1.0\nfile {}\n", "<MPD>{}</MPD>", "[playlist]\nFile1={}"],
)
def test_a_playlist_opens_no_other_file(tmp_path: Path, playlist: str) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(wav(noise(2)))
    assert "not supported" in _refusal(tmp_path, playlist.format(secret).encode())


def test_leaving_a_recording_early_leaves_nothing_open(tmp_path: Path) -> None:
    sound = encoded(wav(noise(65)), "-f", "mp4")
    (tmp_path / "a").write_bytes(sound)
    before = set(os.listdir("/dev/fd"))
    blocks: Iterator[Samples] = decode_recording(str(tmp_path / "a"), "file")
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert set(os.listdir("/dev/fd")) == before
