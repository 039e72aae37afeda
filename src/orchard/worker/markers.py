"""The tokens of a model that mean more than their text: what opens a turn, what opens and ends the reasoning."""

import functools
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from orchard.formats import Family

_PROBE = "Hi"


class Thinking(Struct, frozen=True):
    """The tags of a model's reasoning, each a single token."""

    start: str
    end: str
    end_id: int


def template_source(tokenizer: Any) -> str:
    """Give the source of a model's chat template; of one that is Python code, the tag that opens its reasoning."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        return "\n".join(template.values())
    return template or tokenizer.think_start or ""


def added_tokens(tokenizer: Any) -> frozenset[str]:
    """Give the texts of the tokens that were added to a tokenizer's vocabulary: tags are among them."""
    return frozenset(token.content for token in tokenizer.added_tokens_decoder.values())


def thinking(tokenizer: Any, family: Family) -> Thinking | None:
    """Give the tags of a model whose reasoning its format tells apart; None where it has none or of several tokens.

    A template that doesn't know them is that of a model which was not made to think, whatever its tokenizer has.
    """
    start: tuple[int, ...] = tokenizer.think_start_tokens or ()
    end: tuple[int, ...] = tokenizer.think_end_tokens or ()
    known = tokenizer.think_start and tokenizer.think_start in template_source(tokenizer)
    if not known or family.reasoning_tags != (tokenizer.think_start, tokenizer.think_end):
        return None
    if len(start) != 1 or len(end) != 1:
        return None
    return Thinking(tokenizer.think_start, tokenizer.think_end, end[0])


def xtc_keep(tokenizer: Any) -> tuple[int, ...]:
    """Give the tokens that XTC leaves alone, as mlx-lm does: those that end a line or a turn."""
    return (*tokenizer.encode("\n", add_special_tokens=False), *sorted(tokenizer.eos_token_ids))


def turn_opener(tokenizer: Any, render: Callable[..., str]) -> int | None:
    """Find the token with which a message begins; None where the chat template has none of that kind.

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
