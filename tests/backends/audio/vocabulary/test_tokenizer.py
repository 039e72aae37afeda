"""The tokenizers for each size of Whisper's vocabulary give what OpenAI's own do; `openai.json` has those."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_audio.stt.models.whisper.whisper import HFTokenizerWrapper

from orchard.backends.audio.vocabulary.tokenizer import SIZES, make_tokenizer

THEIRS = json.loads((Path(__file__).parent / "openai.json").read_text("utf-8"))

made = cache(make_tokenizer)


def wrapped(size: int) -> Any:
    """Return the tokenizer as mlx-audio uses it."""
    return HFTokenizerWrapper(made(size), multilingual=size > min(SIZES), num_languages=SIZES[size][1])


def test_all_sizes_are_compared() -> None:
    assert [str(size) for size in SIZES] == list(THEIRS["sizes"])


@pytest.mark.parametrize("size", SIZES)
def test_texts_become_the_same_tokens_and_come_back(size: int) -> None:
    tokenizer = wrapped(size)
    for text, tokens in zip(THEIRS["texts"], THEIRS["sizes"][str(size)]["encoded"], strict=True):
        assert tokenizer.encode(text) == tokens, text
        assert tokenizer.decode(tokens) == text


@pytest.mark.parametrize("size", SIZES)
def test_any_tokens_become_the_same_text(size: int) -> None:
    theirs = THEIRS["sizes"][str(size)]
    for tokens, text in zip(theirs["lists"], theirs["decoded"], strict=True):
        assert made(size).decode(tokens) == text


@pytest.mark.parametrize("size", SIZES)
def test_special_tokens_are_the_same_and_can_be_left_out_of_a_text(size: int) -> None:
    theirs, tokenizer = THEIRS["sizes"][str(size)], wrapped(size)
    known = made(size).get_vocab()
    assert sorted(known.values()) == list(range(size))
    assert {name: known[name] for name in theirs["special"]} == theirs["special"]
    assert len([name for name in theirs["special"] if "." not in name]) == 8 + SIZES[size][1]
    assert known["<|30.00|>"] == size - 1
    assert list(tokenizer.non_speech_tokens) == theirs["non_speech"]
    assert len(tokenizer.all_language_tokens) == SIZES[size][1]
    one = made(size).encode(" One")
    assert made(size).decode([*range(tokenizer.eot, size), *one], skip_special_tokens=True) == " One"


@given(st.text(), st.sampled_from(list(SIZES)))
def test_every_text_comes_back(text: str, size: int) -> None:
    assert made(size).decode(made(size).encode(text)) == text
