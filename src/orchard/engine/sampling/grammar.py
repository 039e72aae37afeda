"""The state of each row in its grammar, and the masks of the tokens that may come next.

llguidance (https://github.com/guidance-ai/llguidance) computes the masks on the CPU while the device runs the pass
whose logits they are for.
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

MAX_NEWLINES = 2
"""The newlines that may come between reasoning and answer, because models write them there."""
_NEWLINES = re.compile(rb"\n{1,2}")
_TOKEN_NAME = b"\xff[%d]"  # how llguidance writes a token that a grammar names by its id; no text has this byte
_MAX_CACHED_TEXTS = 1024
_MAX_CACHED_BYTES = 256
_LEAD = b"\2"  # a character that no token has together with others

Words = np.ndarray[Any, Any]
"""Bits, 32 to an int32, the lowest first: one for each token that is allowed."""


class GrammarError(Exception):
    """A row can't continue under its grammar; the message is a sentence for the caller."""


class ReasoningTokens(Struct, frozen=True):
    """How to recognise the reasoning before an answer; no grammar is enforced on it.

    `opened`: the prompt has begun the reasoning. `start`: the token with which the model may begin it, as the first of
    its answer. `end`: the end tag as text, with any tokens. `within`: the text that begins the reasoning, if the
    grammar itself includes the reasoning.

    `closing`: the end tag's tokens. They are forced once only `needs` tokens are left after them, enough for a short
    answer.
    """

    end: bytes
    opened: bool = False
    start: int | None = None
    within: bytes = b""
    closing: tuple[int, ...] = ()
    needs: int = 0


class GrammarVocabulary:
    """The tokens of a model as grammars see them. Making this takes a third of a second for 150,000 tokens."""

    def __init__(
        self, pieces: Sequence[bytes], special: Sequence[int], eos: Sequence[int], tokenize: Callable[[str], list[int]]
    ) -> None:
        """`pieces`: the bytes of each token, one entry per logit, empty if there is no token. `special`: tokens that
        are not text. `eos`: tokens that end a turn. `tokenize` turns text into tokens."""
        self.pieces = self.tokens = list(pieces)
        self.special_token_ids = list(special)
        self.eos_token_id = eos[0]
        self.bos_token_id = None
        self._tokenize = tokenize
        # A tokenizer takes a tenth of a millisecond.
        self._cached_tokenize = lru_cache(_MAX_CACHED_TEXTS)(self._tokenize_text)
        # The wrapper reads the attributes above except `pieces`, and calls this object to turn bytes into tokens.
        self.tokenizer = LLTokenizer(TokenizerWrapper(self), len(pieces), list(eos))
        self.newlines = {token: len(piece) for token, piece in enumerate(pieces) if _NEWLINES.fullmatch(piece)}
        """The tokens that may come between reasoning and answer, with their numbers of newlines."""
        known = np.array([bool(piece) for piece in pieces])
        self.token_mask = mask_of(np.flatnonzero(known), len(pieces))
        """The mask of all existing tokens: logits are often wider than the tokenizer's vocabulary."""
        self.unending_mask = self.token_mask & ~mask_of(eos, len(pieces))
        """The mask of existing tokens that don't end a turn."""

    def __call__(self, text: bytes) -> list[int]:
        """Turn text into tokens as the model's tokenizer does inside a longer text. Short texts are cached."""
        return self._cached_tokenize(text) if len(text) <= _MAX_CACHED_BYTES else self._tokenize_text(text)

    def _tokenize_text(self, text: bytes) -> list[int]:
        tokens = self._tokenize(text.decode("utf-8", "replace"))
        return tokens if self.text_of_tokens(tokens) == text else self._tokenize_inside_text(text)

    def text_of_tokens(self, tokens: Sequence[int]) -> bytes:
        """Return the text of tokens."""
        return b"".join(self.pieces[token] for token in tokens)

    def spelling_tokens(self, text: bytes, tokens: Sequence[int]) -> list[int]:
        """Return the leading tokens that exist and spell the text, which may name tokens as `_TOKEN_NAME` does."""
        found: list[int] = []
        for token in tokens:
            name = _TOKEN_NAME % token
            spelled = name if text.startswith(name) else self.pieces[token]
            if not (self.pieces[token] and text.startswith(spelled)):
                break
            found.append(token)
            text = text[len(spelled) :]
        return found

    def _tokenize_inside_text(self, text: bytes) -> list[int]:
        """Turn text into tokens for a tokenizer that puts a space before every text (SentencePiece)."""
        tokens = self._tokenize(_LEAD.decode() + text.decode("utf-8", "replace"))
        begin = next((place for place, token in enumerate(tokens) if self.pieces[token].endswith(_LEAD)), len(tokens))
        return tokens[begin + 1 :] if self.text_of_tokens(tokens[begin + 1 :]) == text else self.tokenize_greedily(text)

    def tokenize_greedily(self, text: bytes) -> list[int]:
        """Turn text into tokens greedily, perhaps not as the model's tokenizer does."""
        return self.tokenizer.greedy_tokenize(text.decode("utf-8", "replace"))


