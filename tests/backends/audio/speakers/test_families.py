"""Chatterbox, Dia, Orpheus and Sesame: tiny random ones, compared with the library."""

import importlib
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_audio.tts.utils
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_audio.tts.models.dia.dia import Model
from numpy.typing import NDArray
from scipy.signal import resample_poly

from orchard.backends.audio.speakers import models
from orchard.backends.audio.speakers.loading import load_speaker
from orchard.backends.audio.speakers.models import split_dialogue
from orchard.backends.audio.speakers.speaker import SampleVoice, Speaker
from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE
from tests.support.sounds import noise
from tests.support.speech_families import make_chatterbox, make_dia, make_orpheus, make_sesame, use_hub_cache

PASSAGE = "Hi."
SAMPLE = SampleVoice(noise(2, RATE).astype(np.float32) / np.float32(32768), "Who is there?")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_hub_cache(monkeypatch, tmp_path / "hub")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def _load(folder: Path) -> Speaker:
    return load_speaker(folder, lambda fraction: None)


def _say(speaker: Speaker, voice: str | SampleVoice, passage: str = PASSAGE) -> tuple[NDArray[np.float32], list[int]]:
    """Return what is said, and the tokens of each piece."""
    mx.random.seed(7)
    pieces = list(speaker.say(passage, voice, None))
    return np.concatenate([piece.sound for piece in pieces]), [piece.tokens for piece in pieces]


def _library(network: Any, passage: str = PASSAGE, **options: Any) -> NDArray[np.float32]:
    """Return what the library says."""
    mx.random.seed(7)
    return np.concatenate([np.array(one.audio, np.float32) for one in network.generate(passage, **options)])


