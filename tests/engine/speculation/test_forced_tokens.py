"""What a grammar forces is proposed to the rows that have one."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.grammar import GrammarState
from orchard.engine.speculation.forced_tokens import ForcedProposer
from tests.support.grammars import alphabet, lark, text

NAME = '{"identification_number":'


@dataclass(eq=False)
class BoundTalk:
    tokens: list[int]
    grammar: GrammarState | None
    prompt_length: int = 1
    cache_scope: CacheScope = EVERYBODY
    prediction: Sequence[int] = ()

    def says(self, said: str) -> "BoundTalk":
        """As the engine does: the state takes what is due when it is asked the next time."""
        tokens = alphabet().tokenizer.greedy_tokenize(said)
        self.tokens += tokens
        if self.grammar:
            self.grammar.due += tokens
        return self


@pytest.fixture
def row() -> BoundTalk:
    return BoundTalk([1], GrammarState(lark(f"start: {quoted(NAME)} /[0-9]+/ {quoted('}')}")))


def quoted(said: str) -> str:
    return '"' + said.replace('"', '\\"') + '"'


def proposed(proposer: ForcedProposer, row: BoundTalk, most: int = 100) -> str | None:
    [proposal] = proposer.propose([row], [most])
    assert proposal is None or proposal.source == "grammar"
    return text(proposal.tokens) if proposal else None


def test_proposes_the_text_that_must_come(row: BoundTalk) -> None:
    proposer = ForcedProposer()
    proposer.open(row)
    assert proposed(proposer, row) == NAME
    assert proposed(proposer, row, 3) == '{"i'
    assert proposed(proposer, row.says('{"iden')) == 'tification_number":'
    assert proposed(proposer, row.says(NAME[len('{"iden') :])) is None
    assert proposed(proposer, row.says("12")) is None
    proposer.close(row)


def test_expects_that_what_is_forced_comes(row: BoundTalk) -> None:
    proposer = ForcedProposer()
    proposer.open(row)
    [proposal] = proposer.propose([row], [100])
    assert proposal
    assert proposal.chances[4] > 0.9
    proposer.close(row)
    assert proposed(proposer, row) is None


def test_expects_less_where_something_else_came(row: BoundTalk) -> None:
    """As where a reasoning has to end, which the text that is forced knows nothing of."""
    proposer = ForcedProposer()
    proposer.open(row)
    chances: list[float] = []
    for _ in range(20):
        [proposal] = proposer.propose([row], [1])
        assert proposal
        chances += proposal.chances
        row.tokens.append(proposal.tokens[0] + 1)
    assert chances[-1] < 0.5


def test_rows_without_a_grammar_get_nothing() -> None:
    proposer, row = ForcedProposer(), BoundTalk([1, 2], None)
    proposer.open(row)
    assert proposed(proposer, row) is None
    proposer.close(row)
