"""The pictures and sounds that the checks send are files that any library reads."""

import io
import wave

import numpy as np
from PIL import Image

from orchard.cli.verify.media import PICTURES, draw_picture, make_recording


def test_pictures_are_what_their_names_say() -> None:
    middles = {}
    for name in PICTURES:
        with Image.open(io.BytesIO(draw_picture(name))) as picture:
            assert picture.size == (128, 128)
            assert picture.getpixel((1, 1)) == (255, 255, 255)
            middles[name] = picture.getpixel((64, 64))
    assert middles == {
        "a blue square": (30, 60, 220),
        "a red circle": (220, 30, 30),
        "a green triangle": (20, 160, 60),
    }


def test_recordings_differ_and_are_loud_enough() -> None:
    sounds = []
    for pitch in (110.0, 160.0):
        with wave.open(io.BytesIO(make_recording(pitch))) as file:
            assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (16_000, 1, 48_000)
            sounds.append(np.frombuffer(file.readframes(48_000), np.int16).astype(np.float32))
    assert all(np.abs(sound).max() > 5_000 for sound in sounds)
    assert np.corrcoef(sounds[0], sounds[1])[0, 1] < 0.5