def _assert_heard(found: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert found.dtype == np.float32
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_chatterbox(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_chatterbox(folder, cache, monkeypatch)
    speaker = _load(folder)
    assert (speaker.voices, speaker.instructions, speaker.copies) == (("default",), "refused", True)
    library = mlx_audio.tts.utils.load_model(folder)
    said, tokens = _say(speaker, "default")
    _assert_heard(said, _library(library, max_tokens=15))
    assert tokens == [len(said) // 960]
    assert 10 < tokens[0] <= 15
    copied, _ = _say(speaker, SAMPLE)
    _assert_heard(copied, _library(library, max_tokens=15, ref_audio=mx.array(SAMPLE.sound)))
    assert speaker.count_tokens("One two.") == library._tokenize_text("One two.", "en").shape[1] > 1
    _assert_heard(_say(speaker, "default")[0], said)  # the copy has changed nothing


def test_chatterbox_without_a_voice_only_copies_voices(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_chatterbox(folder, cache, monkeypatch)
    (folder / "conds.safetensors").unlink()
    assert _load(folder).voices == ()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(OrchardError, match=r"its tokenizer\.json is missing"):
        _load(folder)


def test_sesame(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sesame(folder, cache, monkeypatch, "bo", "ann")
    speaker = _load(folder)
    assert (speaker.voices, speaker.instructions, speaker.copies) == (("ann", "bo"), "refused", True)
    library = mlx_audio.tts.utils.load_model(folder)
    limit: dict[str, Any] = {"max_audio_length_ms": 600}
    said, tokens = _say(speaker, "bo")
    assert tokens == [6, 1]  # frames of 80 ms, in pieces
    heard = [library.prepare_prompt("I am bo.", 0, str(folder / "prompts" / "bo.wav"), RATE)]
    _assert_heard(said, _library(library, context=heard, stream=True, **limit))
    copied, _ = _say(speaker, SAMPLE)
    reference: dict[str, Any] = {"ref_audio": mx.array(SAMPLE.sound), "ref_text": SAMPLE.transcript}
    _assert_heard(copied, _library(library, **reference, **limit, stream=True))
    assert not np.array_equal(said, copied)
    assert not np.array_equal(said, _say(speaker, "ann")[0])
    assert speaker.count_tokens("Hi.") == len(library._text_tokenizer.encode("Hi."))


def test_the_pieces_of_sesame_are_what_the_library_says_at_once(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_sesame(folder, cache, monkeypatch)
    speaker = _load(folder)
    assert speaker.voices == ()
    reference: dict[str, Any] = {"ref_audio": mx.array(SAMPLE.sound), "ref_text": SAMPLE.transcript}
    whole = _library(mlx_audio.tts.utils.load_model(folder), **reference, max_audio_length_ms=600)
    _say(speaker, SAMPLE)
    said, _ = _say(speaker, SAMPLE)  # after another passage
    np.testing.assert_allclose(said, whole, atol=1e-4 * np.abs(whole).max())


def test_sesame_says_what_is_wrong(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sesame(folder, cache, monkeypatch, "ann")
    speaker = _load(folder)
    with pytest.raises(OrchardError, match="recording and transcript are too long") as refused:
        _say(speaker, SAMPLE._replace(transcript="word " * 3000))
    assert (refused.value.kind, refused.value.param) == ("invalid_request", "voice")
    with pytest.raises(OrchardError, match="only if the `transcript` of its sample was given"):
        _say(speaker, SAMPLE._replace(transcript=None))
    (folder / "prompts" / "ann.txt").unlink()
    with pytest.raises(OrchardError, match=r"prompts/ann\.wav needs its text in prompts/ann\.txt"):
        _load(folder)


def test_dia(folder: Path, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_dia(folder, cache)
    speaker = _load(folder)
    assert (speaker.voices, speaker.instructions, speaker.copies) == (("default",), "refused", True)
    library = mlx_audio.tts.utils.load_model(folder)
    capfd.readouterr()
    said, tokens = _say(speaker, "default")
    assert tokens == [51]
    assert capfd.readouterr().out == ""
    _assert_heard(said, resample_poly(_library(library, "[S1] Hi.", max_tokens=51), 80, 147))
    copied, _ = _say(speaker, SAMPLE, "[S2] Hi.")
    reference = {"ref_audio": mx.array(resample_poly(SAMPLE.sound, 147, 80)), "ref_text": "[S1] Who is there?"}
    expected = _library(library, "[S2] Hi.", max_tokens=51, **reference)
    _assert_heard(copied, resample_poly(expected, 80, 147))
    long = "word " * 30
    for voice, passage, param in ((SAMPLE._replace(transcript=long), PASSAGE, "voice"), ("default", long, "input")):
        with pytest.raises(OrchardError, match="reads at most 128 bytes of text at once") as refused:
            _say(speaker, voice, passage)
        assert refused.value.param == param


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[S1] A.", ["[S1] A."]),
        ("[S1] A. [S2] B.", ["[S1] A. [S2] B."]),
        ("[S1] A. [S2] B. [S1] C.", ["[S1] A. [S2] B.", "[S1] C."]),
        ("[S2] A. [S1] B. [S2] C.", ["[S2] A.", "[S1] B. [S2] C."]),
        ("[S2] A. [S1] B.", ["[S2] A.", "[S1] B."]),
        ("[S1] A. [S1] B. [S2] C.", ["[S1] A. [S1] B. [S2] C."]),
    ],
)
def test_a_dialogue_is_split_where_the_library_would_drop_a_turn(text: str, parts: list[str]) -> None:
    assert split_dialogue(text) == parts


@given(st.lists(st.tuples(st.sampled_from(["[S1]", "[S2]"]), st.sampled_from("abc")), min_size=1, max_size=9))
def test_every_turn_of_a_dialogue_is_spoken_once_and_in_order(turns: list[tuple[str, str]]) -> None:
    text = " ".join(f"{who} {word}" for who, word in turns)
    spoken = [
        segment
        for part in split_dialogue(text)
        for segment in (Model._split_turns(None, part) if "[S1]" in part and "[S2]" in part else [part])
    ]
    assert " ".join(spoken) == text


def test_orpheus(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pieces are what the library says at once."""
    frames = 6
    make_orpheus(folder, cache, monkeypatch, frames)
    monkeypatch.setattr(models, "PIECE_SECONDS", 0.17)  # two frames
    speaker = _load(folder)
    assert (tuple(speaker.voices[:2]), speaker.instructions, speaker.copies) == (("tara", "leah"), "refused", False)
    said, tokens = _say(speaker, "leo", "Hello there.")
    assert tokens == [1 + 7 * 5, 7]
    library = _library_of(folder)
    _assert_heard(said, _library(library, "Hello there.", voice="leo", max_tokens=7 * 70))
    assert len(said) // 2048 == frames
    assert not np.array_equal(said, _say(speaker, "tara", "Hello there.")[0])
    assert speaker.count_tokens("Hello there.") == 3


def _library_of(folder: Path) -> Any:
    """Return the library's model with the tokenizer of its folder: it would look for it in another repository."""
    library = importlib.import_module("mlx_audio.tts.models.llama.llama")
    config = library.ModelConfig.from_dict(mlx_audio.tts.utils.load_config(folder) | {"tokenizer_name": str(folder)})
    network = library.Model(config)
    network.load_weights(str(folder / "model.safetensors"))
    return network


def test_orpheus_stops_and_writes_only_codes_that_can_be_where_they_are(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_orpheus(folder, cache, monkeypatch, frames=1000)
    speaker: Any = _load(folder)
    _, tokens = _say(speaker, "leo")
    assert sum(tokens) == 7 * int(0.6 * RATE / 2048)
    wild = [200_000, -5, 4096 * 3, 0, 0, 0, 0]
    placed = [4095, 4096, 4096 * 3 - 1, 4096 * 3, 4096 * 4, 4096 * 5, 4096 * 6]
    np.testing.assert_array_equal(speaker._decode(wild, 0, None), speaker._decode(placed, 0, None))


@pytest.fixture
def without_orpheus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library has not read the codec of Orpheus yet."""
    for name in ("mlx_audio.tts.models.llama", "mlx_audio.tts.models.llama.llama"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("without_orpheus")
def test_missing_files_of_other_repositories_are_named(
    folder: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_orpheus(folder, cache, monkeypatch)
    for name in ("mlx_audio.tts.models.llama", "mlx_audio.tts.models.llama.llama"):
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "hub").rename(tmp_path / "gone")
    with pytest.raises(OrchardError, match=r"'hf download mlx-community/snac_24khz' fetches them"):
        _load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(OrchardError, match=r"snac_24khz' and 'hf download mlx-community/orpheus-3b-0\.1-ft-bf16 conf"):
        _load(folder)
