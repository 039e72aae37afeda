import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.audio.detection import speech_frames
from orchard.core.tasks.transcribe import SpeechDetection


def test_stretches_begin_before_sound_and_end_after_silence() -> None:
    levels = np.full(1000, -3, np.float32)
    levels[100:200] = levels[230:300] = levels[700:800] = 1
    found = speech_frames(levels, SpeechDetection(threshold=0.5, padding=0.3, silence=0.5))
    assert found == [(70, 350), (670, 850)]
    assert speech_frames(levels, SpeechDetection(threshold=0.5, padding=0.0, silence=0.1)) == [
        (100, 210),
        (230, 310),
        (700, 810),
    ]


def test_nothing_is_louder_than_what_is_the_same_throughout() -> None:
    assert speech_frames(np.zeros(500, np.float32), SpeechDetection()) == []


@given(
    st.lists(st.floats(-4, 2, width=32), min_size=1, max_size=300),
    st.floats(0, 1),
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_stretches_lie_in_order_within_the_recording_and_hold_all_that_is_loud(
    levels: list[float], threshold: float, padding: float, silence: float
) -> None:
    given_levels = np.array(levels, np.float32)
    found = speech_frames(given_levels, SpeechDetection(threshold, padding, silence))
    flat = [frame for stretch in found for frame in stretch]
    assert flat == sorted(flat)
    assert all(0 <= start < end <= len(levels) for start, end in found)
    quiet, loud = np.percentile(given_levels, (5, 95))
    for frame in np.flatnonzero(given_levels > quiet + threshold * (loud - quiet)):
        assert any(start <= frame < end for start, end in found)
