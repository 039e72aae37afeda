"""The voices of speech models, and the choice of one by its name or by one of OpenAI's names."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from orchard.core.errors import OrchardError

DEFAULT_VOICE = "default"
"""The voice of a speech model that has only one."""
DESCRIPTIONS = {
    "alloy": "A young adult voice of neutral pitch, clear, even and balanced.",
    "ash": "A young man's voice of middle pitch, warm, confident and direct.",
    "ballad": "A man's voice of middle pitch, soft and melodious, like that of a storyteller.",
    "coral": "A young woman's voice, bright, warm and friendly.",
    "echo": "A man's voice of middle pitch, calm, smooth and steady.",
    "fable": "A man's voice with a British accent, lively and expressive.",
    "nova": "A young woman's voice, energetic, clear and cheerful.",
    "onyx": "A man's voice, deep, resonant and authoritative.",
    "sage": "A woman's voice, gentle, calm and thoughtful.",
    "shimmer": "A woman's voice, light, soft and optimistic.",
    "verse": "A man's voice, versatile, expressive and lively.",
    "marin": "A woman's voice, natural, warm and professional.",
    "cedar": "A man's voice, low, natural, relaxed and friendly.",
}
"""OpenAI's voices (https://platform.openai.com/docs/guides/text-to-speech), described for models that need it."""
OPENAI_VOICES = tuple(DESCRIPTIONS)
_ORPHEUS_VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
"""Those of Orpheus 3B (https://github.com/canopyai/Orpheus-TTS), the best first; its files don't name them."""
_SESAME_TYPES = ("csm", "marvis", "sesame")
_PROMPT = re.compile(r"prompts/([^/]+)\.wav")


class Voice(NamedTuple):
    """A voice's name, and its description if the model makes voices from descriptions.

    `name` empty: the request itself describes the voice.
    """

    name: str
    description: str | None = None


def voices(config: Mapping[str, Any], files: Collection[str]) -> tuple[str, ...]:
    """Return a speech model's voices: those that its files name, else DEFAULT_VOICE; none if it only copies voices.

    `config` is its config.json, `files` are the paths of its files, relative to its folder. A model whose voice is a
    description has OpenAI's voices. Anybody may have written the files: nothing here raises.
    """
    kind = config.get("model_type")
    if config.get("tts_model_type") == "voice_design":
        return OPENAI_VOICES
    if kind == "llama":
        return _ORPHEUS_VOICES
    if kind in _SESAME_TYPES:
        prompts = (found[1] for found in map(_PROMPT.fullmatch, sorted(files)) if found)
        return tuple(name for name in prompts if name.isprintable())
    if (kind == "qwen3_tts" and config.get("tts_model_type", "base") == "base") or (
        kind == "chatterbox" and "conds.safetensors" not in files
    ):
        return ()
    talker = config.get("talker_config")
    named = talker.get("spk_id") if isinstance(talker, dict) else None
    # A name that can't be printed could not be encoded as JSON either.
    found = tuple(name for name in named if name.strip() and name.isprintable()) if isinstance(named, dict) else ()
    return found or (DEFAULT_VOICE,)


def choose_voice(name: str | None, own: Sequence[str], setting: Mapping[str, str]) -> Voice:
    """Return the model's `own` voice of this name, else the one that the setting or OpenAI's list has for it.

    Upper and lower case are equal; `name` None: the model's first voice. Raise OrchardError (invalid_request).
    """
    if name is None:
        return Voice(own[0])
    known = {voice.lower(): voice for voice in own}
    target = {key.lower(): value for key, value in setting.items()}.get(name.lower())
    if found := known.get(name.lower()) or known.get((target or "").lower()):
        return Voice(found)
    if target is None and name.lower() in OPENAI_VOICES:
        return Voice(own[OPENAI_VOICES.index(name.lower()) % len(own)])
    listed = ", ".join(
        map(repr, dict.fromkeys([*own, *(key for key, value in setting.items() if value.lower() in known)]))
    )
    why = "" if target is None else f"; the setting `voices` says {target!r} for {name!r}, which it doesn't have"
    message = f"`voice` must be one of this model's: {listed}, or one of OpenAI's names{why}"
    raise OrchardError("invalid_request", message, param="voice")


def choose_description(name: str | None, setting: Mapping[str, str]) -> Voice:
    """Return the description that the setting or else `DESCRIPTIONS` has for this name; None: the first one.

    Raise OrchardError (invalid_request).
    """
    known = {key.lower(): Voice(key, text) for key, text in (DESCRIPTIONS | dict(setting)).items()}
    if found := known.get((name or OPENAI_VOICES[0]).lower()):
        return found
    listed = ", ".join(repr(voice.name) for voice in known.values())
    raise OrchardError("invalid_request", f"`voice` must be one of this model's: {listed}", param="voice")
