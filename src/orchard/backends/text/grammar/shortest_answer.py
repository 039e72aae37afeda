"""Finds a short answer that matches a grammar: tries texts letter by letter, the short ones first.

A compiled grammar doesn't say how short its texts may be. The answer that is found matches it, and is usually one of
the shortest.
"""

import heapq
import itertools
import string
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits
from llguidance.numpy import fill_next_token_bitmask
from msgspec import Struct

from orchard.engine.sampling.grammar import BoundGrammar, CompiledGrammar, GrammarState, GrammarVocabulary, Words

_LONGEST_TOKEN = 64  # bytes
_MOST_STEPS = 2048  # of the first search
_MOST_SEARCH_STEPS = 600  # of the search for shorter answers
_REPEATED_LETTERS = 64  # tell a place to which the text comes again
_FREE_TEXT_LETTERS = 40  # if more letters than these may follow, the text is free
_FEW_LETTERS = 26  # if more letters than these may follow, one stands for all
_DEPTH_COST = 3  # characters that an open bracket or string costs at least, with its content
_CLOSING_SIGNS, _QUOTE = b'}])",:/', b'"'
_FEW_SIGNS = 4  # if more signs than these may follow, none is tried
_LETTER_KINDS = (b"0123456789", string.ascii_letters.encode())
_SPACE, _COMMA = b"\n \r\t", b","


class _Place(Struct, frozen=True):
    """The beginning of a text that matches the grammar: its last tokens, the place before, and its depth in JSON."""

    matcher: LLMatcher
    tokens: Sequence[int] = ()
    parent: "_Place | None" = None
    length: int = 0
    depth: int = 0
    in_string: bool = False
    after_backslash: bool = False


