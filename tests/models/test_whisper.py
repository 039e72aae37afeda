"""Whisper base and tiny.en hear what was said, as faster-whisper does; and they hear nothing where nobody speaks."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orchard.backends.audio import whisper
from orchard.backends.audio.vocabulary.tokenizer import make_tokenizer
from orchard.backends.audio.whisper import Whisper
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, Word
from tests.models import sources
from tests.models.conftest import Record
from tests.support.sounds import wav

SIZES = {"whisper-base": (sources.WHISPER_BASE, 51_865), "whisper-tiny.en": (sources.WHISPER_TINY, 51_864)}
Hear = Callable[..., tuple[Recording, list[Segment]]]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def hear(tmp_path_factory: pytest.TempPathFactory) -> Hear:
    """Transcribe samples with a model that is loaded when it is first asked for."""
    models: dict[str, Whisper] = {}
    file = tmp_path_factory.mktemp("heard") / "sound.wav"

    def heard(name: str, samples: NDArray[np.int16], **fields: Any) -> tuple[Recording, list[Segment]]:
        if name not in models:
            models[name] = whisper.load_whisper(sources.ROOT / name, lambda fraction: None)
        file.write_bytes(wav(samples))
        mx.random.seed(0)
        steps = models[name].transcribe(Transcribe(str(file), **fields), lambda: None)
        (recording, *segments) = [one for step in steps for one in step.results]
        assert isinstance(recording, Recording)
        return recording, segments  # type: ignore[return-value]

    return heard


_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def words(text: str) -> list[str]:
    """Return a text's words in lower case; small numbers are words, too."""
    found = re.findall(r"[\w']+", text.lower().replace("-", " "))
    return [_NUMBERS[int(one)] if one.isdecimal() and int(one) < len(_NUMBERS) else one for one in found]


def errors(found: str, expected: str) -> float:
    """Return the word error rate: words that are wrong, missing or too many, as a share of those expected."""
    ours, theirs = words(found), words(expected)
    row = list(range(len(theirs) + 1))
    for at, word in enumerate(ours, start=1):
        before, row = row, [at]
        for place, other in enumerate(theirs):
            row.append(min(before[place] + (word != other), before[place + 1] + 1, row[place] + 1))
    return row[-1] / len(theirs)


def heard_by(segments: list[Segment]) -> str:
    return "".join(one.text for one in segments)


def recorded(segments: list[dict[str, Any]]) -> str:
    return "".join(one["text"] for one in segments)


@pytest.mark.parametrize("name", SIZES)
def test_a_tokenizer_that_is_made_for_a_folder_without_one_is_right(name: str) -> None:
    """The tokens of texts; special ones are missing in the files, or have old names."""
    parts, size = SIZES[name]
    both = Tokenizer.from_file(str(parts[0].parent / "tokenizer.json")), make_tokenizer(size)
    ours, theirs = ({word: at for word, at in one.get_vocab().items() if at < 50_256} for one in both)
    assert len(ours) == 50_256
    assert ours == theirs


@pytest.mark.usefixtures("voices")
@pytest.mark.parametrize("name", SIZES)
def test_a_book_is_understood(hear: Hear, name: str, record: Record) -> None:
    samples, text = sources.book()
    _, segments = hear(name, samples)
    assert errors(heard_by(segments), text) < 0.05
    assert errors(heard_by(segments), recorded(record(name)["book"]["segments"])) < 0.05


@pytest.mark.usefixtures("voices")
@pytest.mark.parametrize(("name", "most"), [("whisper-base", 0.05), ("whisper-tiny.en", 0.2)])
def test_single_words_of_a_speaker_with_an_accent_are_understood(
    hear: Hear, name: str, most: float, record: Record
) -> None:
    samples, text = sources.cards()
    _, segments = hear(name, samples)
    assert errors(heard_by(segments), text) < most
    same_segments(segments, record(name)["cards"]["segments"])


@pytest.mark.usefixtures("voices")
@pytest.mark.parametrize("language", sources.LANGUAGES)
def test_languages_are_detected_and_understood(hear: Hear, language: str, record: Record) -> None:
    recording, segments = hear("whisper-base", sources.spoken(language))
    expected = record("whisper-base")[language]
    assert recording.language == LANGUAGES[expected["language"]] == LANGUAGES[language]
    same_segments(segments, expected["segments"])


@pytest.mark.usefixtures("voices")
def test_a_recording_of_three_windows_is_understood(hear: Hear, record: Record) -> None:
    recording, segments = hear("whisper-tiny.en", sources.spoken("en", "demo-instruct"))
    assert recording.seconds > 70
    same_segments(segments, record("whisper-tiny.en")["long"]["segments"])


def same_segments(found: list[Segment], expected: list[dict[str, Any]]) -> None:
    """Compare with faster-whisper, whose spectrogram has other roundings."""
    assert errors(heard_by(found), recorded(expected)) < 0.05
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.start, ours.end) == pytest.approx((theirs["start"], theirs["end"]), abs=0.1)
        assert ours.avg_logprob == pytest.approx(theirs["avg_logprob"], abs=0.05)
        assert ours.no_speech_prob == pytest.approx(theirs["no_speech_prob"], abs=0.02)


@pytest.mark.usefixtures("voices")
def test_words_have_the_times_of_faster_whisper(hear: Hear, record: Record) -> None:
    _, segments = hear("whisper-tiny.en", sources.book()[0], words=True)
    found = [word for one in segments for word in one.words]
    expected = [word for one in record("whisper-tiny.en")["book"]["segments"] for word in one["words"]]
    assert [word.text.strip() for word in found] == [text.strip() for text, _, _ in expected]
    off = [abs(word.start - start) for word, (_, start, _) in zip(found, expected, strict=True)]
    assert sorted(off)[len(off) * 9 // 10] < 0.25
    assert all(one.start <= other.start for one, other in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("name", "kind"),
    [*itertools.product(SIZES, ["near silence", "hiss", "hum"]), ("whisper-tiny.en", "music")],
)
def test_nothing_is_heard_where_nobody_speaks(hear: Hear, name: str, kind: str) -> None:
    _, segments = hear(name, sources.sound(kind, 10))
    assert segments == []


def test_base_hears_in_music_what_faster_whisper_hears(hear: Hear, record: Record) -> None:
    """Percentages, with a no_speech_prob of 0.65; faster-whisper's tiny.en gives speech, below, up to 0.70."""
    _, segments = hear("whisper-base", sources.sound("music", 10))
    same_segments(segments, record("whisper-base")["music"]["segments"])


@pytest.mark.usefixtures("voices")
@pytest.mark.parametrize("name", SIZES)
def test_only_speech_is_heard_between_music_and_noise(hear: Hear, name: str) -> None:
    *_, (second, after), (first, before) = sources.sentences()
    quiet = [sources.sound(kind, 2) for kind in ("silence", "hum", "near silence")]
    parts = [sources.sound("hiss", 2), first, sources.sound("music", 8), second, *quiet]
    recording, segments = hear(name, np.concatenate(parts), words=True)
    assert errors(heard_by(segments), f"{before} {after}") < 0.1
    timed: list[Segment | Word] = [*segments, *(word for one in segments for word in one.words)]
    assert all(0 <= one.start <= one.end <= recording.seconds for one in timed)
    (start,) = (word.start for one in segments for word in one.words if word.text.strip() == "Had")
    assert start == pytest.approx(2 + len(first) / sources.RATE + 8, abs=1)
