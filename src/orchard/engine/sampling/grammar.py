"""Grammars that rows follow token by token, and the masks of what may come next.

Masks are llguidance's (https://github.com/guidance-ai/llguidance); they are computed on the CPU while the device runs
the pass whose logits they are for.
"""

import copy
import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum, auto
from functools import lru_cache, partial
from typing import Any

import mlx.core as mx
import numpy as np
from llguidance import LLExecutor, LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.numpy import fill_next_token_bitmask, fill_next_token_bitmask_par
from msgspec import Struct

MOST_NEWLINES = 2
"""Newlines that may stand between the reasoning and the answer: models write them there."""
_NEWLINES = re.compile(rb"\n{1,2}")
_NAMED = b"\xff[%d]"  # how llguidance writes a token that a grammar names: no text has this byte
_REMEMBERED = 1024
_REMEMBERED_BYTES = 256
_LEAD = b"\2"  # a character that no token has in it along with others

Words = np.ndarray[Any, Any]
"""Bits, 32 to an int32, the lowest first: one for each token that is allowed."""


class GrammarError(Exception):
    """A row can't go on by its grammar; the message is a sentence for the caller."""


class ReasoningTokens(Struct, frozen=True):
    """How to recognise the reasoning before an answer, which no grammar binds.

    `opened`: the answer begins within it. `start`: the token with which the model may begin it itself, as the first of
    its answer. `end`: its end tag as text, however it is cut into tokens. `within`: the text that begins the reasoning,
    where the grammar itself has it, and its end, before the answer.

    `closing`: the end tag's tokens; they are all that may come once no more than `needs` tokens are left behind them:
    those of a short answer.
    """

    end: bytes
    opened: bool = False
    start: int | None = None
    within: bytes = b""
    closing: tuple[int, ...] = ()
    needs: int = 0


class GrammarVocabulary:
    """The tokens of a model as grammars see them. Making one takes a third of a second for 150,000."""

    def __init__(
        self, pieces: Sequence[bytes], special: Sequence[int], eos: Sequence[int], tokenize: Callable[[str], list[int]]
    ) -> None:
        """`pieces`: every token's bytes, as many as there are logits, empty where there is no token. `special`: tokens
        that are no text. `eos`: those that end a turn. `tokenize` turns text into tokens."""
        self.pieces = self.tokens = list(pieces)
        self.special_token_ids = list(special)
        self.eos_token_id = eos[0]
        self.bos_token_id = None
        self._tokenize = tokenize
        self._remembered = lru_cache(_REMEMBERED)(self._cut)  # tokenizers take a tenth of a millisecond
        # The wrapper reads the names above except the first, and calls this object to turn bytes into tokens.
        self.tokenizer = LLTokenizer(TokenizerWrapper(self), len(pieces), list(eos))
        self.newlines = {token: len(piece) for token, piece in enumerate(pieces) if _NEWLINES.fullmatch(piece)}
        """How many newlines there are in the few tokens that may stand between reasoning and answer."""
        known = np.array([bool(piece) for piece in pieces])
        self.known = mask_of(np.flatnonzero(known), len(pieces))
        """The tokens that there are: logits are often wider than the tokenizer."""
        self.unending = self.known & ~mask_of(eos, len(pieces))
        """Those that don't end a turn."""

    def __call__(self, text: bytes) -> list[int]:
        """Turn text into tokens as the model's tokenizer does within a longer text. It remembers short texts."""
        return self._remembered(text) if len(text) <= _REMEMBERED_BYTES else self._cut(text)

    def _cut(self, text: bytes) -> list[int]:
        tokens = self._tokenize(text.decode("utf-8", "replace"))
        return tokens if self.spells(tokens) == text else self._cut_within(text)

    def spells(self, tokens: Sequence[int]) -> bytes:
        """Return the text of tokens."""
        return b"".join(self.pieces[token] for token in tokens)

    def spelling(self, text: bytes, tokens: Sequence[int]) -> list[int]:
        """Return as many of the tokens as exist and spell the text, in which a grammar names tokens by `_NAMED`."""
        found: list[int] = []
        for token in tokens:
            name = _NAMED % token
            spelled = name if text.startswith(name) else self.pieces[token]
            if not (self.pieces[token] and text.startswith(spelled)):
                break
            found.append(token)
            text = text[len(spelled) :]
        return found

    def _cut_within(self, text: bytes) -> list[int]:
        """Turn text into tokens where the tokenizer writes a space before any text (SentencePiece)."""
        tokens = self._tokenize(_LEAD.decode() + text.decode("utf-8", "replace"))
        begin = next((place for place, token in enumerate(tokens) if self.pieces[token].endswith(_LEAD)), len(tokens))
        return tokens[begin + 1 :] if self.spells(tokens[begin + 1 :]) == text else self.tokenize(text)

    def tokenize(self, text: bytes) -> list[int]:
        """Turn text into tokens, in some way."""
        return self.tokenizer.greedy_tokenize(text.decode("utf-8", "replace"))


