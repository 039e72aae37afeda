"""Grammars for the tiny models, made without a worker."""

import functools
import json
from typing import Any

from llguidance import LLMatcher, LLParserLimits

from orchard.backends.text.output import Vocabulary
from orchard.engine.sampling.grammar import BoundGrammar, CompiledGrammar, GrammarVocabulary, ReasoningTokens
from tests.support.tiny_models import network

HEAD = '%llguidance {"no_forcing": true}\n'
"""How the grammars begin that the worker writes."""
THINK_START, THINK_END, CALL = 315, 316, 317
SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "name": {"type": "string", "maxLength": 5},
        "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["count", "name", "list"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}


@functools.cache
def vocabulary() -> Vocabulary:
    return Vocabulary(network("qwen3").tokenizer)


@functools.cache
def alphabet() -> GrammarVocabulary:
    model = network("qwen3")
    pieces = [vocabulary().bytes_of(token) for token in range(model.vocab_size)]
    special = [token for token, piece in enumerate(pieces) if piece.startswith(b"<") and piece.endswith(b">")]
    return GrammarVocabulary(pieces, special, sorted(model.eos_token_ids), model.tokenizer.encode)


def lark(
    text: str,
    reasoning: ReasoningTokens | None = None,
    trigger: bytes = b"",
    letters: GrammarVocabulary | None = None,
    **limits: Any,
) -> BoundGrammar:
    """`limits` are those of LLParserLimits."""
    rules = CompiledGrammar(letters or alphabet(), LLMatcher.grammar_from_lark(text), LLParserLimits(**limits))
    assert not rules.first.get_error()
    return BoundGrammar(text, rules, reasoning, trigger)


def schema(of: Any = SCHEMA, reasoning: ReasoningTokens | None = None) -> BoundGrammar:
    return lark(f"start: %json {json.dumps(of)}", reasoning)


def text(tokens: list[int]) -> str:
    """Give the text of an answer, without the token that ends it."""
    eos = network("qwen3").eos_token_ids
    return b"".join(alphabet().pieces[token] for token in tokens if token not in eos).decode("utf-8", "replace")
