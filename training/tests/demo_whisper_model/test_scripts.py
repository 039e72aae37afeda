"""The demo Whisper model's clips, tokenizer, folder and figures."""

import io
import json
import os
import wave
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_audio.stt.utils
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions
from orchard.demo import WHISPER_MODEL_PATH

from demo_whisper_model import clips, export, samples, tokenizer
from demo_whisper_model.card import CARD, card, table
from demo_whisper_model.clips import RATE, VARIANTS, Voice, packed, spoken, trimmed, unpacked
from demo_whisper_model.config import CONFIG
from demo_whisper_model.evaluate import Heard, figures, matched, recordings
from demo_whisper_model.utterances import Spoken, Utterance
from demo_whisper_model.words import WORDS


def test_words_and_voices_are_told_apart() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert not {one.lower() for one in VARIANTS["train"]} & {one.lower() for one in VARIANTS["held"]}
    assert len(set(VARIANTS["train"])) == len(VARIANTS["train"])


def test_packed_samples_come_back_nearly_the_same() -> None:
    sound = np.linspace(-1, 1, 10_001, dtype=np.float32)
    again = unpacked(packed(sound))
    assert np.abs(again - sound).max() < 0.025
    assert np.abs(again - sound)[np.abs(sound) < 0.01].max() < 0.001


def test_silence_around_a_clip_is_cut_off() -> None:
    sound = np.zeros(RATE, np.float32)
    sound[4000:8000] = 0.25
    found = trimmed(sound)
    assert len(found) == 4000 + 2 * int(0.01 * RATE) - 1
    assert found.max() == 1
    with pytest.raises(ValueError, match="silent"):
        trimmed(np.zeros(100, np.float32))


def test_a_word_is_spoken_as_the_voice_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(22_050)
        file.writeframes(np.full(22_050, 9000, "<i2").tobytes())
    (tmp_path / "said.wav").write_bytes(made.getvalue())
    program = tmp_path / "espeak-ng"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked; cat {tmp_path}/said.wav\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    sound = spoken("seven", Voice("en-us+f2", 150, 60))
    assert len(sound) == pytest.approx(RATE, abs=400)
    assert (tmp_path / "asked").read_text().split() == ["-v", "en-us+f2", "-s", "150", "-p", "60", "--stdout", "seven"]


def _weights() -> dict[str, Any]:
    """Weights as training writes them."""
    network = Model(ModelDimensions.from_dict(dict(CONFIG)))
    found = dict(tree_flatten(network.parameters()))
    return {name: value.transpose(0, 2, 1) if value.ndim == 3 else value for name, value in found.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("whisper")
    mx.random.seed(0)
    export.write(_weights(), made)
    return made


def test_the_folder_is_small_enough_and_loads_with_its_tokenizer(folder: Path) -> None:
    assert export.stored(folder) <= export.MOST_BYTES
    model: Any = mlx_audio.stt.utils.load_model(folder)
    assert not model.is_multilingual
    assert model.alignment_heads.tolist() == [[1, 0], [1, 1]]
    known = model.get_tokenizer()
    assert known.encode(" one two") == [tokenizer.word(WORDS.index("one")), tokenizer.word(WORDS.index("two"))]
    assert all(known.encode(f" {one}") == [tokenizer.word(at)] for at, one in enumerate(WORDS))
    assert known.decode(known.encode(" other words, too: é")) == " other words, too: é"
    assert (known.eot, known.sot, known.no_speech) == (tokenizer.END, tokenizer.START, tokenizer.NO_SPEECH)
    assert (known.no_timestamps, known.timestamp_begin) == (tokenizer.NO_TIMES, tokenizer.FIRST_TIME)
    assert known.sot_prev == tokenizer.BEFORE
    assert tokenizer.IDS["<|30.00|>"] == tokenizer.VOCABULARY - 1 == tokenizer.time(31)
    languages = [f"<|{code}|>" for code in list(LANGUAGES)[:99]]
    assert [tokenizer.END + 2 + at for at in range(99)] == known.hf_tokenizer.convert_tokens_to_ids(languages)
    assert None not in (known.transcribe, known.translate, known.sot_lm)
    sound = model.encoder(mx.zeros((1, 3000, 80), mx.float16))
    assert model.decoder(mx.array([[tokenizer.START]]), sound)[0].shape == (1, 1, tokenizer.VOCABULARY)


def test_a_folder_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"0" * (export.MOST_BYTES + 1))
    with pytest.raises(ValueError, match="at most 7,000,000"):
        export.stored(tmp_path)


