import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt.models.whisper.decoding import DecodingResult
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES

from orchard.backends.audio import whisper
from orchard.backends.audio.whisper import Whisper
from orchard.backends.kernels import cpu
from orchard.core.errors import OrchardError
from orchard.core.tasks.transcribe import Recording, Segment, SpeechDetection, Transcribe, Word
from tests.support.sounds import noise, wav
from tests.support.whisper_models import MULTILINGUAL, make_whisper


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whisper")


@pytest.fixture(scope="module")
def model(folder: Path) -> Whisper:
    return _load(make_whisper(folder / "english"))


@pytest.fixture(scope="module")
def sound(folder: Path) -> str:
    (folder / "sound.wav").write_bytes(wav(noise(34)))
    return str(folder / "sound.wav")


@pytest.fixture(scope="module")
def short(folder: Path) -> str:
    (folder / "short.wav").write_bytes(wav(noise(0.2)))
    return str(folder / "short.wav")


def _load(folder: Path) -> Whisper:
    return whisper.load_whisper(folder, lambda fraction: None)


def _transcribed(
    model: Whisper, path: str, beat: Callable[[], None] = lambda: None, **fields: Any
) -> tuple[Recording, list[Segment]]:
    mx.random.seed(7)
    (recording, *segments) = [
        one for step in model.transcribe(Transcribe(path, **fields), beat) for one in step.results
    ]
    assert isinstance(recording, Recording)
    return recording, segments  # type: ignore[return-value]


def _same(model: Whisper, path: str, task: dict[str, Any], library: dict[str, Any]) -> None:
    """Compare with the library, which is asked for the same in its own words."""
    _, found = _transcribed(model, path, **task)
    mx.random.seed(7)
    whole = model._model.generate(path, fp16=model._model.dtype == mx.float16, **library)
    expected = [one for one in whole.segments if one["text"].strip()]
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.text, list(ours.tokens)) == (theirs["text"], theirs["tokens"])
        assert (ours.start, ours.end) == pytest.approx((theirs["start"], theirs["end"]))
        assert (ours.seek, ours.temperature) == pytest.approx((theirs["seek"] / 100, theirs["temperature"]))
        assert ours.compression_ratio == pytest.approx(theirs["compression_ratio"])
        timed = [(word["word"], word["start"], word["end"]) for word in theirs.get("words", ())]
        assert [(word.text, word.start, word.end) for word in ours.words] == timed


def test_it_gives_what_the_library_gives(model: Whisper, sound: str, short: str) -> None:
    _same(model, sound, {}, {})
    _same(model, short, {"prompt": "A fox", "temperature": 0.3}, {"initial_prompt": "A fox", "temperature": 0.3})
    _same(model, short, {"words": True, "temperature": 0.01}, {"word_timestamps": True, "temperature": 0.01})


