from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends import beginnings
from orchard.backends.embeddings import texts as module
from orchard.backends.embeddings.texts import TextTokenizer
from orchard.core.errors import OrchardError
from tests.support.embedding_models import MINILM

MOST = 200


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return TextTokenizer(MINILM, MOST)


@pytest.fixture(scope="module", autouse=True)
def _short_beginnings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beginnings, "CHARS_AT_ONCE", 1024)
        patch.setattr(module, "CHARS_AT_ONCE", 1024)
        yield


def pieces(most: int) -> st.SearchStrategy[str]:
    words = st.sampled_from(["one two ", " ", "a", "Ab", "é", "中", "!", "\n", "unbelievable "])
    return st.lists(st.tuples(words, st.sampled_from([1, 9, 300])), max_size=most).map(
        lambda found: "x" + "".join(word * times for word, times in found)
    )


Texts = st.lists(pieces(12), min_size=1, max_size=9)


@given(texts=Texts)
def test_what_fits_is_what_the_tokenizer_leaves_of_the_whole_text(tokenizer: TextTokenizer, texts: list[str]) -> None:
    found = tokenizer.read_texts(texts, ["input"] * len(texts), truncate=True)
    expected = tokenizer._cutter.encode_batch(texts)
    assert [list(one.tokens) for one in found] == [one.ids for one in expected]


@given(query=pieces(2).map(lambda text: text[:100]), document=pieces(12).map(lambda text: text * 3))
def test_a_pair_is_what_the_tokenizer_makes_of_it_with_the_document_cut(query: str, document: str) -> None:
    own = TextTokenizer(MINILM, MOST)
    frame, asked = own.pair_frame(), own.tokenise_plain(query, MOST).tokens
    room = MOST - frame.token_count - len(asked)
    made = frame.join(asked, own.tokenise_plain(document, room).tokens[:room], 7)
    own._cutter.enable_truncation(MOST, strategy="only_second")
    expected = own._cutter.encode(query, document)
    assert (list(made.tokens), list(made.types), made.choice) == (expected.ids, expected.type_ids, 7)


@given(texts=Texts)
def test_without_cutting_what_does_not_fit_is_refused(tokenizer: TextTokenizer, texts: list[str]) -> None:
    lengths = [len(one.ids) for one in tokenizer._tokenizer.encode_batch(texts)]
    params = [f"input[{index}]" for index in range(len(texts))]
    wrong = next((index for index, length in enumerate(lengths) if length > MOST), None)
    if wrong is None:
        assert [len(one.tokens) for one in tokenizer.read_texts(texts, params, truncate=False)] == lengths
        return
    with pytest.raises(OrchardError) as caught:
        tokenizer.read_texts(texts, params, truncate=False)
    assert (caught.value.kind, caught.value.param) == ("context_length_exceeded", params[wrong])
    if "characters" in caught.value.message:
        assert len(texts[wrong]) > tokenizer.most_chars
        return
    told = int(caught.value.message.partition(" tokens;")[0].rpartition(" ")[2])
    least = "has at least" in caught.value.message
    assert MOST < told <= lengths[wrong] if least else told == lengths[wrong]


def test_more_characters_than_can_be_read_are_refused_or_cut(tokenizer: TextTokenizer) -> None:
    longer = "x" * 10**6
    with pytest.raises(OrchardError, match=r"`input` has more than [\d,]+ characters") as caught:
        tokenizer.read_texts([longer], ["input"], truncate=False)
    assert (caught.value.kind, caught.value.param) == ("context_length_exceeded", "input")
    (cut,) = tokenizer.read_texts([longer], ["input"], truncate=True)
    assert len(cut.tokens) <= 4


def test_a_text_that_was_bounded_is_still_too_long(tokenizer: TextTokenizer) -> None:
    assert tokenizer.cut_text("short") == "short"
    assert len(tokenizer.cut_text("x" * 10**6)) == tokenizer.most_chars + 1


def test_the_beginning_of_a_long_text_without_special_tokens(tokenizer: TextTokenizer) -> None:
    whole = tokenizer._tokenizer.encode("one two " * 9000, add_special_tokens=False).ids
    found = tokenizer.tokenise_plain("one two " * 9000, MOST)
    assert not found.is_whole
    assert MOST < found.least_tokens < len(whole)
    assert found.tokens[: found.least_tokens] == whole[: found.least_tokens]
