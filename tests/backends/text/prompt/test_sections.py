import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import load
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import orchard.demo
from orchard.backends.beginnings import CHARS_AT_ONCE, read_beginning
from orchard.backends.text.prompt import sections
from orchard.backends.text.prompt.sections import SectionTokenizer, section_openers
from orchard.device.lane import Lane
from tests.support.embedding_models import MINILM
from tests.support.examples import examples
from tests.support.models import CORPUS, SPECIAL, make_tokenizer

OPENERS = ["<|im_start|>", "<|im_end|>"]
PIECES = ["user\n", "The sea", " ", "  ", "\n", "\n\n", "a", "A", "1", "23", ".", "'s", "_", "é", "\u0301", "ﬁ", "日"]
PIECES += ["▁", "😀", "\u00a0", "\u200d", "\x00", "<", "<|", "|>", "<<"]


def wrapper(backend: Tokenizer, **fields: Any) -> Any:
    """What sections need of mlx-lm's wrapper."""
    known = {"is_fast": True, "added_tokens_decoder": backend.get_added_tokens_decoder()}
    return SimpleNamespace(**known | {"bos_token": None, "eos_token": None} | fields)


def encoder(backend: Tokenizer) -> Callable[[str], list[int]]:
    return lambda text: list(backend.encode(text, add_special_tokens=False).ids)


def _byte_level(*, prefix_space: bool = False, normalizer: Any = None) -> Tokenizer:
    made = Tokenizer(models.BPE())
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return made


def _unigram(scheme: str) -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    trainer = trainers.UnigramTrainer(vocab_size=150, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)  # noqa: S106
    made.train_from_iterator(CORPUS, trainer)
    return made


def _without_words() -> Tokenizer:
    """As that of Llama 2: the normaliser writes a space before each text between two added tokens."""
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))  # noqa: S106 - a token, not a secret
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["<unk>"], show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return made


@cache
def _text_of_word_piece() -> str:
    found = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return str(found.to_str())


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte level": _byte_level,
    "byte level, prefix space": lambda: _byte_level(prefix_space=True),
    "byte level, NFC": lambda: _byte_level(normalizer=normalizers.NFC()),
    "unigram, first": lambda: _unigram("first"),
    "unigram, always": lambda: _unigram("always"),
    "without words": _without_words,
    "word piece": lambda: Tokenizer.from_str(_text_of_word_piece()),
}
TEXTS_OF_KINDS = {name: cache(lambda make=make: make().to_str()) for name, make in KINDS.items()}
flags = st.fixed_dictionaries(
    {name: st.booleans() for name in ("normalized", "lstrip", "rstrip", "single_word", "special")}
)
contents = st.sampled_from([*OPENERS, "<|", "<|im_start|>user", "x<|im", "|><|", "\n", "<<", "[A]", "A", "end|><"])


@pytest.fixture(autouse=True)
def short_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_LEAST_CHARS", 1)


@pytest.mark.parametrize("kind", KINDS)
@examples(200)
@given(
    added=st.dictionaries(contents, flags, max_size=5),
    pieces=st.lists(st.sampled_from([*OPENERS, "<|im_start|>user", "[A]", "x", *PIECES]), max_size=40),
)
def test_tokens_of_sections_are_those_of_the_whole(
    kind: str, added: dict[str, dict[str, bool]], pieces: list[str]
) -> None:
    backend = Tokenizer.from_str(TEXTS_OF_KINDS[kind]())
    for content, options in added.items():
        backend.add_tokens([AddedToken(content, **options)])
    encode = encoder(backend)
    text = "".join(pieces)
    tokenizer = SectionTokenizer(wrapper(backend), "".join(added), encode)
    assert tokenizer.read(text, 10**6, b"") == (encode(text), True)
    assert tokenizer.read(text, 10**6, b"") == (encode(text), True)  # from the cache


@pytest.mark.parametrize("name", ["model", "vision_model"])
@examples(200)
@given(data=st.data())
def test_bundled_tokenizers_have_sections(name: str, data: st.DataObject) -> None:
    tokenizer, encode = _bundled(name)
    reader = SectionTokenizer(tokenizer, tokenizer.chat_template, encode)
    assert set(OPENERS) <= set(reader.openers)
    text = "".join(data.draw(st.lists(st.sampled_from([*reader.openers, *PIECES, *CORPUS]), max_size=60)))
    assert reader.read(text, 10**6, b"") == (encode(text), True)


@cache
def _bundled(name: str) -> tuple[Any, Callable[[str], list[int]]]:
    tokenizer = load(Path(orchard.demo.__file__).parent / name)
    return tokenizer, lambda text: tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("added", "template"),
    [
        (AddedToken("<a>", normalized=False), "<b>"),
        (AddedToken("<a>", normalized=True), "<a>"),
        (AddedToken("<a>", normalized=False, lstrip=True), "<a>"),
        (AddedToken("<a>", normalized=False, single_word=True), "<a>"),
        (AddedToken("word", normalized=False), "word"),
        (AddedToken("\n", normalized=False), "\n"),
    ],
)
def test_a_token_that_may_change_the_text_before_it_opens_no_section(added: AddedToken, template: str) -> None:
    backend = make_tokenizer()
    backend.add_tokens([added])
    assert section_openers(wrapper(backend), template, encoder(backend)) == []