def mask_of(tokens: Sequence[int] | Words, vocab_size: int) -> Words:
    """Return the mask, int32 (words,), that allows exactly these tokens."""
    bits = np.zeros(-(-vocab_size // 32) * 32, np.uint8)
    bits[tokens] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


class CompiledGrammar:
    """A compiled grammar. Its matchers share a lexer, which adds states as they advance and can fill up."""

    def __init__(self, vocabulary: GrammarVocabulary, text: str, limits: LLParserLimits | None = None) -> None:
        """`text`: a grammar as `LLMatcher` takes it; the matchers report its errors."""
        self.vocabulary = vocabulary
        self._compile = partial(LLMatcher, vocabulary.tokenizer, text, limits=limits, log_level=0)
        self.first = self._compile()
        """A matcher at the beginning of the grammar, to copy."""
        self.shortest: int | None = None
        """The number of tokens of a short text that matches the grammar, once it is known."""

    def renew(self, full: LLMatcher) -> None:
        """Make a new lexer, if `full` is still the `first` matcher."""
        if self.first is full:
            self.first = self._compile()


class BoundGrammar(Struct, frozen=True, eq=False):
    """A compiled grammar, and where it is enforced. Any thread may make it; each row of a job has its own state in it.

    Without `trigger` it is enforced on the whole answer, or on what follows the reasoning and up to two newlines.
    With one it is enforced after each occurrence of that text; all other text is free. `begun`: the beginning of the
    answer that is in the prompt. `name` is for debugging.
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

    def begin(self, generated: Sequence[int]) -> "GrammarState":
        """Return the state of a row whose answer has begun with the tokens `generated`."""
        return GrammarState(self, generated)


class _Phase(Enum):
    START = auto()  # no token has come: the model may open its reasoning
    REASONING = auto()
    FREE = auto()  # the trigger has not come
    BOUND = auto()  # the grammar is enforced


class GrammarState:
    """One row's place in its grammar."""

    def __init__(self, grammar: BoundGrammar, generated: Sequence[int] = ()) -> None:
        """Begin; a row that was stopped before continues after the tokens `generated`."""
        self._grammar = grammar
        self._vocabulary = grammar.vocabulary
        self._answer = _Phase.FREE if grammar.trigger else _Phase.BOUND
        self._has_renewed = False
        self.due: list[int] = []
        """Tokens to take before the next mask is computed."""
        self._matched_tokens: list[int] = []  # by the matcher
        self._copy_matcher()
        self._tail = b""  # the end of a free text, in which a tag may begin
        self._newlines = 0  # how many may still come before the answer
        self._has_failed = False
        self._forced_tokens: list[int] | None = None  # the result of `forced_tokens`, if it is known
        self.tokens_left: float = math.inf
        """How many more tokens the answer may have."""
        self._ending: tuple[int, ...] = ()  # the last tokens, as many as in the reasoning's end tag
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
    def is_free(self) -> bool:
        """Whether any token may come next."""
        return self._state is _Phase.FREE or (self._state is not _Phase.BOUND and self._answer is _Phase.FREE)

    @property
    def matcher(self) -> LLMatcher | None:
        """The matcher that computes the next mask; None in the reasoning and in free text."""
        return None if self.is_free or self._state is _Phase.REASONING else self._matcher

    def states_ahead(self, proposed: Sequence[int]) -> list["GrammarState"]:
        """Return copies of this state after 0, 1, 2 … of the proposed tokens, up to the first that is not allowed.

        Take the due tokens first; otherwise this state doesn't change.
        """
        self.forced_tokens()  # so that the copies have the result
        states = [self._copy()]
        for token in proposed:
            if not states[-1]._may_take(token):
                break
            states.append(states[-1]._copy())
            states[-1].take(token)
            states[-1].tokens_left -= 1
        return states

    def _copy(self) -> "GrammarState":
        other = copy.copy(self)
        other.due, other._matched_tokens = [], list(self._matched_tokens)
        other._matcher, other._tracker = self._matcher.deep_copy(), copy.copy(self._tracker)
        return other

    def _may_take(self, token: int) -> bool:
        if forced := self.forced_tokens():
            return token == forced[0]
        matcher = self.matcher
        return matcher is None or bool(matcher.validate_tokens([token]))

    def forced_tokens(self) -> list[int]:
        """Return the tokens that must come next, if only one text can; else none. Take the due tokens first.

        A forced text is tokenised as the model's tokenizer does, without an end that may be part of a longer token. No
        other tokens are allowed then: so all of them can be proposed, and the model reads its usual tokens.
        """
        self.take_due()
        if self._forced_tokens is None:
            self._forced_tokens = self._find_forced()
        return self._forced_tokens

    def _find_forced(self) -> list[int]:
        # Don't look ahead again after a renewal: that may be what filled the lexer.
        if self._state is not _Phase.BOUND or self._newlines or self._has_failed or self._has_renewed:
            return []
        matcher = self._matcher.deep_copy()  # these calls may change it
        text = matcher.compute_ff_bytes()
        tokens = matcher.compute_ff_tokens() if text else []  # this needs the call before
        return self._vocabulary.spelling_tokens(text, tokens)

    def take_due(self) -> None:
        """Advance by the due tokens."""
        while self.due:
            self.take(self.due.pop(0))

    def take(self, token: int) -> None:
        """Advance by a token. If the grammar doesn't allow it, `check` raises later."""
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
            # Compute it before each token, so that it depends only on the text, not on when masks are computed.
            forced = self._forced_tokens if self._forced_tokens is not None else self._find_forced()
            self._forced_tokens = forced[1:] or None if forced[:1] == [token] else None
            self._consume(token)
        else:
            self._search(self._vocabulary.pieces[token])

    def check(self, words: Words) -> None:
        """Complete the mask `words`, which `matcher` has filled. Raise GrammarError if no token is allowed.

        In the reasoning the turn can't end, since there would be no answer; the reasoning must end in time for one.
        """
        vocabulary, reasoning = self._vocabulary, self._grammar.reasoning
        if reasoning and (due := self._must_close(reasoning)) is not None:
            words[:] = mask_of([due], len(vocabulary.pieces))
            return
        if forced := self.forced_tokens():
            words[:] = mask_of(forced[:1], len(vocabulary.pieces))
            return
        if self._state is _Phase.REASONING:
            words[:] = vocabulary.unending_mask
            return
        words &= vocabulary.token_mask
        if self._is_stuck(words):
            self._renew(words)
        more = [token for token, count in vocabulary.newlines.items() if count <= self._newlines]
        if self._state is _Phase.START and reasoning and reasoning.start is not None:
            more.append(reasoning.start)
        if more:
            words |= mask_of(more, len(vocabulary.pieces))

    def _must_close(self, reasoning: ReasoningTokens) -> int | None:
        """Return the next token of the tag that ends the reasoning, if the reasoning must end now; else None."""
        thinking = self._tracker.open if self._tracker else self._state is _Phase.REASONING
        if not (thinking and reasoning.closing):
            return None
        closing = reasoning.closing
        begun = next((count for count in range(len(closing) - 1, 0, -1) if self._ending[-count:] == closing[:count]), 0)
        return closing[begun] if self.tokens_left <= len(closing) - begun + reasoning.needs else None

    def _is_stuck(self, words: Words) -> bool:
        return self._has_failed or self._matcher.is_error() or not words.any()

    def _renew(self, words: Words) -> None:
        """Retry once with a new lexer: other rows may have filled the old one. Raise GrammarError if that fails."""
        reason = self._matcher.get_error().partition("\n")[0] or "no token can follow"
        if reason.startswith("lexer error") and not self._has_renewed:
            taken, self._has_renewed = self._matched_tokens, True
            self._grammar.compiled.renew(self._first)
            self._copy_matcher()
            self._has_failed = not self._matcher.consume_tokens(taken)
            self._matched_tokens = taken
            fill_next_token_bitmask(self._matcher, words[None])
            words &= self._vocabulary.token_mask
        if self._is_stuck(words):
            raise GrammarError(f"the answer can't continue under its grammar: {reason}")

    def _copy_matcher(self) -> None:
        self._first = self._grammar.compiled.first
        self._matcher = self._first.deep_copy()
        self._matched_tokens = []

    def _consume(self, token: int) -> None:
        count = self._vocabulary.newlines.get(token)
        if count and count <= self._newlines and not self._matcher.validate_tokens([token]):
            self._newlines -= count
            return
        self._newlines = 0
        self._matched_tokens.append(token)
        if not self._matcher.consume_token(token):
            self._has_failed = True
        elif self._grammar.trigger and self._matcher.is_stopped():
            self._release()

    def _release(self) -> None:
        """Continue with free text, until the next trigger."""
        self._state = _Phase.FREE
        self._forced_tokens = None
        self._copy_matcher()

    def _search(self, data: bytes) -> None:
        """Search free text for the tag or the trigger that ends it, perhaps in the middle of a token."""
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
        """Begin to enforce the grammar; `begun`: the bytes after the end of the free text in its last token."""
        if after_reasoning:
            self._newlines = 0 if begun else MAX_NEWLINES
            begun = begun.lstrip(b" \r\n")
        self._matched_tokens = tokens = self._vocabulary.tokenize_greedily(begun)
        if self._matcher.try_consume_tokens(tokens) == len(tokens):
            return
        if self._answer is _Phase.FREE:
            self._release()  # the grammar doesn't have this call
        else:
            self._has_failed = True


class _ReasoningTracker:
    """Tells whether a row is in reasoning that is part of its grammar."""

    def __init__(self, reasoning: ReasoningTokens) -> None:
        self.open = False
        self._reasoning = reasoning
        self._buffer: bytes | None = b""  # may be the beginning of a tag; None: no tag can come any more

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


MaskFuture = Future[tuple[mx.array | None, dict[int, GrammarError]]]


class Masks:
    """Computes masks of the tokens that rows may draw next, in its own thread."""

    def __init__(self, vocab_size: int) -> None:
        self._words = -(-vocab_size // 32)
        self._executor: LLExecutor | None = None
        self._thread = ThreadPoolExecutor(1, "masks")

    def begin(self, states: Sequence[GrammarState | None]) -> MaskFuture:
        """Begin to `compute` masks, as an MLX array. Until that is done, nothing else may use the states."""

        def compute_array() -> tuple[mx.array | None, dict[int, GrammarError]]:
            words, failed = self.compute(states)
            # The host is slow to write memory that the device has used: let this thread wait, not the engine's.
            return None if words is None else mx.array(words), failed

        return self._thread.submit(compute_array)

    def compute(self, states: Sequence[GrammarState | None]) -> tuple[Words | None, dict[int, GrammarError]]:
        """Return the rows' masks, (rows, words), or None if no row has one; and errors by the number of the row."""
        for one in filter(None, states):
            one.take_due()
        bound = {row: one for row, one in enumerate(states) if one and not one.is_free}
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
