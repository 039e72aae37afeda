"""The sound that the demo Whisper model is trained with, and the truth about it."""

from itertools import pairwise

import numpy as np
import pytest

from demo_whisper_model import batches, tokenizer
from demo_whisper_model.clips import FILE, RATE, Clips, packed
from demo_whisper_model.utterances import (
    Spoken,
    Utterance,
    plain_tokens,
    utterance,
    window_tokens,
    with_noise,
    word_errors,
)
from demo_whisper_model.words import WORDS

VOICES = 3
CLIP_SECONDS = 0.3


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    """Clips of constant loudness, so that where a word is can be seen in the sound."""
    folder = tmp_path_factory.mktemp("clips")
    count = VOICES * len(WORDS)
    samples = int(CLIP_SECONDS * RATE)
    np.savez(
        folder / FILE,
        train_words=np.tile(np.arange(len(WORDS), dtype=np.int32), VOICES),
        train_voices=np.repeat(np.arange(VOICES, dtype=np.int32), len(WORDS)),
        train_ends=np.cumsum(np.full(count, samples)),
        train_data=packed(np.ones(count * samples, np.float32)),
    )
    return Clips(folder, "train")


def _made(clips: Clips, seed: int, seconds: float = 33) -> Utterance:
    return utterance(np.random.default_rng(seed), clips, seconds, speech=1.0)


@pytest.mark.parametrize("seed", range(5))
def test_words_are_where_the_truth_says(clips: Clips, seed: int) -> None:
    made = _made(clips, seed)
    words = [one for segment in made.segments for one in segment]
    assert len(words) > 10
    loud = np.abs(made.sound) > 0.01
    said = np.zeros_like(loud)
    for one in words:
        said[round(one.start * RATE) : round(one.end * RATE)] = True
    np.testing.assert_array_equal(loud, said)
    assert all(one.end < other.start for one, other in pairwise(words))


def test_the_same_seed_gives_the_same_and_another_one_something_else(clips: Clips) -> None:
    np.testing.assert_array_equal(_made(clips, 1).sound, _made(clips, 1).sound)
    assert not np.array_equal(_made(clips, 1).sound, _made(clips, 2).sound)
    silent = utterance(np.random.default_rng(0), clips, 5, speech=0.0)
    assert not silent.segments
    assert not silent.sound.any()


def test_a_window_is_written_with_its_times_and_what_it_cuts_off_with_its_beginning() -> None:
    segments = [[Spoken(1, 2.0, 2.5), Spoken(2, 2.7, 3.0)], [Spoken(3, 4.0, 4.4)], [Spoken(4, 29.5, 30.1)]]
    assert window_tokens(segments, 30) == [
        tokenizer.IDS["<|1.00|>"],  # Whisper may not write a later one first
        tokenizer.word(1),
        tokenizer.word(2),
        tokenizer.IDS["<|3.00|>"],
        tokenizer.IDS["<|4.00|>"],
        tokenizer.word(3),
        tokenizer.IDS["<|4.40|>"],
        tokenizer.IDS["<|29.50|>"],
        tokenizer.END,
    ]
    assert plain_tokens(segments[:2]) == [tokenizer.word(1), tokenizer.word(2), tokenizer.word(3), tokenizer.END]


def test_noise_is_as_loud_as_it_is_said_to_be(clips: Clips) -> None:
    made = _made(clips, 1)
    noisy = with_noise(np.random.default_rng(1), made.sound, 20, 20)
    said = made.sound[made.sound != 0]
    assert np.sqrt(np.mean(said**2)) / (noisy - made.sound).std() == pytest.approx(10, rel=0.02)
    silent = np.zeros(16_000, np.float32)
    assert 0 < with_noise(np.random.default_rng(1), silent, 8, 50).std() < 0.1


def test_batches_tell_where_each_word_is(clips: Clips) -> None:
    made = batches.make(clips, np.random.default_rng(1), 24)
    assert made.sound.shape == (24, 30 * RATE)
    kinds = set()
    for sound, tokens, learn, spans, frames in zip(*made[:4], made.frames.tolist(), strict=True):
        begin = tokens.tolist().index(tokenizer.START)
        kinds.add(int(tokens[begin + 1]) if tokens[begin + 1] in (tokenizer.NO_SPEECH, tokenizer.NO_TIMES) else 0)
        assert not learn[: begin + 1].any()
        assert learn[begin + 1] == (tokens[begin + 1] != tokenizer.NO_TIMES)
        last = int(np.flatnonzero(learn)[-1])
        assert tokens[last] == tokenizer.END
        assert not sound[frames * 160 + 160 :].any()
        words = [at for at in range(begin, last) if 256 <= tokens[at] < tokenizer.END]
        assert [at for at in range(len(spans)) if spans[at].any()] == words
        for first, end in spans[words]:
            assert 0 <= first < end <= 1500
            middle = int((first / 50 + CLIP_SECONDS / 2) * RATE)
            assert np.abs(sound[middle : middle + 160]).max() > 300  # louder than the noise can be alone
    assert kinds >= {0, tokenizer.NO_TIMES}
    assert batches.FRAMES in made.frames
    assert any(0 < count < batches.FRAMES for count in made.frames)


def test_a_pause_is_the_words_before_it(clips: Clips) -> None:
    spans = np.zeros((6, 2), np.int16)
    segments = [[Spoken(1, 1.0, 1.5), Spoken(2, 1.7, 2.0)], [Spoken(3, 4.0, 4.4)]]
    tokens = [tokenizer.time(1.0), tokenizer.word(1), tokenizer.word(2), tokenizer.time(2), tokenizer.word(3)]
    batches._span(spans, 0, tokens, segments)
    assert spans.tolist() == [[0, 0], [50, 85], [85, 200], [0, 0], [200, 237], [0, 0]]


def test_the_text_before_is_as_whisper_gives_it() -> None:
    seen = [batches._before(np.random.default_rng(seed)) for seed in range(60)]
    told = [one for one in seen if one]
    assert 0 < len(told) < len(seen)
    assert {one[0] for one in told} == {tokenizer.BEFORE}
    assert max(map(len, told)) == 1 + batches.MOST_BEFORE
    timed = [any(token >= tokenizer.FIRST_TIME for token in one) for one in told]
    assert any(timed)
    assert not all(timed)


@pytest.mark.parametrize(
    ("expected", "heard", "errors"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "b c", 1),
        ("a", "a b c", 2),
        ("", "a", 1),
        ("a b", "", 2),
    ],
)
def test_word_errors(expected: str, heard: str, errors: int) -> None:
    assert word_errors(expected.split(), heard.split()) == errors
