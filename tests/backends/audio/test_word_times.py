"""When words were said, where a pause is between them."""

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_audio.stt.models.whisper.timing import WordTiming

from orchard.backends.audio import word_times

END = 50  # the token at the end of a text; timestamps come after it
TOKENIZER = SimpleNamespace(eot=END)


def segment(start: float, end: float, words: int, *, seek: int = 0) -> dict[str, Any]:
    tokens = [END + 1, *range(words), END + 2]
    return {"seek": seek, "start": start, "timestamp": start, "end": end, "tokens": tokens, "words": []}


def timed(
    monkeypatch: pytest.MonkeyPatch,
    segments: list[dict[str, Any]],
    heard: list[tuple[str, float, float]],
    last_speech: float = 0.0,
) -> list[list[tuple[str, float, float]]]:
    """The words of each segment; `heard` are those that the attention tells, each of one token."""
    timings = [WordTiming(word, [0], start, end, 1.0) for word, start, end in heard]
    monkeypatch.setattr(word_times, "find_alignment", lambda *given: timings)
    word_times.time_words(segments, None, TOKENIZER, mx.zeros(1), 3000, last_speech=last_speech)
    return [[(word["word"], word["start"], word["end"]) for word in one["words"]] for one in segments]


def test_the_pause_between_segments_is_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of a short segment's last word, nor of the next one's first word."""
    segments = [segment(1.0, 2.0, 2), segment(5.0, 6.0, 2)]
    heard = [(" four", 1.0, 1.5), (" five", 1.5, 4.2), (" six", 4.2, 5.6), (" two", 5.6, 6.0)]
    assert timed(monkeypatch, segments, heard) == [
        [(" four", 1.0, 1.5), (" five", 1.5, 2.0)],
        [(" six", 5.0, 5.6), (" two", 5.6, 6.0)],
    ]
    assert [(one["start"], one["end"]) for one in segments] == [(1.0, 2.0), (5.0, 6.0)]


def test_timestamps_that_are_in_no_word_change_none(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [segment(10.0, 30.0, 2, seek=1000)]
    heard = [(" four", 1.0, 1.5), (" five", 1.5, 2.0)]
    assert timed(monkeypatch, segments, heard, 10.0) == [[(" four", 11.0, 11.5), (" five", 11.5, 12.0)]]
    assert (segments[0]["start"], segments[0]["end"]) == (11.0, 12.0)


def test_a_first_word_is_not_long_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [(" a", 0.0, 9.0), (" b", 9.0, 9.4), (" c", 9.4, 9.8)]
    assert timed(monkeypatch, [segment(0.0, 9.8, 3)], words)[0][0][1] == pytest.approx(8.2)
    assert timed(monkeypatch, [segment(0.0, 9.8, 3)], words, 8.0)[0][0][1] == 0.0  # no pause


def test_the_pause_between_sentences_is_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = [(" a", 0.0, 0.4), (".", 0.4, 3.0), (" b", 3.0, 7.0), (" c", 7.0, 7.4), (" d", 7.4, 7.8)]
    ((a, b, *others),) = timed(monkeypatch, [segment(0.0, 7.8, 5)], heard)
    assert (a, *others) == ((" a.", 0.0, 0.4), (" c", 7.0, 7.4), (" d", 7.4, 7.8))
    assert (b[0], b[2]) == (" b", 7.0)
    assert b[1] == pytest.approx(6.2)
    assert timed(monkeypatch, [segment(0.0, 7.8, 0)], []) == [[]]
