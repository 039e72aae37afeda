"""Proposes the tokens that followed an earlier occurrence of the row's last tokens.

It searches the row's own prompt and answer, the answer that the request predicts, and a bounded pool of recent answers
of the same model and the same scope. It needs no model, like prompt lookup decoding
(https://github.com/apoorvumang/prompt-lookup-decoding) and SuffixDecoding (https://arxiv.org/abs/2411.04975).
"""

from collections import OrderedDict
from collections.abc import Sequence

from msgspec.structs import replace

from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.speculation.acceptance import ModelAcceptance, RowAcceptance
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal
from orchard.engine.speculation.suffix_index import LENGTHS, LONGEST_MATCH, SHORTEST_MATCH, Follower, SuffixIndex

_BETWEEN = -1  # separates two texts of the pool; not a token
_POOL_TOKENS = 1 << 17
_MOST_SCOPES = 256
_SURE = LENGTHS[0]  # tokens; while a match has as many, no longer one is searched


class AnswerPool:
    """Recent answers of a model, for each scope in two halves: when the newer half is full, the older half is dropped.

    A scope has at most `most_tokens`; all scopes have at most twice as many. There are at most `_MOST_SCOPES`, because
    each one takes memory besides its tokens. The least recently used one is dropped.
    """

    def __init__(self, most_tokens: int = _POOL_TOKENS) -> None:
        self._most = most_tokens
        self._texts: OrderedDict[CacheScope, list[SuffixIndex]] = OrderedDict()

    def add(self, answer: Sequence[int], scope: CacheScope = EVERYBODY) -> None:
        """Add an answer, or the end of one that is longer than half of a scope's tokens."""
        if len(answer) < SHORTEST_MATCH:
            return
        half = self._most // 2
        newer, older = self._texts.pop(scope, (SuffixIndex(), SuffixIndex()))
        if len(newer) + len(answer) + 1 > half:
            newer, older = SuffixIndex(), newer
        newer.extend([_BETWEEN, *answer[-half + 1 :]])
        self._texts[scope] = [newer, older]
        while len(self._texts) > _MOST_SCOPES or sum(map(_count_tokens, self._texts.values())) > 2 * self._most:
            self._texts.popitem(last=False)

    def texts(self, scope: CacheScope = EVERYBODY) -> list[SuffixIndex]:
        """Return the texts of a scope to search, the newer one first."""
        return self._texts.get(scope, [])


def _count_tokens(texts: Sequence[SuffixIndex]) -> int:
    return sum(map(len, texts))


class _RowTexts:
    """The texts that may contain a row's next tokens, and how often guesses from them were right."""

    def __init__(self, row: SpeculatingRow, pool: AnswerPool, acceptance: RowAcceptance) -> None:
        self._row = row
        self._row_text = SuffixIndex(row.tokens)
        self._pool = pool
        self._scope = replace(row.cache_scope, shared=0)  # a prompt's beginning doesn't matter here
        self._prediction = SuffixIndex(row.prediction)
        self._follower = Follower()
        self._acceptance = acceptance
        if row.prediction and len(row.tokens) == row.prompt_length:
            self._follower.follow(self._prediction, 0, _SURE)

    def propose(self, most: int) -> Proposal | None:
        """Propose up to `most` tokens; None: no match."""
        if new := self._row.tokens[len(self._row_text) :]:
            self._row_text.extend(new)
            self._acceptance.take(new)
            all(map(self._follower.advance, new))
        if self._follower.match_length < _SURE:
            ending = self._row_text.tokens[-LONGEST_MATCH:]
            self._follower.search([self._prediction, self._row_text, *self._pool.texts(self._scope)], ending)
        match_length, ahead = self._follower.match_length, self._follower.next_tokens(most)
        if not ahead:
            return None
        if self._follower.text is self._row_text:
            # The proposal reaches the end of the row's own text: repeat it, as a repeating text would.
            ahead += (ahead * most)[: most - len(ahead)]
        return self._acceptance.propose(
            "prediction" if self._follower.text is self._prediction else "ngram", ahead, match_length
        )

    def save(self) -> None:
        """Add the answer to the pool, after the last prompt tokens, so that a later row can find its beginning."""
        self._pool.add(self._row.tokens[max(self._row.prompt_length - SHORTEST_MATCH, 0) :], self._scope)


class NgramProposer:
    """Proposes for all rows of a model from earlier text."""

    def __init__(self, pool: AnswerPool | None = None) -> None:
        self._pool = pool or AnswerPool()
        self._acceptance = ModelAcceptance()
        self._rows: dict[SpeculatingRow, _RowTexts] = {}

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row."""
        self._rows[row] = _RowTexts(row, self._pool, RowAcceptance(self._acceptance))

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row, and add its answer to the pool."""
        self._rows.pop(row).save()

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """Propose up to `most[i]` tokens for each row."""
        return [self._rows[row].propose(count) for row, count in zip(rows, most, strict=True)]
