"""The tokenizer: bytes, the beginnings of known words, and all of Whisper's special tokens.

mlx-audio treats a model as English-only if its vocabulary has fewer than 51,865 tokens.
"""

import json
from pathlib import Path
from typing import Any

from demo_whisper_model.words import WORDS

# https://github.com/openai/whisper/blob/main/whisper/tokenizer.py, in the same order.
LANGUAGES = (
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv", "it", "id", "hi",
    "fi", "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no", "th", "ur", "hr", "bg", "lt", "la",
    "mi", "ml", "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn", "et", "mk", "br", "eu", "is", "hy",
    "ne", "mn", "bs", "kk", "sq", "sw", "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be",
    "tg", "sd", "gu", "am", "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl",
    "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su",
)  # fmt: skip
_TASKS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
FRAME_SECONDS = 0.02  # between two timestamps
_TIMES = 1501

_SPACE = "Ġ"  # as byte-level tokenizers write it


def _prefixes() -> list[str]:
    """Return the beginnings of all words, with the space before them, each once: a word is merged letter by letter."""
    found = {_SPACE + one[:end]: None for one in WORDS for end in range(1, len(one) + 1)}
    return sorted(found, key=len)


_BYTES = 256
_PREFIXES = {prefix: _BYTES + at for at, prefix in enumerate(_prefixes())}
END = _BYTES + len(_PREFIXES)
SPECIAL = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    *(f"<|{name}|>" for name in (*LANGUAGES, *_TASKS)),
    *(f"<|{at * FRAME_SECONDS:.2f}|>" for at in range(_TIMES)),
)
IDS = {token: END + at for at, token in enumerate(SPECIAL)}
START, NO_SPEECH, NO_TIMES = (IDS[f"<|{name}|>"] for name in ("startoftranscript", "nospeech", "notimestamps"))
BEFORE, FIRST_TIME = IDS["<|startofprev|>"], IDS["<|0.00|>"]
VOCABULARY = END + len(SPECIAL)


def word(at: int) -> int:
    """Return the token of a word, with the space before it, by its place in `WORDS`."""
    return _PREFIXES[_SPACE + WORDS[at]]


def time(seconds: float) -> int:
    """Return the token of a time in a window."""
    return FIRST_TIME + min(_TIMES - 1, max(0, round(seconds / FRAME_SECONDS)))


def write(folder: Path) -> None:
    """Write what transformers' WhisperProcessor reads."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: at for at, letter in enumerate(letters)} | _PREFIXES
    tokenizer = Tokenizer(models.BPE(vocabulary, [(prefix[:-1], prefix[-1]) for prefix in _PREFIXES]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "<|endoftext|>")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")
