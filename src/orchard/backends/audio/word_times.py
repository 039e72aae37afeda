"""Finds the time of each word in a Whisper window, from its tokens' attention and the timestamps around it.

mlx-audio aligns words by attention (https://github.com/openai/whisper, whisper/timing.py). This shows where one word
ends and the next begins, but not which of the two a pause between them belongs to.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_audio.stt.models.whisper.audio import HOP_LENGTH, SAMPLE_RATE
from mlx_audio.stt.models.whisper.timing import WordTiming, find_alignment, merge_punctuations

_PREPENDED, _APPENDED = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"
_SENTENCE_ENDS = ".。!！?？"
_LONGEST_TYPICAL = 0.7  # seconds


def time_words(
    segments: Sequence[dict[str, Any]], model: Any, tokenizer: Any, heard: mx.array, frames: int, *, last_speech: float
) -> None:
    """Set the `words` of a window's segments, and move each segment's start and end to its words.

    `heard`: the encoder's output for the window of `frames` frames. `last_speech`: the end of the last
    word before the window, in seconds.
    """
    tokens = [[token for token in one["tokens"] if token < tokenizer.eot] for one in segments]
    timings = find_alignment(model, tokenizer, [token for each in tokens for token in each], heard, frames)
    durations = [one.end - one.start for one in timings if one.end > one.start]
    typical = min(_LONGEST_TYPICAL, float(np.median(durations))) if durations else 0.0
    _shorten_at_sentences(timings, 2 * typical)
    merge_punctuations(timings, _PREPENDED, _APPENDED)
    waiting = iter(timings)
    for segment, own in zip(segments, tokens, strict=True):
        words = list(_take_words(waiting, len(own), segment["seek"] * HOP_LENGTH / SAMPLE_RATE))
        segment["words"] = words
        if not words:
            continue
        _keep_in_segment(words, segment)
        first = words[0]
        if first["end"] - last_speech > 4 * typical and first["end"] - first["start"] > 2 * typical:
            first["start"] = max(0.0, first["end"] - 2 * typical)
        segment["start"], segment["end"] = first["start"], words[-1]["end"]
        last_speech = segment["end"]


def _shorten_at_sentences(timings: Sequence[WordTiming], most: float) -> None:
    """Shorten a sentence's final mark and the word after it to `most` seconds: either may contain the pause."""
    for at in range(1, len(timings)):
        before, one = timings[at - 1], timings[at]
        if one.end - one.start <= most:
            continue
        if one.word in _SENTENCE_ENDS:
            one.end = one.start + most
        elif before.word in _SENTENCE_ENDS:
            one.start = one.end - most


def _take_words(timings: Iterator[WordTiming], tokens: int, offset: float) -> Iterator[dict[str, Any]]:
    """Yield the words of the next `tokens` tokens, with their start and end in seconds of the recording."""
    while tokens > 0 and (timing := next(timings, None)):
        tokens -= len(timing.tokens)
        if timing.word:
            start, end = (float(round(offset + seconds, 2)) for seconds in (timing.start, timing.end))
            yield {"word": timing.word, "start": start, "end": end}


def _keep_in_segment(words: Sequence[dict[str, Any]], segment: dict[str, Any]) -> None:
    """Cut a segment's first and last word at the segment's timestamps, if these lie within the words.

    Otherwise the word would include a part of the pause before or after the segment.
    """
    first, last = words[0], words[-1]
    if first["start"] < segment["timestamp"] < first["end"]:
        first["start"] = segment["timestamp"]
    if last["start"] < segment["end"] < last["end"]:
        last["end"] = segment["end"]
