from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.audio import Voice, VoiceConsent

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.dialects.openai.voices import (
    VoiceBody,
    consent_fields,
    parse_consent,
    parse_consent_update,
    parse_voice,
    voice_fields,
)

SAMPLE = {"audio_sample": [MediaPart("audio", "", "audio_sample", path="/a")]}
RECORDING = {"recording": [MediaPart("audio", "", "recording", path="/b")]}


def test_forms_are_read_as_clients_write_them() -> None:
    body, sample = parse_voice(
        {"name": ["Ann"], "consent": ["cons_1"], "type": ["audio_sample"], "transcript": ["Hi"]},
        SAMPLE,
        needs_consent=True,
    )
    assert (body.name, body.consent, body.transcript, sample.path) == ("Ann", "cons_1", "Hi", "/a")
    assert parse_voice({"name": ["Ann"]}, SAMPLE, needs_consent=False)[0] == VoiceBody(name="Ann")
    consent, recording = parse_consent({"name": ["Ann"], "language": ["en-US"]}, RECORDING)
    assert (consent.name, consent.language, recording.path) == ("Ann", "en-US", "/b")
    assert parse_consent_update(b'{"name": "Bo"}') == "Bo"


@pytest.mark.parametrize(
    ("fields", "files", "param"),
    [
        ({}, SAMPLE, "name"),
        ({"name": [" "]}, SAMPLE, "name"),
        ({"name": ["Ann"]}, SAMPLE, "consent"),
        ({"name": ["Ann"], "consent": ["cons_1"]}, {}, "audio_sample"),
        ({"name": ["Ann"], "consent": ["cons_1"], "model": ["auto"]}, SAMPLE, "model"),
        ({"name": ["Ann"], "prompt": ["A giant"], "type": ["prompt"]}, {}, "type"),
    ],
)
def test_voices_that_cant_be_made(fields: dict[str, list[str]], files: Any, param: str) -> None:
    with pytest.raises(OrchardError) as raised:
        parse_voice(fields, files, needs_consent=True)
    assert (raised.value.kind, raised.value.param) == ("invalid_request", param)


@pytest.mark.parametrize("language", ["", "e", "english please", "en_US", "x" * 36, "en-"])
def test_languages_that_are_no_tags(language: str) -> None:
    with pytest.raises(OrchardError) as raised:
        parse_consent({"name": ["Ann"], "language": [language]}, RECORDING)
    assert raised.value.param == "language"


def test_objects_are_as_the_sdk_types_them() -> None:
    voice = Voice.model_validate(voice_fields("voice_1", "Ann", 7), strict=True)
    consent = VoiceConsent.model_validate(consent_fields("cons_1", "Ann", "en", 7), strict=True)
    assert (voice.id, consent.id, consent.language) == ("voice_1", "cons_1", "en")


NAMES = [*VoiceBody.__struct_fields__, "language", "type[x]", "name[]"]


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.text(max_size=20), max_size=3)), st.booleans())
def test_any_form_is_read_or_refused_as_a_bad_request(fields: dict[str, list[str]], needed: bool) -> None:
    kinds = set()
    for read in (lambda: parse_voice(fields, SAMPLE, needs_consent=needed), lambda: parse_consent(fields, RECORDING)):
        try:
            read()
        except OrchardError as error:
            kinds.add(error.kind)
    assert kinds <= {"invalid_request"}
