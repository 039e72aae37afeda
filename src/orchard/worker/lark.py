"""Grammars in llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md), put together."""

import json
import re
from collections.abc import Mapping, Sequence

from orchard.formats.shapes import CallShape, CallsShape, literal, text_up_to

# Text that a grammar forces is not cut into tokens by llguidance: the model may write it with any, as everything else.
_HEAD = '%llguidance {"no_forcing": true}\n'
_ANY = "/(?s:.*)/"

FREE = r"free: | /[^\s\[{](?s:.*)/" + "\n"
"""A rule called `free`: text that does not begin like a call without tags."""


class Tags:
    """The texts that are special tokens: as such they are no text to a grammar, and `<[id]>` stands for them."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        self._tokens = dict(tokens)
        longest_first = sorted(map(re.escape, tokens), key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(longest_first)})") if tokens else None

    def literal(self, text: str) -> str:
        """Give the expression for a text; "" for none."""
        return " ".join(self._symbol(part) for part in self._parts(text))

    def in_body(self, body: str, tags: Sequence[str]) -> str:
        """Put tokens in the place of the tags that stand in an expression, and of what ends with one of them."""
        for tag in tags:
            if tag in self._tokens:
                symbol = self._symbol(tag)
                body = body.replace(text_up_to(tag), f"{_ANY} {symbol}").replace(literal(tag), symbol)
        return body

    def up_to(self, text: str) -> str:
        """Give rules called `up_to`: any text, and then this one."""
        first, *rest = self._parts(text)
        if first in self._tokens:
            return f"up_to: {_ANY} {self.literal(text)}\n"
        return f"up_to: up_to_text {' '.join(map(self._symbol, rest))}\nup_to_text[lazy]: {_ANY} {json.dumps(first)}\n"

    def _parts(self, text: str) -> list[str]:
        return [part for part in (self._pattern.split(text) if self._pattern else [text]) if part]

    def _symbol(self, part: str) -> str:
        return f"<[{self._tokens[part]}]>" if part in self._tokens else json.dumps(part, ensure_ascii=False)


def whole(answer: str, rules: str = "", reasoning: tuple[str, str] | None = None, tags: Tags | None = None) -> str:
    """Give a grammar: an expression and the rules that it uses.

    `reasoning`: the texts that begin and end what may come before it, and `tags` of the model.
    """
    start = answer
    if reasoning and tags:
        start = f'({tags.literal(reasoning[0])} up_to "\\n"? "\\n"?)? ({answer})'
        rules += tags.up_to(reasoning[1])
    return f"{_HEAD}start: {start}\n{rules}"


def choice(texts: Sequence[str]) -> str:
    """Give the expression for one of some texts."""
    return " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


def calls(shape: CallsShape, tags: Tags, *, several: bool) -> str:
    """Give rules called `calls`: what a model writes for one or more calls."""
    more = f" ({_join(tags.literal(shape.separator), 'call')})*" if several else ""
    rules = [f"calls: {_join(tags.literal(shape.prefix), 'call')}{more} {tags.literal(shape.suffix)}"]
    rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(shape.calls))))
    for number, call in enumerate(shape.calls):
        rules.append(f"call_{number}: {_join(tags.literal(call.begin), *_body(call, tags))}")
    return "\n".join(rules) + "\n"


def triggered(shape: CallsShape, tags: Tags, *, several: bool) -> str | None:
    """Give rules called `calls`, without the trigger; None where the calls don't begin with it.

    Where nothing holds several calls together, each has a trigger of its own.
    """
    begins = [shape.prefix + call.begin for call in shape.calls]
    if not all(begin.startswith(shape.trigger) for begin in begins):
        return None
    held = shape.prefix or shape.suffix
    more = f" ({_join(tags.literal(shape.separator), 'call')})*" if held and several else ""
    rules = [f"calls: first{more} {tags.literal(shape.suffix)}"]
    rules.append("first: " + " | ".join(f"first_{number}" for number in range(len(shape.calls))))
    rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(shape.calls))))
    for number, (call, begin) in enumerate(zip(shape.calls, begins, strict=True)):
        rules.append(f"first_{number}: {_join(tags.literal(begin.removeprefix(shape.trigger)), *_body(call, tags))}")
        rules.append(f"call_{number}: {_join(tags.literal(call.begin), *_body(call, tags))}")
    return "\n".join(rules) + "\n"


def _body(call: CallShape, tags: Tags) -> tuple[str, str]:
    return f"({tags.in_body(call.body, call.tags)})", tags.literal(call.end)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)
