"""A model's special tokens: those that open a turn, and those that open and end the reasoning."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from orchard.formats.registry import Family

_PROBE_TEXT = "Hi"
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


def turn_opener(tokenizer: Any, render: Callable[..., str]) -> int | None:
    """Return the token with which each message begins; None if the chat template has no such token.

    It is an added token that begins the generation prompt and also comes before a user's message.
    `render` takes messages as templates expect them, and `add_generation_prompt`.
    """
    conversation = [{"role": "user", "content": _PROBE_TEXT}]
    try:
        conversation_text, prompt = (render(conversation, add_generation_prompt=opens) for opens in (False, True))
    except Exception:  # a template may reject a single message
        return None
    encode = functools.partial(tokenizer.encode, add_special_tokens=False)
    first: int | None = next(iter(encode(prompt.removeprefix(conversation_text))), None)
    if not prompt.startswith(conversation_text) or first not in tokenizer.added_tokens_decoder:
        return None
    return first if first in encode(conversation_text.partition(_PROBE_TEXT)[0]) else None
