"""Whisper's tokenizer, built from the merges of its vocabularies (https://github.com/openai/whisper, MIT licence)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

MERGES = Path(__file__).parent / "merges.npz"
"""Per vocabulary, an array (50000, 2): the two earlier tokens that each token after the 256 bytes joins."""
SIZES = {51_864: ("gpt2", 99), 51_865: ("multilingual", 99), 51_866: ("multilingual", 100)}
"""The vocabulary and its number of languages, by the number of tokens (English, multilingual, large-v3)."""

# GPT-2's byte-level alphabet, in which the tokens of many vocabularies are written.
_BYTE_OF = {character: bytes([byte]) for byte, character in bytes_to_unicode().items()}
_END = "<|endoftext|>"
_TASK_TOKENS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
_TIME_TOKENS = 1501  # from 0 to 30 seconds


def make_tokenizer(size: int) -> Any:
    """Return the tokenizer of a Whisper model with a vocabulary of `size` tokens, a key of SIZES.

    It equals transformers' tokenizer for the files of OpenAI's models, without their prefix tokens.
    """
    name, languages = SIZES[size]
    with np.load(MERGES, allow_pickle=False) as arrays:
        words, merges = spell_tokens(arrays[name].tolist())
    if name == "multilingual":
        words.append("")  # this token occurs in no text
    made = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in _special_tokens(languages)])
    ends = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), _END)
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False, **ends)


def token_bytes(tokenizer: Any, token: int) -> bytes:
    """Return the bytes of a token of a byte-level vocabulary."""
    characters: str = tokenizer.convert_ids_to_tokens(token)
    return b"".join(_BYTE_OF.get(one) or one.encode() for one in characters)


def spell_tokens(merges: Sequence[Sequence[int]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return a vocabulary's tokens in the order of their ids, and its merges, as characters that stand for bytes."""
    words = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = []
    for left, right in merges:
        pairs.append((words[left], words[right]))
        words.append(words[left] + words[right])
    return words, pairs


def _special_tokens(languages: int) -> list[str]:
    times = (f"{step / 50:.2f}" for step in range(_TIME_TOKENS))
    inner = ("startoftranscript", *list(LANGUAGES)[:languages], *_TASK_TOKENS, *times)
    return [_END, *(f"<|{word}|>" for word in inner)]