@pytest.mark.parametrize("other", ["x<a>", "x<a>y", "x<", "<<a"])
def test_a_token_whose_text_begins_inside_another_opens_no_section(other: str) -> None:
    backend = make_tokenizer()
    backend.add_tokens([AddedToken("<a>", normalized=False)])
    assert section_openers(wrapper(backend), "<a>", encoder(backend)) == ["<a>"]
    backend.add_tokens([AddedToken(other, normalized=False)])
    assert section_openers(wrapper(backend), "<a>", encoder(backend)) == []


def test_a_token_that_the_template_writes_by_its_name_opens_sections() -> None:
    backend = make_tokenizer()
    found = section_openers(wrapper(backend, eos_token="<|im_end|>"), "{{ eos_token }}", encoder(backend))  # noqa: S106
    assert found == ["<|im_end|>"]


def test_tokenizers_that_fail_the_probe_have_no_sections() -> None:
    backend = make_tokenizer()
    encode = encoder(backend)
    shown = "".join(SPECIAL)
    assert section_openers(wrapper(backend), shown, encode) == SPECIAL
    assert section_openers(wrapper(backend), shown, lambda text: [1, *encode(text)]) == []
    assert section_openers(wrapper(backend, is_fast=False), shown, encode) == []


class Spy:
    """A tokenizer's `encode` that remembers the texts."""

    def __init__(self, openers: str = "<|im_start|>") -> None:
        backend = make_tokenizer()
        self.texts: list[str] = []
        self._encode = encoder(backend)
        self.tokenizer = SectionTokenizer(wrapper(backend), openers, self)
        self.texts.clear()

    def __call__(self, text: str) -> list[int]:
        self.texts.append(text)
        return self._encode(text)

    def read(self, text: str, salt: bytes = b"", most: int = 10**6) -> list[str]:
        """Return what is tokenised of a text."""
        self.texts.clear()
        beginning = self.tokenizer.read(text, most, salt)
        assert beginning.tokens == self._encode(text) if beginning.is_whole else beginning.least_tokens > most
        return self.texts[:]


def test_the_next_turn_tokenises_only_what_is_new() -> None:
    spy = Spy()
    first = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert spy.read(first) == ["<|im_start|>user\nHi<|im_end|>\n", "<|im_start|>assistant\n"]
    answer = "<|im_start|>assistant\nHello<|im_end|>\n"
    assert spy.read(first.removesuffix("<|im_start|>assistant\n") + answer) == [answer]
    assert spy.read(first) == []
    assert spy.read("Other" + first) == ["Other"]  # the rest has the same sections
    assert spy.read("") == [""]


def test_short_messages_share_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_LEAST_CHARS", 20)
    spy, message = Spy(), "<|im_start|>a<|im_start|>b"
    assert spy.read(2 * message + "<|im_start|>c") == [message, "<|im_start|>c"]


def test_a_caller_does_not_profit_from_the_texts_of_another() -> None:
    spy, text = Spy(), "<|im_start|>user\nHi"
    assert spy.read(text, b"one") == spy.read(text, b"two") == [text]
    assert spy.read(text, b"one") == spy.read(text, b"two") == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_MOST_BYTES", 4000)
    spy, text = Spy(), "<|im_start|>" + "a" * 400
    assert spy.read(text) == [text]
    assert spy.read(text) == []
    assert spy.read(text + "b") == [text + "b"]
    assert spy.read(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "<|im_start|>" * 100_000,
        "word " * 10**6,
        "<|im_start|>" + "word " * 10**6,
        "".join(f"<|im_start|>{number}" + 20 * " word" for number in range(10_000)),
        ("<|im_start|>" + "x" * CHARS_AT_ONCE) * 9,
    ],
)
@pytest.mark.parametrize("most", [100, 20_000])
def test_hostile_texts_cost_no_more_than_without_sections(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "_LEAST_CHARS", 512)
    spy, usual = Spy(), Spy("")
    assert usual.tokenizer.openers == []
    whole = usual.read(text, most=most)
    found = spy.read(text, most=most)
    chars = sum(map(len, found))
    assert chars <= sum(map(len, whole))
    assert len(found) <= len(whole) + chars / 512
    assert read_beginning(text, most, len(text), spy).tokens[:most] == spy.tokenizer.read(text, most, b"").tokens[:most]


async def test_smaller_work_goes_between_two_sections(lane: Lane) -> None:
    spy, done = Spy(), list[str]()
    reached, queued = threading.Event(), threading.Event()
    encode = spy._encode

    def wait_for_other_work(text: str) -> list[int]:
        done.append(text)
        reached.set()
        queued.wait()
        return encode(text)

    spy._encode = wait_for_other_work
    text = "<|im_start|>a<|im_start|>b"
    large = asyncio.create_task(lane.do(spy.tokenizer.read, text, 10**6, b"", yield_seconds=9.0))
    await asyncio.to_thread(reached.wait)
    small = asyncio.create_task(lane.do(done.append, "small"))
    await asyncio.sleep(0)
    queued.set()
    await asyncio.gather(small, large)
    assert done == ["<|im_start|>a", "small", "<|im_start|>b"]


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("test")
    yield lane
    lane.close()
