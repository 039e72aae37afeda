import json
import operator
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from orchard.backends import beginnings
from orchard.backends.beginnings import read_beginning, yield_seconds
from tests.support.embedding_models import MINILM
from tests.support.models import CORPUS

UNKNOWN = "<unk>"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEXTS = [
    *CORPUS,
    "The quick brown fox jumps over the lazy dog. " * 9,
    "日本語 текст É é ﬁ 각 " * 9,
    "aaaa bbbb    \n\n",
]


@cache
def word_piece() -> Tokenizer:
    """MiniLM's, which reads long words as unknown and leaves out white space."""
    found = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


@cache
def byte_level() -> Tokenizer:
    """As that of Qwen."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator(_TEXTS, trainer)
    return made


@cache
def unigram() -> Tokenizer:
    """As that of XLM-RoBERTa: unknown characters side by side are one token."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, unk_token=UNKNOWN, special_tokens=[UNKNOWN], show_progress=False)
    made.train_from_iterator(_TEXTS, trainer)
    return made


@cache
def without_words() -> Tokenizer:
    """As those of Llama 2 and Gemma: a text is not split into words before it is tokenised."""
    made = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[UNKNOWN], show_progress=False)
    made.train_from_iterator(_TEXTS, trainer)
    described: dict[str, Any] = json.loads(made.to_str()) | {"pre_tokenizer": None}
    changed = Tokenizer.from_str(json.dumps(described))
    changed.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return changed


KINDS = [word_piece, byte_level, unigram, without_words]
_PIECES = ["the quick fox", " ", "\n", "\t  ", "a", "xyz", "é", "e\u0301", "日", "😀", "1", "!?", "ﬁ", "각", "\x01"]
_PIECES += ["aaaa bbbb", "[SEP]"]
_TIMES = [1, 2, 7, 40, 300, 2000]
texts = st.lists(st.builds(operator.mul, st.sampled_from(_PIECES), st.sampled_from(_TIMES)), max_size=12).map("".join)
# Unigram finds the likeliest tokens of a whole word: its last letter may change its first token.
short_words = st.builds(
    operator.mul, texts.map(lambda text: " ".join(textwrap.wrap(text, 90))), st.sampled_from([1, 9])
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data(), most=st.sampled_from([1, 8, 200, 1000]))
def test_the_tokens_that_fit_are_those_of_the_whole_text(
    kind: Callable[[], Tokenizer], data: st.DataObject, most: int
) -> None:
    text = data.draw(short_words if kind is unigram else texts)

    def encode(part: str) -> list[int]:
        ids: list[int] = kind().encode(part, add_special_tokens=False).ids
        return ids

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beginnings, "CHARS_AT_ONCE", 512)
        found = read_beginning(text, most, len(text), encode)
    whole = encode(text)
    assert found.tokens[:most] == whole[:most]
    assert found.least_tokens <= len(whole)
    assert found.tokens == whole if found.is_whole else found.least_tokens > most


@pytest.mark.parametrize(
    ("text", "most"), [("word " * 10**6, 256), ("x" * 10**7, 256), ("word " * 10**6, 4096), ("\n" * 10**7, 100)]
)
def test_little_of_a_long_text_is_tokenised(text: str, most: int) -> None:
    read = []

    def encode(part: str) -> list[int]:
        read.append(len(part))
        return [0] * (len(part) // 5)

    found = read_beginning(text, most, len(text), encode)
    assert found.least_tokens > most
    assert not found.is_whole
    assert sum(read) <= 2 * beginnings.CHARS_AT_ONCE


def test_what_gives_few_tokens_ends_at_the_given_length() -> None:
    found = read_beginning("x" * 10**6, 256, 10**5, lambda part: [0])
    assert found == ([0], False)
    assert found.least_tokens < 0


def test_a_beginning_that_differs_from_the_rest_is_followed_by_a_longer_one() -> None:
    read = []

    def encode(part: str) -> list[int]:
        read.append(len(part))
        return [0] * part.count("a")

    found = read_beginning(" " * 10**5 + "a" * 10**7, 256, 10**8, encode)
    assert found.least_tokens > 256
    assert read == [65_536, 8 * 65_536]


def test_larger_work_lets_others_go_first_for_longer() -> None:
    assert 0 < yield_seconds("a") < yield_seconds(("a" * 100, 1)) < yield_seconds("a" * 10**6) < 60
