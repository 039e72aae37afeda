"""What calls look like in a model's own format, for a grammar that makes the model write them."""

import json
from typing import Any

from msgspec import Struct

from orchard.core.request import Tool

_SYNTAX = set("/\\.+*?()|[]{}^$&~#-")  # what means more than itself in a regular expression


class CallShape(Struct, frozen=True):
    """One tool's call: the literal texts around its arguments, and `body`, an expression of llguidance's Lark.

    https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md

    `tags`: texts in `body` that the model may have single tokens for. A grammar's text never holds such a token, so
    each stands alone, as `literal` or at the end of `text_up_to`: `<[id]>` must take its place.
    """

    name: str
    begin: str
    body: str
    end: str
    tags: tuple[str, ...] = ()


class CallsShape(Struct, frozen=True):
    """An answer's calls: `prefix`, one or more of `calls` with `separator` between them, `suffix`; all literal texts.

    `trigger` is the text that opens a call wherever it stands in an answer; "" where a call has none of its own.
    """

    trigger: str
    prefix: str
    calls: tuple[CallShape, ...]
    separator: str
    suffix: str


def json_body(schema: Any) -> str:
    """Give the expression for JSON that keeps a schema."""
    return f"%json {json.dumps(schema)}"


def parameters(tool: Tool) -> dict[str, Any]:
    """Give the schema of a tool's arguments: always that of an object."""
    return {"type": "object", **(tool.parameters or {"properties": {}})}


def literal(text: str) -> str:
    """Give the expression for a text as it is; for none at all too."""
    return json.dumps(text, ensure_ascii=False)


def text_up_to(tag: str) -> str:
    """Give the expression for any text, up to a tag that it doesn't have and over it.

    One expression for both: where a text ends can't be told before the tag is there. `tag` may have newlines around it.
    """
    rest = tag.strip().removeprefix("<")
    other = ""
    for place, char in reversed(list(enumerate(rest))):
        following = f"|{_escaped(char)}{other}" if place < len(rest) - 1 else ""
        other = f"(?:[^<{_escaped(char)}][^<]*{following})?"
    return f"/[^<]*(?:<{other})*{''.join(map(_escaped, tag))}/"


def _escaped(char: str) -> str:
    if char == "\n":
        return "\\n"
    return f"\\{char}" if char in _SYNTAX else char
