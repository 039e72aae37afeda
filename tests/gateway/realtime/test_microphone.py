from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from orchard.core.tasks.judge_turn import JUDGED_SECONDS
from orchard.dialects.openai.realtime.schema import SemanticVad, ServerVad
from orchard.gateway.realtime import microphone
from orchard.gateway.realtime.microphone import Heard, Microphone, TurnEnd, TurnGoesOn, TurnMayEnd, TurnPause, TurnStart
from orchard.gateway.realtime.samples import FORMATS
from tests.support.realtime_events import SESSION_RATE, pcm, spoken

PCM = FORMATS["audio/pcm"]
VAD = ServerVad()
NUMBERS = pcm(spoken("two", "four"))
RNG = np.random.default_rng(0)
TIME = np.arange(3 * SESSION_RATE) / SESSION_RATE


def turns(ears: Microphone, audio: bytes, sizes: Sequence[int] = (4800,)) -> list[TurnStart | TurnEnd]:
    """Return the begins and ends of turns in audio."""
    return [one for one in heard(ears, audio, sizes) if isinstance(one, TurnStart | TurnEnd)]


def heard(ears: Microphone, audio: bytes, sizes: Sequence[int] = (4800,)) -> list[Heard]:
    """Append audio in pieces of these sizes, again and again."""
    found, begin, number = list[Heard](), 0, 0
    while begin < len(audio):
        size = sizes[number % len(sizes)]
        found += [one for one in ears.append(audio[begin : begin + size]) if one]
        begin, number = begin + size, number + 1
    return found


def test_speech_is_a_turn_with_what_came_just_before() -> None:
    start, end = turns(Microphone(PCM, VAD), NUMBERS)
    assert isinstance(start, TurnStart)
    assert isinstance(end, TurnEnd)
    assert 50 <= start.milliseconds <= 400  # the words begin after 400 ms; 300 are padding
    length = len(end.audio) / 2 / SESSION_RATE * 1000
    assert end.milliseconds - start.milliseconds == pytest.approx(length, abs=1)
    assert end.audio in NUMBERS
    words = len(NUMBERS) / 2 / SESSION_RATE * 1000 - 1200  # without the silence after them
    assert words + 300 < end.milliseconds < words + 700


@settings(max_examples=20)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=6))
def test_pieces_make_no_difference_to_turns(sizes: list[int]) -> None:
    sizes = [2 * size for size in sizes]
    assert heard(Microphone(PCM, VAD), NUMBERS, sizes) == heard(Microphone(PCM, VAD), NUMBERS)


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma"])
def test_g711_is_heard_too(name: str) -> None:
    form = FORMATS[name]
    coded = form.encode(np.frombuffer(NUMBERS, "<i2")[::3])
    start, end = turns(Microphone(form, VAD), coded)
    expected = turns(Microphone(PCM, VAD), NUMBERS)
    assert abs(start.milliseconds - expected[0].milliseconds) <= 64
    assert abs(end.milliseconds - expected[1].milliseconds) <= 96


@pytest.mark.parametrize(
    "sound",
    [
        RNG.standard_normal(len(TIME)) * 0.1,
        sum(np.sin(2 * np.pi * pitch * TIME) * np.exp(-(TIME % 0.5) * 4) for pitch in (220, 277.2, 329.6)) * 0.2,
        RNG.standard_normal(len(TIME)) * np.sin(np.pi * TIME) ** 2 * 0.02,
        np.zeros(len(TIME)),
    ],
    ids=["noise", "music", "breath", "silence"],
)
def test_other_sounds_are_no_turns(sound: NDArray[np.float32]) -> None:
    ears = Microphone(PCM, VAD)
    assert turns(ears, pcm(sound)) == []
    assert ears.held_ms < 400  # only what a turn would begin with is kept


