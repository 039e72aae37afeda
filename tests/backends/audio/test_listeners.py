import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt.models.nemo.alignment import AlignedToken, sentences_to_result, tokens_to_sentences

from orchard.backends.audio import listeners
from orchard.backends.audio.decode import RATE, decode_recording
from orchard.backends.audio.listeners import Listener
from orchard.backends.audio.transcription import TranscriptionService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.transcribe import (
    KnownSpeaker,
    Recording,
    Segment,
    SpeechDetection,
    Transcribe,
    TranscribeOptions,
    decode_transcription,
)
from orchard.gateway.models.registry import resolve_model
from tests.support.listener_models import (
    make_moonshine,
    make_moss,
    make_parakeet,
    make_qwen3_asr,
    make_vibevoice_asr,
)
from tests.support.sounds import noise, wav

MAKERS: dict[str, Callable[[Path], Path]] = {
    "parakeet": make_parakeet,
    "moonshine": make_moonshine,
    "qwen3_asr": make_qwen3_asr,
    "moss_transcribe_diarize": make_moss,
    "vibevoice_asr": make_vibevoice_asr,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("listeners")


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Listener]:
    return {name: listeners.load_listener(make(folder / name), lambda fraction: None) for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def sound(folder: Path) -> str:
    (folder / "sound.wav").write_bytes(wav(noise(3)))
    return str(folder / "sound.wav")


@pytest.fixture(autouse=True)
def _few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random models never come to an end."""
    monkeypatch.setattr(listeners, "_MOST_WINDOW_TOKENS", 20)


def transcribed(model: Listener, path: str, **fields: Any) -> tuple[Recording, list[Segment]]:
    recording, *segments = [
        one for step in model.transcribe(Transcribe(path, **fields), lambda: None) for one in step.results
    ]
    assert isinstance(recording, Recording)
    return recording, segments  # type: ignore[return-value]


def library(model: Listener, samples: Any, **options: Any) -> str:
    heard = mx.array(np.asarray(samples, np.float32) / np.float32(32768))
    text: str = model._model.generate(heard, max_tokens=20, **options).text
    return text.strip()


def joined(segments: list[Segment]) -> str:
    return "".join(one.text for one in segments).strip()


@pytest.mark.parametrize("name", MAKERS)
def test_a_short_recording_gives_what_the_library_gives(models: dict[str, Listener], name: str, sound: str) -> None:
    recording, segments = transcribed(models[name], sound)
    heard = np.concatenate(list(decode_recording(sound, "file", models[name]._rate)))
    expected = library(models[name], heard * 32768)
    assert joined(segments) == expected
    assert len(expected) > 10
    assert recording == Recording(3.0, None)


def test_a_silent_recording_has_no_text(models: dict[str, Listener], tmp_path: Path) -> None:
    (tmp_path / "silent.wav").write_bytes(wav(noise(31) * 0))
    assert transcribed(models["moonshine"], str(tmp_path / "silent.wav")) == (Recording(31.0, None), [])


def test_a_long_one_is_cut_where_it_is_quiet(models: dict[str, Listener], folder: Path) -> None:
    samples = noise(31)
    samples[20 * RATE : 21 * RATE] = 0
    (folder / "long.wav").write_bytes(wav(samples))
    model = models["moonshine"]
    _, (first, second) = transcribed(model, str(folder / "long.wav"))
    cut = round(first.end * RATE)
    assert 20 * RATE <= cut <= 21 * RATE
    assert (first.start, first.seek, second.start, second.seek, second.end) == (0, 0, first.end, first.end, 31)
    assert first.text == f" {library(model, samples[:cut])}"
    assert second.text == f" {library(model, samples[cut:])}"


def test_a_window_for_which_memory_is_short_is_halved(
    models: dict[str, Listener], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = noise(9)
    samples[4 * RATE : 5 * RATE] = 0
    (folder / "short.wav").write_bytes(wav(samples))
    model, most = models["moonshine"], 5 * RATE
    hear = model.hear

    def short(window: Any, options: Any, beat: Any) -> Any:
        if len(window) > most:
            raise RuntimeError("[malloc] Unable to allocate 8 bytes.")
        return hear(window, options, beat)

    monkeypatch.setattr(model, "hear", short)
    _, (first, second) = transcribed(model, str(folder / "short.wav"))
    cut = round(first.end * RATE)
    assert 4 * RATE <= cut <= 5 * RATE
    assert (second.start, second.end) == (first.end, 9)
    assert joined([first]) == library(model, samples[:cut])
    assert joined([second]) == library(model, samples[cut:])
    most = 0
    with pytest.raises(OrchardError) as raised:
        transcribed(model, str(folder / "short.wav"))
    assert raised.value.kind == "insufficient_memory"


@pytest.mark.parametrize("name", MAKERS)
def test_a_moment_is_enough(models: dict[str, Listener], name: str, folder: Path) -> None:
    (folder / "moment.wav").write_bytes(wav(noise(0.1)))
    _, segments = transcribed(models[name], str(folder / "moment.wav"))
    assert all(0 <= one.start <= one.end <= 0.1 for one in segments)


def test_a_language_a_prompt_and_a_temperature_are_handed_on(models: dict[str, Listener], sound: str) -> None:
    model = models["qwen3_asr"]
    recording, segments = transcribed(model, sound, language="de", prompt="A fox")
    assert joined(segments) == library(model, noise(3), language="German", system_prompt="A fox")
    assert recording.language == "German"
    assert joined(segments) != joined(transcribed(model, sound)[1])
    mx.random.seed(1)
    (drawn,) = transcribed(models["moonshine"], sound, temperature=1.0)[1]
    mx.random.seed(1)
    assert drawn.text.strip() == library(models["moonshine"], noise(3), temperature=1.0)


def test_sentences_and_words_are_timed(models: dict[str, Listener], sound: str) -> None:
    _, segments = transcribed(models["parakeet"], sound, timed=True, words=True)
    (expected,) = models["parakeet"]._model.generate(mx.array(noise(3) / np.float32(32768))).sentences
    (found,) = segments
    assert (found.start, found.end) == pytest.approx((expected.start, min(3, expected.end)))
    assert len(found.words) > 3
    assert "".join(word.text for word in found.words) == expected.text
    starts = [word.start for word in found.words]
    assert starts == sorted(starts)


class Told:
    """A model that says the same of each window."""

    def __init__(self) -> None:
        tokens = [" A", " fo", "x.", " It", " ran", " off", "!"]
        aligned = [AlignedToken(at, text, at * 0.5, 0.4) for at, text in enumerate(tokens)]
        self.result = sentences_to_result(tokens_to_sentences(aligned))

    def parameters(self) -> dict[str, Any]:
        return {}

    def generate(self, audio: Any, **options: Any) -> Any:
        return self.result


def test_words_are_put_together_and_lie_in_their_window(folder: Path) -> None:
    (folder / "two.wav").write_bytes(wav(noise(33)))
    _, (_, _, third, fourth) = transcribed(Listener("parakeet", Told()), str(folder / "two.wav"), words=True)
    begin = third.seek
    assert 20 <= begin <= 28
    assert [(word.text, round(word.start - begin, 6)) for word in third.words] == [(" A", 0), (" fox.", 0.5)]
    assert (third.text, fourth.text) == (" A fox.", " It ran off!")
    assert fourth.end == pytest.approx(begin + 3.4)


def test_words_without_spaces_between_them_stay_together(folder: Path) -> None:
    (folder / "two.wav").write_bytes(wav(noise(33)))
    model = Told()
    model.result = SimpleNamespace(text="狐狸")
    assert joined(transcribed(Listener("moonshine", model), str(folder / "two.wav"))[1]) == "狐狸狐狸"
    model.result = SimpleNamespace(text=" ")
    assert transcribed(Listener("moonshine", model), str(folder / "two.wav"))[1] == []


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("parakeet", {"translate": True}, "model", "can't translate"),
    ("parakeet", {"language": "de"}, "language", "models of the kind parakeet find it out"),
    ("parakeet", {"temperature": 0.5}, "temperature", "0 is served"),
    ("parakeet", {"prompt": "A fox"}, "prompt", "read no text"),
    ("parakeet", {"detection": SpeechDetection()}, "chunking_strategy", "'auto' is served"),
    ("moonshine", {"timed": True}, "response_format", "'json' and 'text' are served"),
    ("moonshine", {"prompt": "A fox"}, "prompt", "read no text"),
    ("qwen3_asr", {"logprobs": True}, "include", "tell no log-probabilities"),
    ("qwen3_asr", {"language": "fr"}, "language", "must be one of English, German, not 'fr'"),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_a_kind_can_not_do_is_refused(models: dict[str, Listener], sound: str, case: Any) -> None:
    name, fields, param, words = case
    with pytest.raises(OrchardError) as caught:
        transcribed(models[name], sound, **fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert f"`{param}`" in caught.value.message
    assert words in caught.value.message


def test_neutral_values_are_taken(models: dict[str, Listener], sound: str) -> None:
    neutral = transcribed(models["parakeet"], sound, temperature=0.0, prompt="", language=None)
    assert neutral == transcribed(models["parakeet"], sound)


def test_languages_are_known_by_code_and_by_name(models: dict[str, Listener]) -> None:
    model = models["qwen3_asr"]
    assert {model._language(name) for name in ("de", "DE", "german", "German")} == {"German"}


@pytest.mark.parametrize("name", MAKERS)
def test_the_folder_is_recognised(models: dict[str, Listener], folder: Path, name: str) -> None:
    assert resolve_model(str(folder / name)).kind == "transcription"


async def test_the_service_runs_it(models: dict[str, Listener], folder: Path, sound: str) -> None:
    service, events = TranscriptionService(str(folder / "qwen3_asr"), TranscribeOptions()), list[Event]()
    ended = asyncio.Event()

    def emit(step: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        events.extend(event for _, told in step for event in told)
        if events and isinstance(events[-1], Finished | Failed):
            ended.set()

    await service.start(emit, lambda fraction: None)
    service.submit(Request("r", "m", Transcribe(sound)))
    await asyncio.wait_for(ended.wait(), 60)
    await service.close(0)
    _, segment = (decode_transcription(event) for event in events if isinstance(event, Output))
    assert [segment] == transcribed(models["qwen3_asr"], sound)[1]


def _broken(folder: Path, **config: Any) -> str:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    with pytest.raises(OrchardError) as caught:
        listeners.load_listener(folder, lambda fraction: None)
    assert caught.value.kind == "model_failed"
    return caught.value.message


def test_what_can_not_be_served_fails_to_load_with_the_reason(tmp_path: Path) -> None:
    (make_moonshine(tmp_path / "bare") / "tokenizer.json").unlink()
    assert "its tokenizer is missing or broken" in _broken(tmp_path / "bare")
    assert "n_layers is 1,000,000" in _broken(make_moonshine(tmp_path / "huge"), n_layers=1_000_000)
    assert "its weights do not fit its config.json" in _broken(make_moonshine(tmp_path / "wide"), hidden_size=64)
    assert "voxtral are not served for transcription" in _broken(
        make_moonshine(tmp_path / "other"), model_type="voxtral"
    )
    code = make_qwen3_asr(tmp_path / "code")
    named = {"auto_map": {"AutoTokenizer": ["code.Trap", None]}, "tokenizer_class": "Trap"}
    (code / "tokenizer_config.json").write_text(json.dumps(named))
    (code / "code.py").write_text("raise SystemExit('it ran')")
    assert "which is never done" in _broken(code)


def test_one_that_only_aligns_is_not_served(folder: Path) -> None:
    model = Told()
    model.generate = lambda audio, text: None  # type: ignore[method-assign, assignment, misc]
    with pytest.raises(ValueError, match="given text"):
        Listener("qwen3_asr", model)


def spoken(model: Listener, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the model say this of each recording, a token at a time."""
    found = model._model
    tokenizer = found.tokenizer if hasattr(found, "tokenizer") else found._tokenizer
    tokens = tokenizer.encode(text, add_special_tokens=False)
    monkeypatch.setattr(found, "stream_generate", lambda heard, **options: ((one, None) for one in tokens))


def test_a_model_that_tells_speakers_apart(
    models: dict[str, Listener], sound: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["moss_transcribe_diarize"]
    spoken(model, monkeypatch, "[0.5][S02] Who is there?[1.25]\n[1.25][S01]Ann.[2][2.5][S02]Oh.[99]")
    ways: list[dict[str, Any]] = [{"speakers": True}, {"timed": True}, {}]
    for fields in ways:
        _, segments = transcribed(model, sound, **fields)
        assert [(one.start, one.end, one.text, one.speaker) for one in segments] == [
            (0.5, 1.25, " Who is there?", "A"),
            (1.25, 2.0, " Ann.", "B"),
            (2.5, 3.0, " Oh.", "A"),
        ]
    spoken(model, monkeypatch, "no times")
    ((segment,)) = transcribed(model, sound, speakers=True)[1]
    assert (segment.start, segment.end, segment.text, segment.speaker) == (0, 3, " no times", "A")
    (folder / "long.wav").write_bytes(wav(noise(601, 8000), 8000))
    with pytest.raises(OrchardError, match="tell speakers apart in recordings of at most 10 minutes"):
        transcribed(model, str(folder / "long.wav"), speakers=True)
    speaker = KnownSpeaker("Ann", MediaPart("audio", "", "x"))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"speakers": True, "known_speakers": (speaker,)}, "known_speaker_names"),
        ({"words": True, "timed": True}, "timestamp_granularities"),
    ]
    for fields, param in refused:
        with pytest.raises(OrchardError) as raised:
            transcribed(model, sound, **fields)
        assert raised.value.param == param


