"""Sound as files: what each encoder makes is decoded again, by ffmpeg."""

import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from orchard.backends.audio import encode
from orchard.backends.audio.encode import open_encoder
from orchard.backends.ffmpeg import Ffmpeg
from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE, SoundFormat
from tests.support.sounds import use_ffmpeg

FORMATS: tuple[SoundFormat, ...] = get_args(SoundFormat)
LOSSLESS = ("wav", "pcm", "flac")
TONE = 440  # Hz


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return use_ffmpeg(monkeypatch, tmp_path)


def _tone(seconds: float) -> NDArray[np.int16]:
    times = np.arange(int(seconds * RATE)) / RATE
    return (np.sin(times * 2 * np.pi * TONE) * 20_000).astype(np.int16)


def _file(format: SoundFormat, sound: NDArray[np.int16], speed: float = 1.0, pieces: int = 7) -> bytes:
    encoder = open_encoder(format, speed)
    made = b"".join(map(encoder.feed, np.array_split(sound, pieces))) + encoder.end()
    encoder.close()
    encoder.close()
    return made


def _decoded(format: SoundFormat, data: bytes) -> NDArray[np.int16]:
    raw = ["-f", "s16le", "-ar", str(RATE), "-ac", "1"]
    # The format's own decoder: nothing is guessed.
    given = {"pcm": raw, "opus": ["-f", "ogg"]}.get(format, ["-f", format])
    with Ffmpeg([*given, "-i", "pipe:0", *raw, "pipe:1"]) as decoder:
        return np.frombuffer(decoder.feed(data) + b"".join(decoder.read_rest()), np.int16)


def _pitch(sound: NDArray[np.int16]) -> float:
    strength = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(np.argmax(strength)) * RATE / len(sound)


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_is_decoded_to_the_sound_again(format: SoundFormat) -> None:
    sound = _tone(2)
    heard = _decoded(format, _file(format, sound))
    if format in LOSSLESS:
        np.testing.assert_array_equal(heard, sound)
    else:
        assert len(heard) / RATE == pytest.approx(2, abs=0.15)  # encoders fill up their last frame
        assert _pitch(heard) == pytest.approx(TONE, abs=2)


@pytest.mark.parametrize("format", ["wav", "pcm", "flac", "mp3", "opus"])
def test_a_format_of_the_library_needs_no_ffmpeg_and_begins_before_the_sound_has_ended(
    format: SoundFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "Ffmpeg", None)
    encoder = open_encoder(format)
    sizes = [len(encoder.feed(_tone(1))) for _ in range(4)]
    encoder.close()
    assert all(size > 200 for size in sizes)


@pytest.mark.parametrize(("format", "speed"), [("aac", 1.0), ("mp3", 2.0)])
def test_what_ffmpeg_makes_of_two_seconds_comes_before_more_is_there(format: SoundFormat, speed: float) -> None:
    encoder = open_encoder(format, speed)
    made = encoder.feed(_tone(2))
    for _ in range(20_000):  # ffmpeg is a process of its own: what it has made comes with the next samples
        made += encoder.feed(_tone(0.0001))
        if len(made) > 1000:
            break
    encoder.close()
    assert len(made) > 1000


@pytest.mark.parametrize("speed", [0.25, 0.7, 1.5, 4.0])
@pytest.mark.parametrize("format", ["wav", "aac"])
def test_speed_changes_the_length_and_not_the_pitch(format: SoundFormat, speed: float) -> None:
    heard = _decoded(format, _file(format, _tone(2), speed))
    assert len(heard) / RATE == pytest.approx(2 / speed, abs=0.2)
    assert _pitch(heard[len(heard) // 4 : -len(heard) // 4]) == pytest.approx(TONE, abs=4)


def test_a_wav_file_without_a_sample_is_a_header() -> None:
    assert len(open_encoder("wav").end()) == 44


@pytest.mark.parametrize("speed", [1.0, 1.5])
@pytest.mark.parametrize("format", FORMATS)
def test_without_ffmpeg_only_what_needs_it_is_refused(
    format: SoundFormat, speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode.check_sound_format(format, speed)
    monkeypatch.setattr(shutil, "which", lambda *args, **named: None)
    if format != "aac" and speed == 1:
        encode.check_sound_format(format, speed)
        return
    with pytest.raises(OrchardError, match="ffmpeg is not installed") as refused:
        encode.check_sound_format(format, speed)
    assert refused.value.param == ("response_format" if format == "aac" else "speed")


def test_nothing_that_was_sent_is_written_again() -> None:
    grown = encode._GrowingFile()
    taken = b""
    for data in (b"head", b"body"):
        grown.write(data)
        taken += grown.take()
    grown.seek(0)
    grown.write(b"HEADBO")
    grown.write(b"DY, tail")
    assert taken + grown.take() == b"headbody, tail"
    assert (grown.tell(), grown.seek(-4, 2), grown.seek(1, 1)) == (14, 10, 11)
