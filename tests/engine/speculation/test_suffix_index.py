"""The index must find what a search through the whole text finds, however the text has grown."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.speculation.suffix_index import LENGTHS, Follower, SuffixIndex, ngrams_of
from tests.support.examples import examples

few_tokens = st.integers(0, 3)


def occurs(text: list[int], ngram: list[int], place: int) -> bool:
    return len(ngram) <= place < len(text) and text[place - len(ngram) : place] == ngram


@examples(200)
@given(st.lists(st.lists(few_tokens, max_size=300), max_size=6), st.lists(few_tokens, max_size=20))
def test_finds_only_occurrences_and_the_latest_of_its_ngram(parts: list[list[int]], suffix: list[int]) -> None:
    text: list[int] = []
    index = SuffixIndex()
    for part in parts:
        text += part
        index.extend(part)
        for end in (suffix, text):
            if found := index.find(ngrams_of(end)):
                fits = [n for n in LENGTHS if n <= len(end) and occurs(text, end[-n:], found)]
                # A slot holds the latest place of its n-gram, whichever length it was found by.
                assert any(not any(occurs(text, end[-n:], p) for p in range(found + 1, len(text))) for n in fits)


@pytest.mark.parametrize("step", [1, 7, 5000])
def test_finds_nearly_all(step: int) -> None:
    text = random.Random(1).choices(range(50), k=5000)
    index = SuffixIndex()
    for start in range(0, len(text), step):
        index.extend(text[start : start + step])
        index.find(ngrams_of(text[:3]))
    ends = range(LENGTHS[0], len(text), 7)
    assert sum(index.find(ngrams_of(text[end - 6 : end])) == end for end in ends) > 0.75 * len(ends)
    assert sum(index.find(ngrams_of(text[end - 12 : end])) == end for end in ends) > 0.95 * len(ends)


@examples(50)
@given(st.lists(st.integers(0, 10**6), min_size=20, max_size=2000), st.data())
def test_indexing_at_once_and_token_by_token_is_the_same(text: list[int], data: st.DataObject) -> None:
    whole, slow = SuffixIndex(text), SuffixIndex()
    for token in text:
        slow.extend([token])
        slow.find(ngrams_of(text[:3]))
    for _ in range(20):
        end = data.draw(st.integers(3, len(text)))
        suffix = text[max(0, end - 20) : end]
        assert whole.find(ngrams_of(suffix)) == slow.find(ngrams_of(suffix))


def test_a_text_of_its_own_end_is_no_occurrence() -> None:
    index = SuffixIndex([1, 2, 3, 4])
    assert index.find(ngrams_of([2, 3, 4])) == 0
    index.extend([5])
    assert index.find(ngrams_of([2, 3, 4])) == 4


def test_negative_tokens_are_indexed_alike_one_by_one_and_at_once() -> None:
    text = [-1, 5, 6, *range(100), -1, 5, 6, 9]
    slow = SuffixIndex()
    for token in text:
        slow.extend([token])
        slow.find(ngrams_of([0, 0, 0]))
    for index in (SuffixIndex(text), slow):
        assert index.find(ngrams_of([-1, 5, 6])) == len(text) - 1


def test_memory_is_bounded_by_the_length() -> None:
    index = SuffixIndex(range(100_000))
    index.find(ngrams_of([1, 2, 3]))
    held = sum(table.itemsize * len(table) for table in index._tables) + index.tokens.itemsize * len(index)
    assert held <= 100_000 * (8 + len(LENGTHS) * 4 * 8)


def test_a_follower_goes_along_and_lets_go() -> None:
    text = SuffixIndex([1, 2, 3, 4, 5, 6, -1, 7])
    follower = Follower()
    follower.search([text], [9, 1, 2, 3])
    assert (follower.match_length, follower.next_tokens(2), follower.next_tokens(9)) == (3, [4, 5], [4, 5, 6])
    assert follower.advance(4)
    assert (follower.match_length, follower.next_tokens(9)) == (4, [5, 6])
    assert not follower.advance(4)
    assert (follower.text, follower.match_length, follower.next_tokens(9)) == (None, 0, [])
    follower.follow(text, 7, 8)
    assert follower.advance(7)
    assert not follower.advance(8)  # the text has ended


def test_a_follower_changes_to_a_longer_match_only() -> None:
    here, there, longer = SuffixIndex([1, 2, 3, 10]), SuffixIndex([1, 2, 3, 20]), SuffixIndex([0, 1, 2, 3, 30])
    follower = Follower()
    follower.search([here, there], [1, 2, 3])
    assert follower.next_tokens(1) == [10]
    follower.search([there], [1, 2, 3])
    assert follower.next_tokens(1) == [10]
    follower.search([there, longer], [0, 1, 2, 3])
    assert (follower.next_tokens(1), follower.match_length) == ([30], 4)


def test_what_ends_where_many_tokens_begin_is_found() -> None:
    index = SuffixIndex(range(150))
    assert index.find(ngrams_of([3, 4])) == 5
    index.extend(range(200, 300))  # not so many that all is indexed anew
    assert index.find(ngrams_of([148, 149])) == 150