def test_a_short_pause_ends_no_turn() -> None:
    halves = pcm(spoken("two", after=0.3)) + pcm(spoken("four", before=0.0))
    assert [type(one) for one in turns(Microphone(PCM, VAD), halves)] == [TurnStart, TurnEnd]
    quick = ServerVad(silence_duration_ms=200)
    assert [type(one) for one in turns(Microphone(PCM, quick), halves)] == [TurnStart, TurnEnd] * 2


def test_a_pause_is_told_before_it_is_certain_that_it_ends_the_turn() -> None:
    halves = pcm(spoken("two", after=0.3)) + pcm(spoken("four", before=0.0))
    told = heard(Microphone(PCM, VAD), halves)
    assert [type(one) for one in told] == [TurnStart, TurnPause, TurnGoesOn, TurnPause, TurnEnd]
    _, first, _, last, end = told
    assert isinstance(first, TurnPause)
    assert isinstance(last, TurnPause)
    assert isinstance(end, TurnEnd)
    assert end.audio.startswith(last.audio)
    assert last.audio.startswith(first.audio)
    saved = (len(end.audio) - len(last.audio)) / 2 / SESSION_RATE
    assert 0.2 < saved < 0.3


def test_each_pause_may_end_a_turn_that_a_model_judges() -> None:
    halves = pcm(spoken("two", after=0.3)) + pcm(spoken("four", before=0.0))
    told = heard(Microphone(PCM, SemanticVad()), halves)
    assert [type(one) for one in told] == [TurnStart, TurnPause, TurnMayEnd, TurnGoesOn, TurnPause, TurnMayEnd]
    pauses = [one for one in told if isinstance(one, TurnPause | TurnMayEnd)]
    assert pauses[0].audio == pauses[1].audio
    assert pauses[3].audio.startswith(pauses[1].audio)


@pytest.mark.parametrize(("eagerness", "seconds"), [("high", 2), ("medium", 4), ("auto", 4), ("low", 8)])
def test_a_turn_that_is_never_judged_over_ends_after_the_longest_silence(eagerness: Any, seconds: float) -> None:
    ears = Microphone(PCM, SemanticVad(eagerness=eagerness))
    told = heard(ears, NUMBERS + bytes(2 * SESSION_RATE * 9))
    assert [type(one) for one in told] == [TurnStart, TurnPause, TurnMayEnd, TurnEnd]
    judged, end = told[2:]
    assert isinstance(judged, TurnMayEnd)
    assert isinstance(end, TurnEnd)
    waited = (len(end.audio) - len(judged.audio)) / 2 / SESSION_RATE
    assert waited == pytest.approx(seconds - 0.2, abs=0.04)


def test_a_turn_that_is_judged_over_ends_at_once() -> None:
    ears, told = Microphone(PCM, SemanticVad()), list[Heard]()
    for one in ears.append(NUMBERS + NUMBERS):
        if isinstance(one, TurnMayEnd):
            told.append(ears.end_turn())
        elif one:
            told.append(one)
    assert [type(one) for one in told] == [TurnStart, TurnPause, TurnEnd] * 2
    first, pause, end = told[:3]
    assert isinstance(first, TurnStart)
    assert isinstance(pause, TurnPause)
    assert isinstance(end, TurnEnd)
    assert end.audio == pause.audio
    assert end.milliseconds - first.milliseconds == pytest.approx(len(end.audio) / 2 / SESSION_RATE * 1000, abs=1)


