"""Text that a grammar forces: it is written in the tokens that the model's tokenizer makes of it, and in no others."""

import functools
import random

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.output import Vocabulary
from orchard.engine.sampling.grammar import (
    BoundGrammar,
    GrammarError,
    GrammarState,
    GrammarVocabulary,
    Masks,
    ReasoningTokens,
)
from tests.support.grammars import CALL, HEAD, THINK_END, alphabet, lark

NAME = "the user and the assistant"


def named(after: str = "/[0-9]+/") -> BoundGrammar:
    return lark(f'{HEAD}start: "{NAME}=" {after}')


def allowed(state: GrammarState, vocab_size: int = 0) -> set[int]:
    words, failed = Masks(vocab_size or len(alphabet().pieces)).compute([state])
    assert words is not None
    assert not failed
    return set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())


def tokens_of(text: str) -> list[int]:
    return alphabet()(text.encode())


def test_only_the_tokenizers_tokens_of_a_forced_text_may_come() -> None:
    state = GrammarState(named())
    whole = tokens_of(f"{NAME}=")
    assert len(whole) < len(NAME) / 2
    assert state.forced_tokens() == whole
    for place, token in enumerate(whole):
        assert state.forced_tokens() == whole[place:]
        assert allowed(state) == {token}
        state.take(token)
    assert state.forced_tokens() == []
    assert len(allowed(state)) >= 10


def test_an_end_that_a_longer_token_may_have_in_it_is_free() -> None:
    """Which token the model takes there is its own choice, as the grammar has both."""
    joined = alphabet().pieces.index(b"an")
    state = GrammarState(lark(f'{HEAD}start: "=a" /[a-z]+/'))
    assert state.forced_tokens() == tokens_of("=")
    state.take(state.forced_tokens()[0])
    assert state.forced_tokens() == []
    assert {joined, *tokens_of("a")} <= allowed(state)


def test_a_row_that_goes_on_after_a_stop_may_write_what_it_might_have_written() -> None:
    """What is forced depends on the tokens before it, not on the steps in which they came."""
    whole = tokens_of(f"{NAME}=")
    state = GrammarState(named())
    for count, token in enumerate(whole):
        assert GrammarState(named(), whole[:count]).forced_tokens() == state.forced_tokens()
        assert [one.forced_tokens() for one in GrammarState(named()).states_ahead(whole[: count + 1])][-1] == whole[
            count + 1 :
        ]
        state.take(token)


def test_a_token_that_the_grammar_names_is_forced_with_the_text_around_it() -> None:
    state = GrammarState(lark(f'{HEAD}start: <[{CALL}]> "the user" <[{THINK_END}]> " and" /[0-9]/'))
    assert state.forced_tokens() == [CALL, *tokens_of("the user"), THINK_END, *tokens_of(" and")]


def test_a_token_that_does_not_exist_is_never_forced() -> None:
    nowhere = alphabet().pieces.index(b"")
    state = GrammarState(lark(f'{HEAD}start: "the user" <[{nowhere}]>'))
    assert state.forced_tokens() == tokens_of("the user")
    for token in tokens_of("the user"):
        state.take(token)
    with pytest.raises(GrammarError):
        state.check(np.zeros(-(-len(alphabet().pieces) // 32), np.int32))


def test_other_tokens_of_a_forced_text_are_not_verified() -> None:
    first, second, *_ = GrammarState(named()).forced_tokens()
    spelled = tokens_of(alphabet().pieces[second].decode()[0])
    assert spelled != [second]
    assert len(GrammarState(named()).states_ahead([first, second])) == 3
    assert len(GrammarState(named()).states_ahead([first, *spelled])) == 2


def test_nothing_is_forced_where_the_model_may_write_a_newline_first() -> None:
    thoughts = ReasoningTokens(b"</think>", opened=True)
    state = GrammarState(lark(f'{HEAD}start: "{NAME}"', thoughts), tokens_of("</think>"))
    assert state.forced_tokens() == []
    state.take(tokens_of("\n\n")[0])
    for token in tokens_of("\n\n")[1:]:
        state.take(token)
    assert state.forced_tokens() == tokens_of(NAME)


@functools.cache
def sentence_pieces(scheme: str) -> GrammarVocabulary:
    """Like Llama 2's; `scheme`: whether it writes a space before each text that it cuts."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"number", "nu", "mb", "er", "▁nu"]
    merges = [("n", "u"), ("m", "b"), ("e", "r"), ("▁", "nu")]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    hugging_face = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    spelled = list(map(Vocabulary(hugging_face).bytes_of, range(len(vocabulary))))
    eos = vocabulary["</s>"]
    return GrammarVocabulary(spelled, [eos], [eos], functools.partial(hugging_face.encode, add_special_tokens=False))


@pytest.mark.parametrize("scheme", ["never", "first"])
def test_a_tokenizer_that_writes_a_space_before_a_text_does_not_do_so_within_one(scheme: str) -> None:
    letters = sentence_pieces(scheme)
    state = GrammarState(lark(f'{HEAD}start: "{{number number}}"', letters=letters))
    written = [letters.pieces[token] for token in state.forced_tokens()]
    assert written == [b"{", b"nu", b"mb", b"er", b" nu", b"mb", b"er", b"}"]


def test_a_tokenizer_that_changes_the_text_forces_no_other() -> None:
    """One that knows no capitals: the grammar's text is written in tokens that spell it."""
    pieces = [b"", *(bytes([letter]) for letter in range(256)), b"<end>"]
    letters = GrammarVocabulary(pieces, [257], [257], lambda text: [1 + byte for byte in text.lower().encode()])
    state = GrammarState(lark(f'{HEAD}start: "aBc"', letters=letters))
    said = b""
    while not said.endswith(b"c"):
        token = random.Random(1).choice(sorted(allowed(state, len(pieces))))
        said += pieces[token]
        state.take(token)
    assert said == b"aBc"
