"""A grammar's state ahead of its row: behind tokens that are only proposed."""

import math

import pytest

from orchard.engine.sampling.grammar import BoundGrammar, GrammarState, ReasoningTokens
from tests.engine.sampling.test_grammar import EOS, allowed, letters
from tests.support.grammars import lark

THOUGHTS = ReasoningTokens(b"</think>", opened=True, closing=(257,), needs=3)
WITHIN = ReasoningTokens(b"<end>", within=b"<open>", closing=(258,), needs=3)
CASES: dict[str, tuple[BoundGrammar, list[int]]] = {
    "an answer": (lark('start: "ab" /[0-9]+/ "c"', letters=letters()), [*b"ab123c", EOS]),
    "a trigger": (lark('start: "ab"', trigger=b"call", letters=letters()), list(b"a callabcallab b")),
    "reasoning": (lark('start: "ab"', THOUGHTS, letters=letters(b"</think>")), [*b"why?", 257, 10, *b"ab", EOS]),
    "reasoning within": (
        lark('start: (<[257]> /(.|\\n)*/ <[258]>)? "ab"', WITHIN, letters=letters(b"<open>", b"<end>")),
        [257, *b"why?", 258, *b"ab", EOS],
    ),
}


def possible(state: GrammarState) -> set[int] | None:
    """Return the tokens that may follow; None: any."""
    return None if state.is_free else allowed(state)


@pytest.mark.parametrize("due", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_what_is_ahead_is_what_comes(case: str, due: int) -> None:
    """Each state allows what the row allows once it is there, and the row stays where it is."""
    grammar, text = CASES[case]
    for begun in range(due, len(text)):
        row = GrammarState(grammar, text[: begun - due])
        row.due += text[begun - due : begun]
        row.tokens_left = len(text) - begun
        states = row.states_ahead(text[begun : begun + 4])
        assert row.tokens_left == len(text) - begun
        for place, state in enumerate(states):
            there = GrammarState(grammar, text[: begun + place])
            there.tokens_left = len(text) - begun - place
            assert possible(state) == possible(there), (begun, place)
        own = GrammarState(grammar, text[:begun])
        own.tokens_left = row.tokens_left
        assert possible(row) == possible(own)


def test_the_answer_is_followed_to_its_end() -> None:
    grammar, text = CASES["an answer"]
    assert len(GrammarState(grammar).states_ahead(text[:6])) == 7


def test_nothing_is_proposed_behind_a_token_that_is_not_allowed() -> None:
    row = GrammarState(CASES["an answer"][0])
    assert len(row.states_ahead(list(b"a1b"))) == 2
    assert len(row.states_ahead(list(b"1"))) == 1
    assert row.tokens_left == math.inf
    assert allowed(row) == {ord("a")}


def test_what_is_ahead_is_not_taken_for_what_has_come() -> None:
    """A row whose lexer is full replays what it has taken; see `test_a_lexer_that_others_have_filled_is_renewed`."""
    row = GrammarState(CASES["an answer"][0], list(b"ab1"))
    row.states_ahead(list(b"23c"))
    assert row._matched_tokens == list(b"ab1")
    assert row.due == []