def test_noise_after_speech_may_end_a_turn_too() -> None:
    """It is not quiet, so nothing is transcribed early."""
    hiss = RNG.standard_normal(2 * SESSION_RATE) * 0.2
    words = NUMBERS[: -2 * SESSION_RATE * 23 // 20]  # and 50 ms of silence
    told = heard(Microphone(PCM, SemanticVad()), words + pcm(hiss.astype(np.float32)))
    assert [type(one) for one in told] == [TurnStart, TurnMayEnd]


def test_a_model_gets_the_end_of_a_long_turn() -> None:
    ears = Microphone(PCM, SemanticVad())
    long = pcm(spoken(*["two", "four", "seven", "one", "three"] * 6))
    asked = [one for one in heard(ears, long) if isinstance(one, TurnMayEnd)]
    assert len(asked[-1].audio) == 2 * SESSION_RATE * JUDGED_SECONDS
    assert asked[-1].audio in long


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("hiss", [0.0, 0.01, 0.05])
def test_nothing_that_is_loud_follows_a_pause_that_ends_a_turn(name: str, hiss: float) -> None:
    """In G.711, the detector misses the word "four"."""
    form, ended = FORMATS[name], 0
    for words in (("two", "four"), ("four", "two"), ("seven", "one", "three"), ("two",)):
        clean = np.frombuffer(pcm(spoken(*words)), "<i2").astype(np.float32)
        noisy = clean + RNG.normal(0, hiss * 32768, len(clean))
        coded = form.encode(noisy[:: SESSION_RATE // form.rate].clip(-32768, 32767).astype(np.int16))
        told = heard(Microphone(form, VAD), coded)
        for pause, end in pairwise(told):
            if isinstance(pause, TurnPause) and isinstance(end, TurnEnd):
                rest = np.frombuffer(end.audio[len(pause.audio) :], "<i2").astype(np.float32)
                turn = np.frombuffer(end.audio, "<i2").astype(np.float32)
                assert np.abs(rest).max() <= np.abs(turn).max() / 7
                ended += 1
    assert ended or hiss


def test_no_pause_is_told_that_would_be_work_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ServerVad(silence_duration_ms=250)
    assert not any(isinstance(one, TurnPause) for one in heard(Microphone(PCM, quick), NUMBERS))
    monkeypatch.setattr(microphone, "_MOST_BEFORE_SECONDS", 1)
    assert not any(isinstance(one, TurnPause) for one in heard(Microphone(PCM, VAD), NUMBERS))


def test_two_speakers_are_two_turns() -> None:
    both = pcm(spoken("two", voice=2)) + pcm(spoken("three", voice=3))
    found = turns(Microphone(PCM, VAD), both)
    assert [type(one) for one in found] == [TurnStart, TurnEnd] * 2
    assert found[1].milliseconds <= found[2].milliseconds + 300


def test_without_detection_all_is_kept_until_it_is_taken() -> None:
    ears = Microphone(PCM, None)
    assert turns(ears, NUMBERS) == []
    assert ears.take() == NUMBERS
    assert (ears.nbytes, ears.take()) == (0, b"")


def test_a_turn_ends_after_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microphone, "MOST_SECONDS", 1)
    always = ServerVad(threshold=0.0)
    found = turns(Microphone(PCM, always), NUMBERS)
    ends = [one for one in found if isinstance(one, TurnEnd)]
    assert len(ends) >= 2
    assert all(len(one.audio) / 2 / SESSION_RATE < 1.4 for one in ends)


def test_another_format_forgets_what_is_held_but_not_the_time() -> None:
    ears = Microphone(PCM, None)
    turns(ears, NUMBERS)
    ears.change_format(FORMATS["audio/pcmu"])
    assert ears.nbytes == 0
    ears.detect(ServerVad(threshold=0.0, prefix_padding_ms=0))
    (start, *_) = turns(ears, b"\xff" * 8000)
    assert start.milliseconds == pytest.approx(len(NUMBERS) / 2 / SESSION_RATE * 1000, abs=1)


@pytest.mark.parametrize("threshold", [0.0, 0.1])
def test_a_low_threshold_hears_silence_too(threshold: float) -> None:
    found = turns(Microphone(PCM, ServerVad(threshold=threshold)), NUMBERS + bytes(len(NUMBERS)))
    assert any(isinstance(one, TurnEnd) for one in found)


def test_a_turn_needs_silence_to_end() -> None:
    found = turns(Microphone(PCM, ServerVad(silence_duration_ms=0)), NUMBERS)
    ends = [one for one in found if isinstance(one, TurnEnd)]
    assert len(ends) <= 4  # two words, and not each window