SENTENCES = """[
  {"Start": 0.5, "End": 1.25, "Speaker": 2, "Content": "Who is \\"there\\"?"},
  {"Start time": 1.25, "End time": "2.0", "Speaker ID": "1", "Content": "Ann."},
  {"Start": 2.5, "End": 99, "Content": "[Silence]"},
  {"Start": 2.75, "End": 1, "Speaker": null, "Content": "\\u00e4"}]"""


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            SENTENCES,
            [
                (0.5, 1.25, ' Who is "there"?', "A"),
                (1.25, 2.0, " Ann.", "B"),
                (2.5, 3.0, " [Silence]", "B"),
                (2.75, 2.75, " ä", "B"),
            ],
        ),
        (f"```json\n{SENTENCES}\n```", None),
        (f"Here it is: {SENTENCES} Goodbye.", None),
        (SENTENCES[:120], [(0.5, 1.25, ' Who is "there"?', "A")]),
        ('[{"Start": [], "End": "NaN", "Speaker": "nobody", "Content": 5}, 7]', [(0.0, 3.0, " 5", "A")]),
        ('[{"Start": 1}]', [(0.0, 3.0, ' [{"Start": 1}]', "A")]),
        ("no JSON", [(0.0, 3.0, " no JSON", "A")]),
    ],
)
def test_what_vibevoice_writes(
    models: dict[str, Listener], sound: str, monkeypatch: pytest.MonkeyPatch, written: str, told: Any
) -> None:
    model = models["vibevoice_asr"]
    spoken(model, monkeypatch, SENTENCES)
    _, expected = transcribed(model, sound, speakers=True)
    spoken(model, monkeypatch, written)
    ways: list[dict[str, Any]] = [{"speakers": True}, {"timed": True}, {}]
    for fields in ways:
        _, segments = transcribed(model, sound, **fields)
        found = [(one.start, one.end, one.text, one.speaker) for one in segments]
        assert found == (told or [(one.start, one.end, one.text, one.speaker) for one in expected])


