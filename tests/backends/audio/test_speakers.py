"""Speech models: tiny random ones of each type, compared with the library."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_audio.tts.utils
import numpy as np
import pytest
from transformers.models.auto import tokenization_auto

from orchard.backends.audio.speakers import Speaker, load_speaker
from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE
from orchard.core.voices import OPENAI_VOICES
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


def test_a_model_that_only_copies_voices_is_refused(tmp_path: Path) -> None:
    make_qwen3_tts(tmp_path, "base")
    with pytest.raises(OrchardError, match="only copies voices of recordings"):
        _load(tmp_path)


def _edit(folder: Path, **fields: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "another type": (lambda folder: _edit(folder, model_type="bark"), "types qwen3_tts, soprano, and it is a bark"),
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
