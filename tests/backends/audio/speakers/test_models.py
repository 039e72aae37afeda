"""Speech models: tiny random ones of each type, compared with the library."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx_audio.tts.utils
import numpy as np
import pytest
from mlx_audio.tts.models.qwen3_tts import qwen3_tts
from scipy.signal import resample_poly
from transformers.models.auto import tokenization_auto

from orchard.backends.audio.speakers import models
from orchard.backends.audio.speakers.loading import load_speaker
from orchard.backends.audio.speakers.speaker import SampleVoice, Speaker
from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE
from orchard.core.voices import OPENAI_VOICES
from tests.support.sounds import noise
from tests.support.speech_models import make_qwen3_tts, make_soprano

PASSAGE = "Hello there."
FRAMES = 8  # of a short passage: a frame of the tiny model counts as a second
SAMPLES_OF_FRAME = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tts")
    make_qwen3_tts(made)
    return made


def _load(folder: Path) -> Speaker:
    return load_speaker(folder, lambda fraction: None)


def test_qwen3_tts_speaks_as_the_library_does_piece_by_piece(folder: Path) -> None:
    seen: list[float] = []
    speaker = load_speaker(folder, seen.append)
    assert seen == sorted(seen)
    assert 0.9 < seen[-1] <= 1
    assert (tuple(speaker.voices), speaker.instructions) == (("vivian", "ryan"), "optional")
    mx.random.seed(7)
    pieces = list(speaker.say(PASSAGE, "Ryan", "Whisper."))
    assert sum(piece.tokens for piece in pieces) == FRAMES
    assert len(pieces) > 1  # the first sound comes before the passage is spoken
    library = mlx_audio.tts.utils.load_model(folder)
    mx.random.seed(7)
    whole = list(library.generate(PASSAGE, voice="ryan", instruct="Whisper.", max_tokens=FRAMES))
    heard = np.concatenate([piece.sound for piece in pieces])
    assert heard.dtype == np.float32
    assert len(heard) == FRAMES * SAMPLES_OF_FRAME
    np.testing.assert_allclose(heard, np.array(whole[0].audio), atol=2e-3)
    assert speaker.count_tokens("Hello there.") == len(library.tokenizer.encode("Hello there."))


def test_voices_and_instructions_are_heard(folder: Path) -> None:
    speaker = _load(folder)

    def heard(voice: str, instructions: str | None) -> Any:
        mx.random.seed(7)
        return np.concatenate([piece.sound for piece in speaker.say(5 * PASSAGE, voice, instructions)])

    plain = heard("ryan", None)
    np.testing.assert_array_equal(plain, heard("RYAN", None))
    assert not np.array_equal(plain, heard("vivian", None))
    assert not np.array_equal(plain, heard("ryan", "Whisper."))


def test_a_long_passage_may_have_more_sound(folder: Path) -> None:
    assert sum(piece.tokens for piece in _load(folder).say("a" * 40, "ryan", None)) == 20


@pytest.mark.parametrize(
    ("kind", "size", "voices", "instructions"),
    [("custom_voice", "0b6", ("vivian", "ryan"), "refused"), ("voice_design", "1b7", OPENAI_VOICES, "voice")],
)
def test_what_a_variant_of_qwen3_tts_takes(
    tmp_path: Path, kind: str, size: str, voices: tuple[str, ...], instructions: str
) -> None:
    make_qwen3_tts(tmp_path, kind, size)
    speaker = _load(tmp_path)
    assert (tuple(speaker.voices), speaker.instructions) == (voices, instructions)
    said = speaker.say(PASSAGE, voices[0], "A calm voice." if instructions == "voice" else None)
    assert len(next(said).sound) > 0


def test_soprano_has_one_voice_at_our_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "soprano-1.1"  # which the library takes the decoder's size from
    folder.mkdir()
    make_soprano(folder, monkeypatch)
    speaker = _load(folder)
    assert (speaker.voices, speaker.instructions) == (("default",), "refused")
    assert speaker.count_tokens("Hello") > 0
    (spoken,) = speaker.say(PASSAGE, "default", None)
    assert 1 < spoken.tokens <= 101
    assert len(spoken.sound) == (spoken.tokens - 1) * 256 * RATE // 3_200


SAMPLE = SampleVoice(noise(2, RATE).astype(np.float32) / np.float32(32768), None)


@pytest.mark.parametrize("transcript", [None, "Who is there?"])
def test_qwen3_tts_base_copies_a_voice_as_the_library_does(tmp_path: Path, transcript: str | None) -> None:
    make_qwen3_tts(tmp_path, "base")
    speaker = _load(tmp_path)
    assert (speaker.voices, speaker.instructions, speaker.copies) == ((), "refused", True)

    def heard(sample: SampleVoice) -> Any:
        mx.random.seed(7)
        return np.concatenate([piece.sound for piece in speaker.say(PASSAGE, sample, None)])

    voice = SAMPLE._replace(transcript=transcript)
    said = heard(voice)
    library = mlx_audio.tts.utils.load_model(tmp_path)
    mx.random.seed(7)
    options = {"ref_audio": mx.array(voice.sound), "ref_text": transcript, "max_tokens": FRAMES}
    (whole,) = library.generate(PASSAGE, **options)
    np.testing.assert_allclose(said, np.array(whole.audio), atol=2e-3)
    assert not np.array_equal(said, heard(voice._replace(sound=voice.sound[::-1].copy() * 3)))


def test_a_base_model_without_its_speaker_encoder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_qwen3_tts(tmp_path, "base")
    monkeypatch.setattr(qwen3_tts, "Qwen3TTSSpeakerEncoder", lambda config: None)
    with pytest.raises(OrchardError, match=r"speaker.encoder"):
        _load(tmp_path)


def _edit(folder: Path, **fields: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a type that mlx-audio doesn't know": (lambda folder: _edit(folder, model_type="nonsuch"), "nonsuch"),
    "a phonemiser": (
        lambda folder: _edit(folder, model_type="kokoro"),
        r"runs it: uvx --python 3\.12 --from 'mlx-audio\[server,tts\]' --with 'misaki\[en\]' --with pip mlx_audio",
    ),
    "files of another repository": (
        lambda folder: _edit(folder, model_type="dia"),
        "'hf download mlx-community/descript-audio-codec-44khz' fetches them",
    ),
    "no speech_tokenizer": (lambda folder: (folder / "speech_tokenizer").rename(folder / "gone"), "speech_tokenizer"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "its tokenizer"),
    "code of its own": (
        lambda folder: (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["mine.Mine", None]}})
        ),
        "its tokenizer",
    ),
    "a size beyond all bounds": (
        lambda folder: _edit(folder, talker_config={"num_hidden_layers": 10**6}),
        "num_hidden_layers is 1,000,000",
    ),
    "broken weights": (lambda folder: (folder / "model.safetensors").write_bytes(b"{}"), "can't be loaded"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_folder_that_is_not_served_is_refused_with_the_reason(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_qwen3_tts(tmp_path)
    (tmp_path / "mine.py").write_text("raise SystemExit('this code was run')")
    capsys.readouterr()
    change, reason = BROKEN[how]
    change(tmp_path)
    with pytest.raises(OrchardError, match=reason) as refused:
        _load(tmp_path)
    assert refused.value.kind == "model_failed"
    assert capsys.readouterr().out == ""  # the library's own words are not the server's


def test_code_of_the_folder_is_not_run_even_if_the_library_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_qwen3_tts(tmp_path)
    BROKEN["code of its own"][0](tmp_path)
    (tmp_path / "mine.py").write_text("raise SystemExit('this code was run')")
    monkeypatch.setattr(tokenization_auto, "resolve_trust_remote_code", lambda *args, **named: True)
    with pytest.raises(OrchardError, match="its tokenizer"):
        _load(tmp_path)


class Library:
    """A network as mlx-audio has many; it notes what it is asked for."""

    sample_rate = 12_000

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def parameters(self) -> dict[str, Any]:
        return {}

    def generate(
        self,
        text: str,
        instruct: str | None = None,
        ref_audio: str | mx.array | None = None,
        ref_text: str | None = None,
        verbose: bool = True,
    ) -> Iterator[Any]:
        self.asked.append(
            {"text": text, "instruct": instruct, "audio": ref_audio, "words": ref_text, "verbose": verbose}
        )
        for at in range(2):
            print("what the library says")
            yield SimpleNamespace(audio=mx.full((600,), 0.5 + at / 4), sample_rate=12_000, token_count=3)


def test_other_models_are_asked_by_the_parameters_that_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Library()
    monkeypatch.setattr(mlx_audio.tts.utils, "load_model", lambda folder, **options: network)
    (tmp_path / "config.json").write_text('{"model_type": "voxcpm"}')
    speaker = _load(tmp_path)
    assert (speaker.voices, speaker.instructions, speaker.copies) == (("default",), "optional", True)
    assert speaker.count_tokens("one two") == 2
    pieces = list(speaker.say("Hi.", "default", "Calm."))
    assert [(len(piece.sound), piece.tokens) for piece in pieces] == [(1200, 3), (1200, 3)]
    voice = SAMPLE._replace(transcript="Who is there?")
    list(speaker.say("Hi.", voice, None))
    plain, copied = network.asked
    assert plain == {"text": "Hi.", "instruct": "Calm.", "audio": None, "words": None, "verbose": False}
    assert (copied["words"], copied["instruct"], copied["audio"].shape) == ("Who is there?", None, (RATE,))
    with pytest.raises(OrchardError, match="only if the `transcript` of its sample was given"):
        next(speaker.say("Hi.", SAMPLE, None))
    assert capsys.readouterr().out == ""


def test_an_untested_model_speaks_as_the_library_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soprano, as if it had no class of its own."""
    folder = tmp_path / "soprano-1.1"
    folder.mkdir()
    make_soprano(folder, monkeypatch)
    monkeypatch.delitem(models.SPEAKERS, "soprano")
    speaker = _load(folder)
    assert (speaker.voices, speaker.instructions, speaker.copies) == (("default",), "refused", False)
    mx.random.seed(7)
    said = np.concatenate([piece.sound for piece in speaker.say(PASSAGE, "default", None)])
    library = mlx_audio.tts.utils.load_model(folder)
    mx.random.seed(7)
    whole = np.concatenate([np.array(one.audio) for one in library.generate(PASSAGE)])
    assert len(said) == len(whole) * RATE // 3_200
    np.testing.assert_allclose(said, resample_poly(whole, 15, 2), atol=2e-3)