class ShortestAnswers:
    """Finds short answers for the grammars of one model. Only one thread may use it."""

    def __init__(self, alphabet: GrammarVocabulary, special_tokens: Sequence[int], eos: Sequence[int]) -> None:
        """Search with these tokens; `special_tokens`: those that are not text; `eos`: those that end a turn."""
        self._alphabet = alphabet
        self._special_tokens = [token for token in special_tokens if token not in eos]
        unspellable = {*special_tokens, *eos}
        # Masks of few tokens are cheap; the ids stay the same.
        pieces = [
            piece if len(piece) == 1 or token in unspellable else b"" for token, piece in enumerate(alphabet.pieces)
        ]
        self._letters = GrammarVocabulary(pieces, sorted(unspellable), list(eos), lambda text: [])
        self._letter_token = {
            piece: token for token, piece in enumerate(pieces) if len(piece) == 1 and token not in unspellable
        }
        self._letter_bytes: Words = np.array([piece[0] for piece in self._letter_token], np.uint8)
        self._letter_ids: Words = np.array([*self._letter_token.values()], np.int64)

    def find(self, text: str, limits: LLParserLimits, ends: Sequence[str]) -> list[int] | None:
        """Return the tokens of a short answer for a grammar as `LLMatcher` takes it; None if none is found soon.

        `ends`: texts that end free text in the grammar.
        """
        start = _Place(CompiledGrammar(self._letters, text, limits).first)
        spellings = ([self._letter_token.get(bytes([letter])) for letter in end.encode()] for end in ends if end)
        hints: list[Any] = [letters for letters in spellings if None not in letters]
        best = self._greedy_search(start, hints) or self._greedy_search(start, hints, spaces=True)
        if shorter := self._search_shorter(start, hints, best.length if best else _MOST_STEPS):
            best = shorter
        if best is None:
            return None
        tokens: list[int] = []
        while best:
            tokens, best = [*best.tokens, *tokens], best.parent
        return self._retokenize(tokens, CompiledGrammar(self._alphabet, text, limits))

    def _retokenize(self, letters: Sequence[int], grammar: CompiledGrammar) -> list[int]:
        """Return the model's tokens for an answer; if the grammar allows several, those of the tokenizer."""
        state = GrammarState(BoundGrammar("", grammar))
        answer: list[int] = []

        def write(tokens: Sequence[int]) -> None:
            for token in tokens:
                state.take(token)
            answer.extend(tokens)

        for special, group in itertools.groupby(letters, lambda token: token in self._special_tokens):
            tokens = list(group)
            if special:
                write(tokens)
                continue
            rest = self._letters.text_of_tokens(tokens)
            while rest:
                tokens = [*itertools.takewhile(lambda token: token not in self._special_tokens, state.forced_tokens())]
                tokens = tokens or self._alphabet.tokenizer.tokenize_bytes(rest[:_LONGEST_TOKEN])[:1]
                rest = rest[len(self._alphabet.text_of_tokens(tokens)) :]
                write(tokens)
        return answer

    def _greedy_search(self, place: _Place, hints: list[list[int]], *, spaces: bool = False) -> _Place | None:
        """Take what looks shortest at each step, and what has not followed the same letters before.

        So items that may come again don't come for ever. With `spaces`, take white space rather than a comma.
        """
        letters: deque[int] = deque(maxlen=_REPEATED_LETTERS)
        followed: set[tuple[int, ...]] = set()
        for _ in range(_MOST_STEPS):
            if place.matcher.is_accepting():
                return place
            candidates = self._candidates(place, hints, spaces=spaces)
            candidates.sort(key=lambda tokens: (*letters, *tokens) in followed)
            after = next(filter(None, (self._advance(place, tokens) for tokens in candidates)), None)
            if after is None:
                return None
            followed.add((*letters, *after.tokens))
            letters.extend(after.tokens)
            place = after
        return None

    def _search_shorter(self, start: _Place, hints: list[list[int]], most_letters: int) -> _Place | None:
        """Search for an answer of fewer letters than `most_letters`."""
        best: _Place | None = None
        number = itertools.count()
        waiting = [(0, next(number), start)]
        for _ in range(_MOST_SEARCH_STEPS):
            if not waiting:
                break
            *_, place = heapq.heappop(waiting)
            if place.length >= most_letters:
                continue
            if place.matcher.is_accepting():
                best, most_letters = place, place.length
                continue
            for tokens in self._candidates(place, hints):
                if after := self._advance(place, tokens):
                    heapq.heappush(waiting, (after.length + _DEPTH_COST * after.depth, next(number), after))
        return best

    def _candidates(self, place: _Place, hints: list[list[int]], *, spaces: bool = False) -> list[list[int]]:
        """Return the tokens to try next, first those that look shortest."""
        words = np.zeros((1, -(-len(self._alphabet.pieces) // 32)), np.int32)
        fill_next_token_bitmask(place.matcher, words)
        special = [[token] for token in self._special_tokens if words[0, token // 32] >> (token % 32) & 1]
        allowed_letters = bytes(
            self._letter_bytes[(words[0, self._letter_ids // 32] >> (self._letter_ids % 32) & 1).astype(bool)]
        )
        kinds = [bytes(sorted(set(allowed_letters) & set(kind))) for kind in _LETTER_KINDS]
        digits, letters = kinds
        if len(allowed_letters) > _FREE_TEXT_LETTERS:
            signs = bytes(letter for letter in allowed_letters if letter < 128 and not chr(letter).isalnum())
            ends = self._letter_tokens(_QUOTE if _QUOTE in signs else signs if len(signs) <= _FEW_SIGNS else b"")
            more = self._letter_tokens((letters or digits or allowed_letters)[:1])
            return [*ends, *special, *hints, *more] if place.in_string else [*special, *hints, *ends, *more]
        closing = bytes(letter for letter in _CLOSING_SIGNS if letter in allowed_letters)
        others = bytes(set(allowed_letters) - {*closing, *digits, *letters, *_SPACE})
        tries = closing + digits[:1] + (letters[:1] if len(letters) > _FEW_LETTERS else letters) + others
        if spaces and tries == _COMMA:  # an item must follow the comma, but white space may lead to the end
            tries = bytes(letter for letter in _SPACE if letter in allowed_letters) + tries
        return [*special, *self._letter_tokens(tries or allowed_letters)]

    def _letter_tokens(self, letters: bytes) -> list[list[int]]:
        return [[self._letter_token[bytes([letter])]] for letter in letters]

    def _advance(self, place: _Place, tokens: Sequence[int]) -> _Place | None:
        matcher = place.matcher.deep_copy()
        if matcher.try_consume_tokens(list(tokens)) < len(tokens):
            return None
        depth, in_string, after_backslash = place.depth, place.in_string, place.after_backslash
        for letter in b"".join(self._letters.pieces[token] for token in tokens if token not in self._special_tokens):
            if letter in _QUOTE and not after_backslash:
                in_string = not in_string
                depth += 1 if in_string else -1
            elif not in_string:
                depth += (letter in b"{[") - (letter in b"}]")
            after_backslash = in_string and letter in b"\\" and not after_backslash
        return _Place(matcher, tokens, place, place.length + len(tokens), max(depth, 0), in_string, after_backslash)
