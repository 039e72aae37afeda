"""A model's special tokens: those that end a message, and those that open and end the reasoning."""

import inspect
import sys
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from orchard.formats.registry import Family

_BLANK_TEXTS = ("\n", "\n\n", " ")


class ThinkingTags(Struct, frozen=True):
    """The tags of a model's reasoning, the first token of the tag that opens it, and the one token that ends it.

    `blank`: tokens that may come before the reasoning.
    """

    start: str
    end: str
    start_id: int
    end_id: int
    blank: tuple[int, ...]


def template_source(tokenizer: Any) -> str:
    """Return the source of a model's chat template, which may be Python code; without one, the tag that opens the
    reasoning."""
    if python := tokenizer._chat_template:
        return inspect.getsource(sys.modules[python.__module__])
    template = tokenizer.chat_template
    if isinstance(template, dict):
        return "\n".join(template.values())
    return template or tokenizer.think_start or ""


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the ids of the tokens that a grammar must not treat as text, by their text.

    `tokenizer` is mlx-lm's wrapper.
    """
    added_tokens, template = tokenizer.added_tokens_decoder, template_source(tokenizer)
    # The same holds for added tokens that are tags in the template, even if they are not marked as special.
    return {
        token.content: id_
        for id_, token in added_tokens.items()
        if token.special or (token.content.startswith(("<", "[")) and token.content in template)
    }


def thinking_tags(tokenizer: Any, family: Family) -> ThinkingTags | None:
    """Return the tags of a model's reasoning, if its format recognises them and one token ends it; else None.

    A model whose template lacks the tags was not made to reason, even if its tokenizer has them.
    """
    start: tuple[int, ...] = tokenizer.think_start_tokens or ()
    end: tuple[int, ...] = tokenizer.think_end_tokens or ()
    in_template = tokenizer.think_start and tokenizer.think_start in template_source(tokenizer)
    if not in_template or family.reasoning_tags != (tokenizer.think_start, tokenizer.think_end):
        return None
    # Gemma's opening tag has several tokens, the first of which occurs nowhere else.
    if len(end) != 1 or not (len(start) == 1 or start[0] in tokenizer.added_tokens_decoder):
        return None
    cut = (tokenizer.encode(text, add_special_tokens=False) for text in _BLANK_TEXTS)
    blank = tuple(tokens[0] for tokens in cut if len(tokens) == 1)
    return ThinkingTags(tokenizer.think_start, tokenizer.think_end, start[0], end[0], blank)


def message_ends(tokenizer: Any, gaps: Sequence[str]) -> dict[int, str]:
    """Return the tokens with which messages end, as texts by their ids; none if the chat template writes no such token.

    They are the first added tokens of the `gaps` between messages. If nothing ends a message, it is the token that
    begins the next one.
    """
    added = {id_: token.content for id_, token in tokenizer.added_tokens_decoder.items()}
    tags = {id_ for id_, content in added.items() if content.startswith("</")} - set(tokenizer.eos_token_ids)
    ends: dict[int, str] = {}
    for gap in gaps:
        ids = tokenizer.encode(gap, add_special_tokens=False)
        if (end := next((id_ for id_ in ids if id_ in added and id_ not in tags), None)) is not None:
            ends[end] = added[end]
    return ends