def test_vibevoice_hears_as_the_library_does_with_a_prompt_and_a_temperature(
    models: dict[str, Listener], sound: str
) -> None:
    model = models["vibevoice_asr"]
    heard = np.concatenate(list(decode_recording(sound, "file", 24_000))) * 32768
    _, segments = transcribed(model, sound, prompt="A fox", speakers=True)
    assert joined(segments) == library(model, heard, context="A fox")
    assert joined(segments) != joined(transcribed(model, sound)[1])
    mx.random.seed(1)
    _, segments = transcribed(model, sound, temperature=1.0)
    mx.random.seed(1)
    assert joined(segments) == library(model, heard, temperature=1.0)


@pytest.mark.parametrize(
    "case",
    [
        ("vibevoice_asr", SENTENCES, ['Who is \\"there\\"?', "Ann.", "[Silence]", None]),
        ("vibevoice_asr", "no JSON", ["no JSON"]),
        ("moss_transcribe_diarize", "[0.5][S02] Who?[1.25][1.25][S01]Who?[2]", ["Who?", "Who?"]),
        ("moss_transcribe_diarize", "no times", ["no times"]),
    ],
)
def test_log_probabilities_are_those_of_the_tokens_of_the_text(
    models: dict[str, Listener], sound: str, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, list[str | None]]
) -> None:
    """A text that is spelled in another way than usual, as \\u00e4 in JSON, has none."""
    name, written, spelled = case
    model = models[name]
    tokenizer = model._model.tokenizer if name == "vibevoice_asr" else model._model._tokenizer
    tokens = tokenizer.encode(written, add_special_tokens=False)

    def write(heard: Any, **options: Any) -> Any:
        for at, token in enumerate(tokens):
            yield token, mx.where(mx.arange(max(tokens) + 1) == token, -float(at), -1e6)

    monkeypatch.setattr(model._model, "stream_generate", write)
    plain, segments = (transcribed(model, sound, logprobs=asked)[1] for asked in (False, True))
    assert [(one.text, one.logprobs) for one in plain] == [(one.text, ()) for one in segments]
    places = [-token.logprob for one in segments for token in one.logprobs if token.logprob is not None]
    assert places == sorted(set(places))
    assert [tokenizer.decode([tokens[int(at)]]) for at in places] == [
        token.text for one in segments for token in one.logprobs
    ]
    for one, text in zip(segments, spelled, strict=True):
        told = "".join(token.text for token in one.logprobs)
        if text is None:
            assert not told
        else:
            first, last = one.logprobs[0].text, one.logprobs[-1].text
            assert text in told
            assert text not in told[len(first) :]
            assert text not in told[: -len(last)]