def test_the_clips_file_has_the_filters_of_mlx_audio() -> None:
    assert clips.mel_filters().shape == (80, 201)


def test_figures_count_wrong_words_and_near_starts() -> None:
    said = [Spoken(WORDS.index(word), at, at + 0.4) for at, word in enumerate(("one", "two", "three", "four"))]
    heard = [Heard("one", 0.1), Heard("three", 2.2), Heard("five", 3.0), Heard("four", 2.9)]
    assert [(WORDS[one.word], other.start) for one, other in matched(said, heard)] == [
        ("one", 0.1),
        ("three", 2.2),
        ("four", 2.9),
    ]
    found = figures([(Utterance(np.zeros(0, np.float32), [said[:2], said[2:]]), heard)])
    assert found == {"recordings": 1, "words": 4, "errors": 0.5, "near": pytest.approx(2 / 3)}
    assert "| 5 s | 1 | 4 | 50.0% | 66.7% |" in table({"5": found})
    assert table({"5": found}) in card({"5": found})
    assert "not been measured" in card({})


def test_the_bundled_folder_has_this_configuration() -> None:
    assert json.loads((WHISPER_MODEL_PATH / "config.json").read_text()) == CONFIG
    assert export.stored(WHISPER_MODEL_PATH) <= export.MOST_BYTES


def test_the_folder_says_what_it_is(folder: Path) -> None:
    assert json.loads((folder / "config.json").read_text()) == CONFIG
    assert "umbrella" in (folder / CARD).read_text()


def test_samples_are_words_of_voices_that_training_never_hears(tmp_path: Path) -> None:
    count = len(VARIANTS["held"]) * len(WORDS)
    sounds = [np.full(5, (at % 100) / 100, np.float32) for at in range(count)]
    np.savez(
        tmp_path / clips.FILE,
        held_words=np.tile(np.arange(len(WORDS), dtype=np.int32), len(VARIANTS["held"])),
        held_voices=np.repeat(np.arange(len(VARIANTS["held"]), dtype=np.int32), len(WORDS)),
        held_ends=np.cumsum([len(sound) for sound in sounds]),
        held_data=packed(np.concatenate(sounds)),
    )
    held = clips.Clips(tmp_path, "held")
    samples.write(held, tmp_path / "some")
    kept, stored = clips.Clips(tmp_path / "some", "held"), clips.Clips(samples.CLIPS, "held")
    for one in (kept, stored):
        assert sorted(one.words.tolist()) == list(range(48))
        assert len(np.unique(one.voices)) == 4
    np.testing.assert_array_equal(stored.words, kept.words)
    for at, (word, voice) in enumerate(zip(kept.words, kept.voices, strict=True)):
        np.testing.assert_array_equal(kept.sound(at), held.sound(int(voice) * len(WORDS) + int(word)))
    assert len(samples.recording(held)) > len(samples.SAID.split()) * 0.15 * RATE
    assert (samples.CLIPS / samples.NAMES).read_text().split() == list(WORDS)
    assert (samples.CLIPS / clips.FILE).stat().st_size <= 300_000


def test_short_recordings_are_as_many_as_a_percentage_needs() -> None:
    stored = clips.Clips(samples.CLIPS, "held")
    short, long = recordings(stored, 1.5, 2), recordings(stored, 90, 2)
    assert sum(len(segment) for one in short for segment in one.segments) >= 100
    assert len(short) > 20
    assert len(long) == 2
