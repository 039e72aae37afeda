"""What followed the same tokens before is proposed, from wherever it stands."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.grammar import GrammarState
from orchard.engine.speculation.ngram import AnswerPool, NgramProposer
from tests.support.examples import examples

FILE = list(range(100, 200))


@dataclass(eq=False)
class TalkingRow:
    """A row that tests make speak."""

    tokens: list[int]
    prediction: Sequence[int] = ()
    grammar: GrammarState | None = None
    cache_scope: CacheScope = EVERYBODY

    def __post_init__(self) -> None:
        self.prompt_length = len(self.tokens)


class Talk:
    """A row and its proposer."""

    def __init__(self, proposer: NgramProposer, prompt: list[int], prediction: Sequence[int] = ()) -> None:
        self.proposer, self.row = proposer, TalkingRow(list(prompt), prediction)
        proposer.open(self.row)

    def says(self, *tokens: int) -> "Talk":
        self.row.tokens += tokens
        return self

    def proposed(self, most: int) -> tuple[str, list[int]] | None:
        [proposal] = self.proposer.propose([self.row], [most])
        if proposal is None:
            return None
        assert len(proposal.chances) == len(proposal.tokens)
        return proposal.source, proposal.tokens

    def ends(self) -> None:
        self.proposer.close(self.row)


def test_proposes_what_followed_in_the_prompt() -> None:
    talk = Talk(NgramProposer(), [*FILE, 1, 2])
    assert talk.proposed(4) is None
    assert talk.says(111).proposed(4) is None
    assert talk.says(112).proposed(4) == ("ngram", [113, 114, 115, 116])
    assert talk.says(113, 114).proposed(2) == ("ngram", [115, 116])
    assert talk.says(7).proposed(4) is None


def test_a_repeated_text_goes_on_repeating_itself() -> None:
    assert Talk(NgramProposer(), [1, 2, 5, 6, 5, 6, 5]).proposed(5) == ("ngram", [6, 5, 6, 5, 6])


def test_proposes_from_the_answers_of_other_rows() -> None:
    proposer = NgramProposer()
    Talk(proposer, [*FILE, 1, 2, 3]).says(10, 11, 12, 13).ends()
    assert Talk(proposer, FILE[:9]).proposed(8) is None  # prompts are not kept
    assert Talk(proposer, [9, 1, 2, 3]).proposed(8) == ("ngram", [10, 11, 12, 13])
    Talk(proposer, [50, 51, 52]).says(60, 61, 62).ends()
    # What one answer ends with is not followed by the next one's beginning.
    assert Talk(proposer, [11, 12]).says(13).proposed(8) is None


def test_guesses_come_from_answers_of_the_same_scope() -> None:
    pool = AnswerPool(100)
    ann, ben = CacheScope.from_name("ann"), CacheScope.from_name("ben")
    proposer = NgramProposer(pool)
    row = TalkingRow([1, 2, 3], cache_scope=replace(ann, shared=2))
    proposer.open(row)
    row.tokens += [4, 5, 6]
    proposer.close(row)
    for scope, proposed in ((ann, [4, 5]), (ben, None), (EVERYBODY, None)):
        row = TalkingRow([1, 2, 3], cache_scope=scope)
        proposer.open(row)
        (proposal,) = proposer.propose([row], [2])
        assert (proposal and proposal.tokens) == proposed
    for number in range(10):
        pool.add(range(40), CacheScope.from_name(f"{number}"))
    scopes = (ann, *(CacheScope.from_name(f"{number}") for number in range(10)))
    assert sum(len(text) for scope in scopes for text in pool.texts(scope)) <= 200
    assert pool.texts(CacheScope.from_name("9"))
    assert not pool.texts(ann)


def test_the_pool_has_few_scopes_however_short_their_answers_are() -> None:
    """Each of them takes memory besides its tokens, and one caller can have thousands of salts."""
    pool = AnswerPool()
    scopes = [CacheScope.from_name(f"{number}") for number in range(1000)]
    for scope in scopes:
        pool.add([1, 2, 3], scope)
        pool.add([4, 5, 6], scopes[0])
    kept = [scope for scope in scopes if pool.texts(scope)]
    assert kept == [scopes[0], *scopes[1000 - len(kept) + 1 :]]
    assert 100 < len(kept) < 500


def test_the_pool_keeps_the_latest_answers_in_bounded_memory() -> None:
    pool = AnswerPool(100)
    for number in range(50):
        pool.add([number * 10 + digit for digit in range(10)])
        assert sum(map(len, pool.texts())) <= 100
        for known in range(max(number - 4, 0), number + 1):
            assert Talk(NgramProposer(pool), [known * 10 + digit for digit in range(4)]).proposed(1)
    assert Talk(NgramProposer(pool), [0, 1, 2, 3]).proposed(1) is None
    pool.add(list(range(1000, 2000)))
    assert sum(map(len, pool.texts())) <= 100
    assert Talk(NgramProposer(pool), [1990, 1991, 1992]).proposed(1) == ("ngram", [1993])


def test_a_prediction_is_proposed_from_its_beginning_and_found_again() -> None:
    talk = Talk(NgramProposer(), [1, 2, 3], FILE)
    assert talk.proposed(3) == ("prediction", FILE[:3])
    assert talk.says(100, 101, 7).proposed(3) is None
    assert talk.says(150, 151, 152).proposed(3) == ("prediction", [153, 154, 155])


def test_of_matches_that_are_as_long_the_predictions_counts() -> None:
    talk = Talk(NgramProposer(), [1, 50, 51, 60, 9], [7, 50, 51, 70, 71])
    assert talk.says(50, 51).proposed(2) == ("prediction", [70, 71])


def test_a_row_that_goes_on_after_a_preemption_does_not_begin_the_prediction_again() -> None:
    proposer, row = NgramProposer(), TalkingRow([1, 2, 3], FILE)
    row.tokens += FILE[:5]
    proposer.open(row)
    [proposal] = proposer.propose([row], [2])
    assert proposal
    assert proposal.tokens == FILE[5:7]


def test_what_was_right_before_is_likelier() -> None:
    proposer = NgramProposer()
    good, bad = Talk(proposer, FILE), Talk(proposer, FILE)
    for place in range(50):
        good.says(FILE[place]).proposed(4)
        bad.says(*FILE[place : place + 3]).proposed(4)
        bad.says(7).proposed(4)
    bad.says(*FILE[60:63])
    known, unknown = proposer.propose([good.row, bad.row], [4, 4])
    assert known
    assert unknown
    assert known.chances[3] > 0.8
    assert unknown.chances[0] < 0.4


@examples(100)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=100),
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), max_size=30),
    st.lists(st.integers(0, 5), max_size=20),
    st.integers(1, 9),
)
def test_proposes_known_tokens_only_and_never_too_many(
    prompt: list[int], steps: list[list[int]], prediction: list[int], most: int
) -> None:
    proposer = NgramProposer(AnswerPool(64))
    known = {*prompt, *prediction, *(token for tokens in steps for token in tokens)}
    for _ in range(2):
        talk = Talk(proposer, prompt, prediction)
        for tokens in steps:
            if found := talk.says(*tokens).proposed(most):
                assert 1 <= len(found[1]) <= most
                assert set(found[1]) <= known
        talk.ends()


@examples(50)
@given(st.integers(0, 10**6), st.integers(40, 200), st.integers(1, 8))
def test_a_copied_text_is_guessed_to_its_end(seed: int, length: int, most: int) -> None:
    text = random.Random(seed).sample(range(1000), length)
    talk = Talk(NgramProposer(), [*text, 2000])
    place, passes = 0, 0
    while place < len(text):
        guessed = found[1] if (found := talk.proposed(most)) else []
        hits = next((n for n, token in enumerate(guessed) if text[place + n : place + n + 1] != [token]), len(guessed))
        step = text[place : place + hits + 1]
        talk.says(*step)
        place += len(step)
        passes += 1
    assert passes <= 4 + math.ceil(len(text) / (most + 1))
