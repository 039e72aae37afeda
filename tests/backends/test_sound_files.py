import io
import struct

import miniaudio
import pytest

from orchard.backends import sound_files
from orchard.backends.sound_files import DataSize, UnfitSoundError, check_wav, read_sound_info
from tests.support.sounds import encoded, noise, wav

SOUND = wav(noise(0.1))
DATA = len(SOUND) - 2 * 1600


def _with(form: str, place: int, *values: int, sound: bytes = SOUND) -> io.BytesIO:
    changed = bytearray(sound)
    struct.pack_into(form, changed, place, *values)
    return io.BytesIO(changed)


@pytest.mark.parametrize("rate", [0, 1, 3_999, 384_001, 2**31, 2**32 - 1])
def test_a_rate_that_no_recorder_uses_is_refused(rate: int) -> None:
    with pytest.raises(UnfitSoundError) as caught:
        check_wav(_with("<I", 24, rate))
    allowed = "1 to 8 channels at 4,000 to 384,000 Hz are allowed"
    assert str(caught.value) == f"it has 1 channels at {rate:,} Hz, and {allowed}"


@pytest.mark.parametrize("channels", [0, 9, 65_535])
def test_too_many_channels_are_refused(channels: int) -> None:
    with pytest.raises(UnfitSoundError, match=f"it has {channels:,} channels at 16,000 Hz, and 1 to 8"):
        check_wav(_with("<H", 22, channels))


@pytest.mark.parametrize(("channels", "rate"), [(1, 4_000), (8, 384_000)])
def test_the_ends_of_the_range_are_allowed(channels: int, rate: int) -> None:
    assert check_wav(_with("<HI", 22, channels, rate)) is None
    info = read_sound_info(miniaudio.wav_get_info, _with("<HI", 22, channels, rate).getvalue())
    assert info
    assert (info.nchannels, info.sample_rate) == (channels, rate)


@pytest.mark.parametrize("rate", [0, 1, 655_350, 2**20 - 1])
def test_a_flac_file_at_a_rate_that_no_recorder_uses_is_refused(rate: int) -> None:
    sound = bytearray(encoded(SOUND, "-f", "flac"))
    sound[18:21] = (rate << 4 | sound[20] & 15).to_bytes(3)
    with pytest.raises(UnfitSoundError, match=f"{rate:,} Hz, and 1 to 8 channels at 4,000 to 384,000 Hz are allowed"):
        read_sound_info(miniaudio.flac_get_info, bytes(sound))


def test_another_format_has_no_info() -> None:
    assert read_sound_info(miniaudio.flac_get_info, SOUND) is None


@pytest.mark.parametrize("head", [SOUND[:12] + b"LIST\3\0\0\0abc\0" + SOUND[12:], b"RF64" + SOUND[4:]])
def test_chunks_before_the_format_are_passed_over(head: bytes) -> None:
    assert check_wav(io.BytesIO(head.ljust(len(SOUND)))) is None
    with pytest.raises(UnfitSoundError, match="99 channels"):
        check_wav(_with("<H", head.index(b"fmt ") + 10, 99, sound=head))


@pytest.mark.parametrize("riff", [0, 36, 2**31, 2**32 - 1])
def test_data_of_size_0_goes_on_to_the_end(riff: int) -> None:
    unfinished = _with("<I", DATA - 4, 0).getvalue()
    found = check_wav(_with("<I", 4, riff, sound=unfinished))
    assert found == DataSize(DATA - 4, struct.pack("<I", 3200))


def test_data_that_is_larger_than_a_size_can_say_is_not_taken_for_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_files, "_MOST_BYTES", 1000)
    assert check_wav(_with("<I", DATA - 4, 0)) == DataSize(DATA - 4, struct.pack("<I", 1000))


def test_a_truncated_file_is_refused() -> None:
    with pytest.raises(UnfitSoundError, match="it is truncated: it has 3,243 of 3,244 bytes"):
        check_wav(io.BytesIO(SOUND[:-1]))


@pytest.mark.parametrize("data", [b"", b"RIFF", b"fLaC" + bytes(99), b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WAVEdata"])
def test_what_is_no_whole_header_passes(data: bytes) -> None:
    assert check_wav(io.BytesIO(data)) is None


def test_endless_chunks_are_given_up() -> None:
    file = io.BytesIO(b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 100_000)
    assert check_wav(file) is None
    assert file.tell() < 1000