def test_a_window_for_which_memory_is_short_is_tried_once_more(
    model: Whisper, short: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _transcribed(model, short, words=True)
    decode, left = whisper._Windows._decode, 1

    def fails(windows: Any, window: mx.array) -> DecodingResult:
        nonlocal left
        left -= 1
        if left >= 0:
            raise RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory")
        return decode(windows, window)

    monkeypatch.setattr(whisper._Windows, "_decode", fails)
    assert _transcribed(model, short, words=True) == expected
    left = 2
    with pytest.raises(OrchardError) as raised:
        _transcribed(model, short)
    assert raised.value.kind == "insufficient_memory"


def test_a_multilingual_model_detects_the_language_and_translates(folder: Path, short: str) -> None:
    many = _load(make_whisper(folder / "many", size=MULTILINGUAL))
    task = {"translate": True, "temperature": 0.01}
    _same(many, short, task, {"task": "translate", "temperature": 0.01})
    _same(many, short, {"language": "German", "temperature": 0.01}, {"language": "de", "temperature": 0.01})
    recording, _ = _transcribed(many, short, temperature=0.01)
    detected = many._model.generate(short, temperature=0.01, fp16=many._model.dtype == mx.float16).language
    assert recording == Recording(0.2, LANGUAGES[detected])
    with pytest.raises(OrchardError, match="`language` must be one of en, zh") as caught:
        _transcribed(many, short, language="klingon")
    assert caught.value.param == "language"


def test_an_english_model_knows_only_english(model: Whisper, short: str) -> None:
    assert _transcribed(model, short, language="English", temperature=0.01)[0].language == "english"
    for fields, param in (({"language": "de"}, "language"), ({"translate": True}, "model")):
        with pytest.raises(OrchardError, match="only English") as caught:
            _transcribed(model, short, **fields)
        assert caught.value.param == param


def test_only_speech_is_transcribed_where_it_is_looked_for(model: Whisper, folder: Path) -> None:
    samples = noise(20)
    samples[: 16_000 * 12] //= 1000
    (folder / "late.wav").write_bytes(wav(samples))
    detection = SpeechDetection(threshold=0.5, padding=0.2, silence=1.0)
    _, segments = _transcribed(model, str(folder / "late.wav"), temperature=0.01, detection=detection)
    assert segments[0].seek == pytest.approx(11.8, abs=0.5)
    assert _transcribed(model, str(folder / "late.wav"), temperature=0.01)[1][0].seek == 0


def test_each_token_is_a_sign_of_life_and_may_end_the_work(model: Whisper, sound: str) -> None:
    beats: list[int] = []
    _, segments = _transcribed(model, sound, lambda: beats.append(1), temperature=0.01)
    assert len(beats) >= sum(len(one.tokens) for one in segments)

    def leave() -> None:
        if len(beats) < 3:
            beats.append(1)
            return
        raise RuntimeError("nobody waits")

    beats.clear()
    with pytest.raises(RuntimeError, match="nobody waits"):
        _transcribed(model, sound, leave)
    assert len(beats) == 3


def test_the_log_probabilities_of_a_window_are_those_of_which_the_library_gives_the_mean(
    model: Whisper, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of all tokens, and of the end; segments give those of the text."""
    sums: list[tuple[float, int, list[float]]] = []
    decode = whisper._Windows._decode

    def decoded(windows: Any, mel: mx.array) -> DecodingResult:
        result = decode(windows, mel)
        sums.append((result.avg_logprob * (len(result.tokens) + 1), len(result.tokens), list(windows._logprobs)))
        return result

    monkeypatch.setattr(whisper._Windows, "_decode", decoded)
    _, segments = _transcribed(model, sound, temperature=0.01, logprobs=True)
    for total, count, logprobs in sums:
        assert len(logprobs) == count
        assert all(one <= 0 for one in logprobs)
        assert sum(logprobs) >= total - 1e-3
    full = [(total, logprobs) for total, count, logprobs in sums if count == max(one[1] for one in sums)]
    assert any(sum(logprobs) == pytest.approx(total, abs=1e-3) for total, logprobs in full), "a window that never ends"
    said = [one for segment in segments for one in segment.logprobs]
    assert b"".join(one.bytes for one in said).decode(errors="replace") == "".join(one.text for one in segments)
    known = [logprob for _, _, logprobs in sums for logprob in logprobs]
    assert all(one.logprob in known for one in said)
    assert not any(one.logprobs for one in _transcribed(model, sound, temperature=0.01)[1])


def test_a_model_that_times_all_at_zero_comes_to_an_end(
    model: Whisper, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whisper._Windows, "_split_segments", lambda windows, result, size: ([], windows._seek))
    steps = list(model.transcribe(Transcribe(sound, temperature=0.01), lambda: None))
    assert [step.done_seconds for step in steps[-2:]] == [30, 34]


def test_words_are_timed_by_attention_however_sharp_and_the_first_by_its_timestamp(
    model: Whisper, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sharp(decoder: Any, tokens: mx.array, heard: mx.array) -> Any:
        """Each token hears one place, and in float16 nothing else."""
        places = mx.arange(1500)[None] - 4 * mx.arange(tokens.shape[1])[:, None]
        scores = mx.maximum(-30.0 * mx.abs(places), -40.0 - mx.abs(places) / 100).astype(mx.float16)
        return mx.zeros((1, tokens.shape[1], 2000)), None, [mx.broadcast_to(scores, (1, 2, *scores.shape))] * 2

    def said(windows: Any, mel: mx.array) -> DecodingResult:
        time, text = windows._tokenizer.timestamp_begin, windows._tokenizer.encode(" one two three")
        return DecodingResult(mel, "en", tokens=[time + 3, *text, time + 100], avg_logprob=0.0, no_speech_prob=0.0)

    monkeypatch.setattr(type(model._model.decoder), "__call__", sharp)
    monkeypatch.setattr(whisper._Windows, "_decode", said)
    segment = _transcribed(model, sound, words=True)[1][0]
    assert [word.text for word in segment.words] == [" one", " two", " three"]
    assert [word.start for word in segment.words] == pytest.approx([0.06, 0.28, 0.52])
    assert segment.start == segment.words[0].start


def _answering(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, dict[str, Any]]) -> list[tuple[int, str]]:
    """Let windows get these answers, of which "|" is a timestamp, 5 s later each; return each window's begin, context.

    The last answer is that of all windows after it.
    """
    seen: list[tuple[int, str]] = []

    def decode(windows: Any, mel: mx.array) -> DecodingResult:
        text, fields = answers[min(len(seen), len(answers) - 1)]
        seen.append((windows._seek, windows._tokenizer.decode(windows._context).strip()))
        tokens: list[int] = []
        for number, part in enumerate(text.split("|")):
            time = windows._tokenizer.timestamp_begin + 250 * number
            tokens += [*([time, time] if number else []), *windows._tokenizer.encode(part)]
        features = windows._model.encoder(mel[None])[0]
        return DecodingResult(features, "en", tokens=tokens[1:-1] if "|" in text else tokens, **fields)

    monkeypatch.setattr(whisper._Windows, "_decode", decode)
    return seen


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        (0.96, "| .| .|", ""),
        (0.96, "| ♪♪| a| ...| 7|", "a 7"),
        (0.96, "| é|", "é"),
        (0.6, "| .| .|", ". ."),
    ],
)
def test_text_without_a_letter_or_digit_is_dropped_where_nobody_speaks(
    model: Whisper, sound: str, monkeypatch: pytest.MonkeyPatch, words: bool, case: tuple[float, str, str]
) -> None:
    no_speech, text, heard = case
    seen = _answering(monkeypatch, (text, {"no_speech_prob": no_speech, "avg_logprob": -0.54}), ("", {}))
    _, segments = _transcribed(model, sound, words=words)
    assert "".join(one.text for one in segments).strip() == heard
    assert "".join(word.text for one in segments for word in one.words).strip() == (heard if words else "")
    assert seen[1][1] == heard  # what is dropped is no context of the next window


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize(
    "case", [(" one", [12.0]), ("| one| two|", [10.0, 12.0]), ("| one| two| three|", [10.0, 12.0])]
)
def test_nothing_ends_or_begins_beyond_the_recording(
    model: Whisper, folder: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, list[float]], words: bool
) -> None:
    """The window is longer than the recording, and so may its timestamps be."""
    text, ends = case
    (folder / "twelve.wav").write_bytes(wav(noise(12)))
    _answering(monkeypatch, (text, {}))
    steps = list(model.transcribe(Transcribe(str(folder / "twelve.wav"), words=words), lambda: None))
    segments = [one for step in steps for one in step.results if isinstance(one, Segment)]
    assert [one.text for one in segments] == [" one", " two"][: len(ends)]
    assert words or [one.end for one in segments] == ends
    timed: list[Segment | Word] = [*segments, *(word for one in segments for word in one.words)]
    assert max(one.end for one in timed) <= 12
    assert all(one.start <= one.end for one in timed)
    assert [step.done_seconds for step in steps if step.results][-1] == 12


def test_no_stretch_of_speech_is_skipped_because_of_a_time_beyond_the_one_before_it(
    model: Whisper, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = noise(20)
    samples[16_000 * 4 : 16_000 * 8] //= 1000
    (folder / "two.wav").write_bytes(wav(samples))
    seen = _answering(monkeypatch, ("| one| two| three| .", {}))
    detection = SpeechDetection(threshold=0.5, padding=0.2, silence=1.0)
    _transcribed(model, str(folder / "two.wav"), detection=detection)
    assert [begin for begin, _ in seen] == [0, 780]


def test_no_segment_begins_before_the_end_of_another(
    model: Whisper, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "twelve.wav").write_bytes(wav(noise(12)))
    tokenizer = model._model.get_tokenizer(language="en", task="transcribe")
    time, (text,) = tokenizer.timestamp_begin, tokenizer.encode("a")
    # What the model likes most in each step, and what it likes almost as much.
    likes = [(time + 4,), (text,), (time + 2, time + 44), (time + 16, time + 46), (text,), (time + 106,)]
    left = iter([*likes, (tokenizer.eot,)])

    def decoder(decoder: Any, tokens: mx.array, heard: mx.array, **cache: Any) -> Any:
        logits = np.zeros((1, tokens.shape[1], 2000), np.float32)
        for number, token in enumerate(next(left, (text,))):
            logits[0, -1, token] = 40 - 10 * number
        return mx.array(logits), None, None

    monkeypatch.setattr(type(model._model.decoder), "__call__", decoder)
    _, segments = _transcribed(model, str(folder / "twelve.wav"))
    assert [(one.start, one.end) for one in segments] == [(0.08, 0.88), (0.92, 2.12)]


@pytest.mark.parametrize(("temperature", "context"), [(0.4, "abc"), (0.6, "")])
def test_text_that_was_drawn_hot_is_no_context_of_the_next_window(
    model: Whisper, sound: str, monkeypatch: pytest.MonkeyPatch, temperature: float, context: str
) -> None:
    seen = _answering(monkeypatch, ("| abc|", {"temperature": temperature}), ("", {}))
    _transcribed(model, sound)
    assert seen[1][1] == context


def test_the_next_window_begins_where_a_silent_one_ends(
    model: Whisper, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _answering(monkeypatch, (" abc", {"no_speech_prob": 0.9, "avg_logprob": -2.0}), ("| abc|", {}))
    steps = list(model.transcribe(Transcribe(sound), lambda: None))
    assert [begin for begin, _ in seen] == [0, 3000]
    assert [step.done_seconds for step in steps[-2:]] == [30, 34]


def test_the_times_of_words_change_no_text(model: Whisper, sound: str) -> None:
    plain, timed = (_transcribed(model, sound, words=words)[1] for words in (False, True))
    assert len({one.seek for one in plain}) > 1
    assert [(one.text, one.tokens, one.seek) for one in timed] == [(one.text, one.tokens, one.seek) for one in plain]
    assert any(one.words for one in timed)


def test_a_recording_gets_the_same_text_whatever_was_drawn_before(
    model: Whisper, short: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whisper, "_TEMPERATURES", (0.0, 1.0))
    monkeypatch.setattr(whisper, "_LEAST_LOGPROB", 0.0)  # so that no text is good enough

    def drawn(seed: int, **fields: Any) -> list[str]:
        mx.random.seed(seed)
        steps = model.transcribe(Transcribe(short, **fields), lambda: None)
        return [one.text for step in steps for one in step.results if isinstance(one, Segment) and one.temperature]

    assert drawn(1) == drawn(2) != []
    assert drawn(1, temperature=0.9) != drawn(2, temperature=0.9)


@pytest.mark.parametrize("layout", ["npz", "hf"])
def test_other_layouts_are_loaded(model: Whisper, folder: Path, short: str, layout: str) -> None:
    other = _load(make_whisper(folder / layout, layout=layout))
    assert other.weights_bytes == model.weights_bytes
    expected = _transcribed(model, short, temperature=0.01)[1]
    assert [one.tokens for one in _transcribed(other, short, temperature=0.01)[1]] == [one.tokens for one in expected]
    heads = other._model.alignment_heads.tolist()
    assert heads == [[1, 0], [1, 1]]


def test_a_folder_of_weights_alone_is_given_openais_tokenizer(folder: Path, short: str) -> None:
    """As mlx-examples writes it: config.json and weights.npz."""
    made = make_whisper(folder / "bare", size=MULTILINGUAL, layout="npz", words=False)
    assert sorted(file.name for file in made.iterdir()) == ["config.json", "weights.npz"]
    bare = _load(made)
    recording, segments = _transcribed(bare, short, temperature=0.01, words=True, prompt="Ça va?")
    assert recording.language in LANGUAGES.values()
    assert "".join(word.text for one in segments for word in one.words) == "".join(one.text for one in segments) != ""
    _same(bare, short, {"translate": True, "temperature": 0.01}, {"task": "translate", "temperature": 0.01})
    with pytest.raises(OrchardError, match=r"`language` must be one of en, zh, .*, su, not 'yue'"):
        _transcribed(bare, short, language="yue")


def test_openais_tokenizer_follows_the_size_of_the_vocabulary(folder: Path, short: str) -> None:
    large = _load(make_whisper(folder / "large", size=MULTILINGUAL + 1, words=False))
    recording, segments = _transcribed(large, short, language="Cantonese", temperature=0.01)
    assert (recording.language, bool(segments)) == ("cantonese", True)
    english = _load(make_whisper(folder / "only", size=MULTILINGUAL - 1, layout="hf", words=False))
    recording, segments = _transcribed(english, short, temperature=0.01)
    assert (recording.language, bool(segments)) == ("english", True)
    with pytest.raises(OrchardError, match="only English"):
        _transcribed(english, short, language="de")


def test_the_vocabulary_is_listed_once(model: Whisper) -> None:
    tokenizer = model._model._processor.tokenizer
    assert tokenizer.get_vocab() is tokenizer.get_vocab()


def test_pickles_are_not_read(folder: Path) -> None:
    broken = make_whisper(folder / "pickled", layout="npz")

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (broken / "was-here",))

    with zipfile.ZipFile(broken / "weights.npz", "w") as archive:
        header = b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}".ljust(69)
        archive.writestr("decoder.ln.weight.npy", header + b"\n" + pickle.dumps(np.array([Evil()], object)))
    with pytest.raises(OrchardError, match="allow_pickle"):
        _load(broken)
    assert not (broken / "was-here").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda folder: (folder / "tokenizer.json").unlink(),
            "no tokenizer, and OpenAI's have 51,864 to 51,866 tokens",
        ),
        (
            lambda folder: [file.unlink() for file in folder.glob("token*.json")],
            r"not 2,000\. Copy into it tokenizer\.json",
        ),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "the tokenizer in .* can't be loaded"),
        (lambda folder: (folder / "model.safetensors").unlink(), "can't be loaded"),
        (lambda folder: (folder / "config.json").write_text("{"), "its config.json is not JSON"),
        (lambda folder: _change(folder, n_text_state=64), "its weights do not fit"),
        (lambda folder: _change(folder, n_vocab=1999), "its weights do not fit"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(tmp_path: Path, change: Callable[[Path], Any], message: str) -> None:
    change(make_whisper(tmp_path / "m"))
    with pytest.raises(OrchardError, match=message) as caught:
        _load(tmp_path / "m")
    assert caught.value.kind == "model_failed"


def _change(folder: Path, **values: int) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(("slow", "dtype"), [(True, mx.float32), (False, mx.float16)])
def test_weights_are_as_small_as_the_device_is_fast_with_them(
    slow: bool, dtype: mx.Dtype, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: slow)
    assert _load(make_whisper(folder / str(dtype)))._model.decoder.token_embedding.weight.dtype == dtype
