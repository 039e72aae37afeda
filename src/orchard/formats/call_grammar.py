"""What calls look like in a model's own format, for a grammar that makes the model write them."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from orchard.core.tasks.generate import Tool

_DIRECTIVE = re.compile(r"%(json|text)\s+(?=\{)")
DEFINITIONS = ("$defs", "definitions")
"""The keys under which a schema has parts that it refers to."""


class CallShape(Struct, frozen=True):
    """One tool's call: the literal texts around its arguments, and `body`, an expression of llguidance's Lark.

    https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md

    In `body` there may also be `%text`, see `text_up_to`.

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

    `trigger` is the text that opens a call wherever it stands in an answer; "" where a call has none of its own. What a
    call begins with may have something before it.
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


def text_up_to(tag: str, schema: Any = True, types: Sequence[str] = ("string",)) -> str:
    """Give the expression for a text, up to a tag that it doesn't have and over it: `%text`, an object behind it.

    The text is a value that keeps `schema`: a string as it is, all else as JSON. `types`: what is read in it, if it
    may be that; what can't, is a string. One expression for both: where a text ends can't be told before the tag is
    there. `tag` may have newlines around it; "": the text itself shows where it ends.
    """
    return f"%text {json.dumps({'end': tag, 'schema': schema, 'types': sorted(types)})}"


def parts(expression: str) -> Iterator[tuple[str, Any]]:
    """Take an expression apart: ("json", schema), ("text", what text_up_to says), and ("", all else).

    Raises ValueError where it can't be told apart.
    """
    at = 0
    while found := _DIRECTIVE.search(expression, at):
        value, end = json.JSONDecoder().raw_decode(expression, found.end())
        yield "", expression[at : found.start()]
        yield found[1], value
        at = end
    yield "", expression[at:]


def within(part: Any, root: dict[str, Any]) -> Any:
    """Give a part of a schema as a schema of its own: with the definitions that it may refer to."""
    if not isinstance(part, dict) or '"$ref"' not in json.dumps(part):
        return part
    return {key: root[key] for key in DEFINITIONS if key in root} | part