def test_vibevoices_models_of_speech_and_of_streams_are_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # as in a worker
    folder = make_vibevoice_asr(tmp_path / "stream")
    settings = {"chunk_frames": 22, "lookahead_frames": 4}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (token,) = [one for one in tokenizer["added_tokens"] if one["content"] == "<|box_start|>"]
    tokenizer["added_tokens"].append(token | {"id": token["id"] + 1, "content": "<|text_chunk_end|>"})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "VibeVoice-ASR-Streaming tells no times and is not served" in _broken(folder)
    assert resolve_model(str(folder)).kind == "transcription"
    (folder / "tokenizer.json").unlink()
    assert "'hf download Qwen/Qwen2.5-7B config.json tokenizer.json tokenizer_config.json' fetches" in _broken(folder)
    config = json.loads((folder / "config.json").read_text())
    del config["architectures"]
    (folder / "config.json").write_text(json.dumps(config))
    assert resolve_model(str(folder)).kind == "speech"


def test_each_token_of_a_long_window_is_a_sign_of_life(models: dict[str, Listener], sound: str) -> None:
    beats: list[int] = []
    task = Transcribe(sound, speakers=True)
    list(models["moss_transcribe_diarize"].transcribe(task, lambda: beats.append(1)))
    assert len(beats) > 10