def mask_of(tokens: Sequence[int] | Words, vocab_size: int) -> Words:
    """Return the mask, int32 (words,), that allows exactly these tokens."""
    bits = np.zeros(-(-vocab_size // 32) * 32, np.uint8)
    bits[tokens] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


class CompiledGrammar:
    """A compiled grammar. Its matchers share a lexer that learns as they go, and can fill up."""

    def __init__(self, vocabulary: GrammarVocabulary, text: str, limits: LLParserLimits | None = None) -> None:
        """`text` is what `LLMatcher` takes; the matchers report its errors."""
        self.vocabulary = vocabulary
        self._compile = partial(LLMatcher, vocabulary.tokenizer, text, limits=limits, log_level=0)
        self.first = self._compile()
        """A matcher that has taken nothing, to be copied."""
        self.shortest: int | None = None
        """How many tokens a short text has that keeps the grammar, once that is known."""

    def renew(self, full: LLMatcher) -> None:
        """Begin with a new lexer, if `full` is still the `first` one."""
        if self.first is full:
            self.first = self._compile()


class BoundGrammar(Struct, frozen=True, eq=False):
    """A compiled grammar, and from where on it binds. Any thread may make it; each row of a job follows it on its own.

    Without `trigger` it binds the answer, from its beginning or from the end of its reasoning on, with up to two
    newlines between them, and nothing follows it. With one it binds what follows that text, each time the text comes;
    all else is free. `begun`: how the answer begins, in the prompt. `name` is for debugging.
    """

    name: str
    compiled: CompiledGrammar
    reasoning: ReasoningTokens | None = None
    trigger: bytes = b""
    begun: bytes = b""

    @property
    def vocabulary(self) -> GrammarVocabulary:
        """The tokens of the model."""
        return self.compiled.vocabulary


class _Phase(Enum):
    START = auto()  # nothing has come: the model may open its reasoning
    REASONING = auto()
    FREE = auto()  # the trigger has not come
    BOUND = auto()


class GrammarState:
    """One row's place in its grammar."""

    def __init__(self, grammar: BoundGrammar, generated: Sequence[int] = ()) -> None:
        """Begin; a row that was stopped before goes on after the tokens `generated`."""
        self._grammar = grammar
        self._vocabulary = grammar.vocabulary
        self._answer = _Phase.FREE if grammar.trigger else _Phase.BOUND
        self._renewed = False
        self.due: list[int] = []
        """Tokens to be taken when the next mask is computed."""
        self._taken: list[int] = []  # by the matcher
        self._begin()
        self._tail = b""  # of a free text: a tag may have begun in it
        self._newlines = 0  # so many may still come before the answer
        self._failed = False
        self._forced: list[int] | None = None  # what `forced` returns, where it is known
        self.left: float = math.inf
        """How many tokens may still come."""
        self._ending: tuple[int, ...] = ()  # the last tokens, as many as the end tag of the reasoning has
        reasoning = grammar.reasoning
        self._tracker = _ReasoningTracker(reasoning) if reasoning and reasoning.within else None
        self._state = self._answer
        if reasoning is not None and (reasoning.opened or reasoning.start is not None):
            self._state = _Phase.REASONING if reasoning.opened else _Phase.START
        if grammar.begun:
            self._bind(grammar.begun, after_reasoning=False)
        for token in generated:
            self.take(token)

    @property
    def free(self) -> bool:
        """Whether any token may come next."""
        return self._state is _Phase.FREE or (self._state is not _Phase.BOUND and self._answer is _Phase.FREE)

    @property
    def matcher(self) -> LLMatcher | None:
        """The matcher that computes the next mask; None within the reasoning, and where the row is free."""
        return None if self.free or self._state is _Phase.REASONING else self._matcher

    def ahead(self, proposed: Sequence[int]) -> list["GrammarState"]:
        """Return copies of this state behind 0 and more of these tokens, as far as it may take them; it stays itself.

        What is due is taken first.
        """
        self.forced()  # which the copies then know
        states = [self._copy()]
        for token in proposed:
            if not states[-1]._may_take(token):
                break
            states.append(states[-1]._copy())
            states[-1].take(token)
            states[-1].left -= 1
        return states

    def _copy(self) -> "GrammarState":
        other = copy.copy(self)
        other.due, other._taken = [], list(self._taken)
        other._matcher, other._tracker = self._matcher.deep_copy(), copy.copy(self._tracker)
        return other

    def _may_take(self, token: int) -> bool:
        if forced := self.forced():
            return token == forced[0]
        matcher = self.matcher
        return matcher is None or bool(matcher.validate_tokens([token]))

    def forced(self) -> list[int]:
        """Return the tokens that must come next; none where there are several ways. What is due is taken first.

        A text that must come is cut into tokens as the model's tokenizer does, but for an end that might be part of a
        longer token. Nothing else may come then: so all of it can be proposed, and the model reads its usual tokens.
        """
        self.take_due()
        if self._forced is None:
            self._forced = self._find_forced()
        return self._forced

    def _find_forced(self) -> list[int]:
        # To look ahead may be what has filled the lexer.
        if self._state is not _Phase.BOUND or self._newlines or self._failed or self._renewed:
            return []
        matcher = self._matcher.deep_copy()  # what is asked for here may change it
        text = matcher.compute_ff_bytes()
        tokens = matcher.compute_ff_tokens() if text else []  # it knows of the text only now
        return self._vocabulary.spelling(text, tokens)

    def take_due(self) -> None:
        """Advance by the tokens that are due."""
        while self.due:
            self.take(self.due.pop(0))

    def take(self, token: int) -> None:
        """Advance by a token. `check` raises if the grammar does not allow it."""
        if (reasoning := self._grammar.reasoning) and reasoning.closing:
            self._ending = (*self._ending, token)[-len(reasoning.closing) :]
        if self._tracker:
            self._tracker.take(self._vocabulary.pieces[token])
        if self._state is _Phase.START:
            if self._grammar.reasoning is not None and token == self._grammar.reasoning.start:
                self._state = _Phase.REASONING
                return
            self._state = self._answer
        if self._state is _Phase.BOUND:
            # Known before each token, so that it depends on the text alone, not on where a mask was asked for.
            forced = self._forced if self._forced is not None else self._find_forced()
            self._forced = forced[1:] or None if forced[:1] == [token] else None
            self._consume(token)
        else:
            self._search(self._vocabulary.pieces[token])

    def check(self, words: Words) -> None:
        """Add to the mask of `matcher` what else may come, and remove what can't. Raise GrammarError.

        Within the reasoning the turn can't end: there would be no answer. So the reasoning ends in time.
        """
        vocabulary, reasoning = self._vocabulary, self._grammar.reasoning
        if reasoning and (due := self._must_close(reasoning)) is not None:
            words[:] = mask_of([due], len(vocabulary.pieces))
            return
        if forced := self.forced():
            words[:] = mask_of(forced[:1], len(vocabulary.pieces))
            return
        if self._state is _Phase.REASONING:
            words[:] = vocabulary.unending
            return
        words &= vocabulary.known
        if self._stuck(words):
            self._renew(words)
        more = [token for token, count in vocabulary.newlines.items() if count <= self._newlines]
        if self._state is _Phase.START and reasoning and reasoning.start is not None:
            more.append(reasoning.start)
        if more:
            words |= mask_of(more, len(vocabulary.pieces))

    def _must_close(self, reasoning: ReasoningTokens) -> int | None:
        """Return the next token of the tag that ends the reasoning, where it must end."""
        thinking = self._tracker.open if self._tracker else self._state is _Phase.REASONING
        if not (thinking and reasoning.closing):
            return None
        closing = reasoning.closing
        begun = next((count for count in range(len(closing) - 1, 0, -1) if self._ending[-count:] == closing[:count]), 0)
        return closing[begun] if self.left <= len(closing) - begun + reasoning.needs else None

    def _stuck(self, words: Words) -> bool:
        return self._failed or self._matcher.is_error() or not words.any()

    def _renew(self, words: Words) -> None:
        """Try once with a new lexer: the old one may be full of what other rows have met. Raise GrammarError."""
        reason = self._matcher.get_error().partition("\n")[0] or "no token can follow"
        if reason.startswith("lexer error") and not self._renewed:
            taken, self._renewed = self._taken, True
            self._grammar.compiled.renew(self._first)
            self._begin()
            self._failed = not self._matcher.consume_tokens(taken)
            self._taken = taken
            fill_next_token_bitmask(self._matcher, words[None])
            words &= self._vocabulary.known
        if self._stuck(words):
            raise GrammarError(f"the answer can't continue under its grammar: {reason}")

    def _begin(self) -> None:
        self._first = self._grammar.compiled.first
        self._matcher = self._first.deep_copy()
        self._taken = []

    def _consume(self, token: int) -> None:
        count = self._vocabulary.newlines.get(token)
        if count and count <= self._newlines and not self._matcher.validate_tokens([token]):
            self._newlines -= count
            return
        self._newlines = 0
        self._taken.append(token)
        if not self._matcher.consume_token(token):
            self._failed = True
        elif self._grammar.trigger and self._matcher.is_stopped():
            self._release()

    def _release(self) -> None:
        """From here on the answer is free again."""
        self._state = _Phase.FREE
        self._forced = None
        self._begin()

    def _search(self, data: bytes) -> None:
        """Search more of a free text for what ends it, which may be in the middle of a token."""
        reasoning = self._grammar.reasoning if self._state is _Phase.REASONING else None
        tag = reasoning.end if reasoning else self._grammar.trigger
        before, found, rest = (self._tail + data).partition(tag)
        if not found:
            self._tail = before[-len(tag) :]
            return
        self._tail = b""
        if reasoning and self._answer is _Phase.FREE:
            self._state = _Phase.FREE
            self._search(rest)
        else:
            self._state = _Phase.BOUND
            self._bind(rest, after_reasoning=reasoning is not None)

    def _bind(self, begun: bytes, *, after_reasoning: bool) -> None:
        """Begin with the grammar, and with the bytes of it that came in the token that ended the free text."""
        if after_reasoning:
            self._newlines = 0 if begun else MOST_NEWLINES
            begun = begun.lstrip(b" \r\n")
        self._taken = tokens = self._vocabulary.tokenize(begun)
        if self._matcher.try_consume_tokens(tokens) == len(tokens):
            return
        if self._answer is _Phase.FREE:
            self._release()  # not a call that the grammar has
        else:
            self._failed = True


class _ReasoningTracker:
    """Tells whether a row is within reasoning that is part of its grammar."""

    def __init__(self, reasoning: ReasoningTokens) -> None:
        self.open = False
        self._reasoning = reasoning
        self._buffer: bytes | None = b""  # what may be the beginning of a tag; None: no tag can come any more

    def take(self, data: bytes) -> None:
        if self._buffer is None:
            return
        self._buffer += data
        begin, end = self._reasoning.within, self._reasoning.end
        if not self.open:
            if self._buffer.startswith(begin):
                self.open, self._buffer = True, self._buffer[len(begin) :]
            elif not begin.startswith(self._buffer):
                self._buffer = None
                return
        if self.open:
            self.open = end not in self._buffer
            self._buffer = self._buffer[-len(end) :] if self.open else None


Computing = Future[tuple[mx.array | None, dict[int, GrammarError]]]


class Masks:
    """Computes what rows may draw next, in a thread of its own."""

    def __init__(self, vocab_size: int) -> None:
        self._words = -(-vocab_size // 32)
        self._executor: LLExecutor | None = None
        self._thread = ThreadPoolExecutor(1, "masks")

    def begin(self, states: Sequence[GrammarState | None]) -> Computing:
        """Begin to compute what `of` returns, as an array. Until that is done, nothing else may use the states."""

        def compute() -> tuple[mx.array | None, dict[int, GrammarError]]:
            words, failed = self.of(states)
            # Memory that the device has used is slow for the host: this thread waits for it, beside the launches.
            return None if words is None else mx.array(words), failed

        return self._thread.submit(compute)

    def of(self, states: Sequence[GrammarState | None]) -> tuple[Words | None, dict[int, GrammarError]]:
        """Return the rows' masks, (rows, words), or None where all are free; and errors by the number of the row."""
        for one in filter(None, states):
            one.take_due()
        bound = {row: one for row, one in enumerate(states) if one and not one.free}
        if not bound:
            return None, {}
        words = np.full((len(states), self._words), -1, np.int32)
        matchers = [(one.matcher, row) for row, one in bound.items() if one.matcher]
        if len(matchers) == 1:
            fill_next_token_bitmask(matchers[0][0], words, matchers[0][1])
        elif matchers:
            self._executor = self._executor or LLExecutor()
            fill_next_token_bitmask_par(self._executor, matchers, words)
        failed: dict[int, GrammarError] = {}
        for row, one in bound.items():
            try:
                one.check(words[row])
            except GrammarError as error:
                words[row] = -1
                failed[row] = error
        return words, failed
