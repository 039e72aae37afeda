"""The tokens of a model that mean more than their text: what opens a turn, what opens and ends the reasoning."""

import functools
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from orchard.formats.registry import Family

_PROBE = "Hi"
_BLANK = ("\n", "\n\n", " ")


class ThinkingTags(Struct, frozen=True):
    """The tags of a model's reasoning, and their tokens: the first of what opens it, and the only one of what ends it.

    `blank`: tokens that may stand before it.
    """

    start: str
    end: str
    start_id: int
    end_id: int
    blank: tuple[int, ...]


def template_source(tokenizer: Any) -> str:
    """Return the source of a model's chat template; of one that is Python code, the tag that opens its reasoning."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        return "\n".join(template.values())
    return template or tokenizer.think_start or ""


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the ids of the tokens that are no text to a grammar, by their text; `tokenizer` is mlx-lm's wrapper."""
    added, template = tokenizer.added_tokens_decoder, template_source(tokenizer)
    # A tag that is no special token, but a token of its own that the template writes, is no text either.
    return {
        token.content: id_
        for id_, token in added.items()
        if token.special or (token.content.startswith(("<", "[")) and token.content in template)
    }


def thinking(tokenizer: Any, family: Family) -> ThinkingTags | None:
    """Return the tags of a model's reasoning, if its format recognises them and one token ends it; else None.

    A template that doesn't know them is that of a model which was not made to think, whatever its tokenizer has.
    """
    start: tuple[int, ...] = tokenizer.think_start_tokens or ()
    end: tuple[int, ...] = tokenizer.think_end_tokens or ()
    known = tokenizer.think_start and tokenizer.think_start in template_source(tokenizer)
    if not known or family.reasoning_tags != (tokenizer.think_start, tokenizer.think_end):
        return None
    # Gemma's tag has several tokens, the first of which stands nowhere else.
    if len(end) != 1 or not (len(start) == 1 or start[0] in tokenizer.added_tokens_decoder):
        return None
    cut = (tokenizer.encode(text, add_special_tokens=False) for text in _BLANK)
    blank = tuple(tokens[0] for tokens in cut if len(tokens) == 1)
    return ThinkingTags(tokenizer.think_start, tokenizer.think_end, start[0], end[0], blank)


def turn_opener(tokenizer: Any, render: Callable[..., str]) -> int | None:
    """Find the token with which a message begins; None if the chat template has no such token.

    It is an added token that opens the prompt of an answer and stands before a user's message as well.
    `render` takes messages as templates expect them, and `add_generation_prompt`.
    """
    conversation = [{"role": "user", "content": _PROBE}]
    try:
        alone, opened = (render(conversation, add_generation_prompt=wanted) for wanted in (False, True))
    except Exception:  # a template may refuse a lone message
        return None
    encode = functools.partial(tokenizer.encode, add_special_tokens=False)
    first: int | None = next(iter(encode(opened.removeprefix(alone))), None)
    if not opened.startswith(alone) or first not in tokenizer.added_tokens_decoder:
        return None
    return first if first in encode(alone.partition(_PROBE)[0]) else None
