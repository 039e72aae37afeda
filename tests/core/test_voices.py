"""Voices: those of a config.json, and the choice of the one that speaks."""

from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.voices import DESCRIPTIONS, OPENAI_VOICES, Voice, choose_description, choose_voice, voices

OWN = ("Ann", "bob", "Echo")


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({}, ("default",)),
        ({"model_type": "llama"}, ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")),
        ({"model_type": "qwen3_tts"}, ()),
        ({"model_type": ["llama"]}, ("default",)),
        ({"talker_config": {"spk_id": {"ryan": 1, "vivian": [2]}}}, ("ryan", "vivian")),
        ({"talker_config": {"spk_id": {}}}, ("default",)),
        ({"talker_config": {"spk_id": ["ryan"]}}, ("default",)),
        ({"talker_config": "ryan"}, ("default",)),
        ({"talker_config": {"spk_id": {"\ud800": 1, "anna\r\n": 2, "": 4, " ": 5, "änne": 3}}}, ("änne",)),
        ({"tts_model_type": "voice_design", "talker_config": {"spk_id": {}}}, OPENAI_VOICES),
    ],
)
def test_voices(config: dict[str, Any], found: tuple[str, ...]) -> None:
    assert voices(config, ("config.json", "prompts/ann.wav")) == found


@pytest.mark.parametrize(
    ("kind", "files", "found"),
    [
        ("chatterbox", ("conds.safetensors",), ("default",)),
        ("chatterbox", ("s3/conds.safetensors",), ()),
        (
            "sesame",
            ("prompts/bo.wav", "prompts/ann.txt", "prompts/ann.wav", "x.wav", "prompts/\ud800.wav"),
            ("ann", "bo"),
        ),
        ("csm", (), ()),
    ],
)
def test_the_files_of_some_models_are_their_voices(kind: str, files: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert voices({"model_type": kind}, files) == found


@pytest.mark.parametrize(
    ("name", "own", "setting", "found"),
    [
        (None, OWN, {}, "Ann"),
        ("ANN", OWN, {"ann": "bob"}, "Ann"),
        ("echo", OWN, {}, "Echo"),
        ("alloy", OWN, {}, "Ann"),
        ("Coral", OWN, {}, "Ann"),
        ("ash", OWN, {}, "bob"),
        ("ash", OWN, {"Ash": "ANN"}, "Ann"),
        ("assistant", OWN, {"Assistant": "bob"}, "bob"),
        ("cedar", ("default",), {}, "default"),
    ],
)
def test_a_name_finds_a_voice(name: str | None, own: tuple[str, ...], setting: dict[str, str], found: str) -> None:
    assert choose_voice(name, own, setting) == Voice(found)


def test_each_name_of_openais_has_one_voice_and_all_voices_are_used() -> None:
    chosen = [choose_voice(name, ("a", "b", "c"), {}).name for name in OPENAI_VOICES]
    assert chosen == [*"abcabcabcabca"]


def test_a_voice_that_the_model_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(OrchardError, match=r"one of this model's: 'Ann', 'bob', 'Echo', or one of OpenAI's names$"):
        choose_voice("carl", OWN, {})
    with pytest.raises(OrchardError, match=r"'Echo', 'assistant', or one of OpenAI's names$"):
        choose_voice("carl", OWN, {"assistant": "bob"})
    with pytest.raises(OrchardError, match="the setting `voices` says 'carl' for 'alloy'") as refused:
        choose_voice("alloy", OWN, {"alloy": "carl"})
    assert (refused.value.kind, refused.value.param) == ("invalid_request", "voice")


def test_descriptions() -> None:
    assert len(set(DESCRIPTIONS.values())) == len(OPENAI_VOICES)
    assert choose_description(None, {}) == Voice("alloy", DESCRIPTIONS["alloy"])
    assert choose_description("ONYX", {}) == Voice("onyx", DESCRIPTIONS["onyx"])
    setting = {"Alloy": "A robot.", "Giant": "A giant's deep voice."}
    assert choose_description(None, setting) == Voice("Alloy", "A robot.")
    assert choose_description("giant", setting) == Voice("Giant", "A giant's deep voice.")
    with pytest.raises(OrchardError, match=r"'alloy', 'ash'.*'Giant'"):
        choose_description("carl", {"Giant": "Deep."})
