"""The syntax of calls in a model's own format, as a tree from which a grammar is made.

`backends.text.grammar.lark` prints the tree for llguidance.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from orchard.core.tasks.generate import Tool


class Literal(Struct, frozen=True, tag=True):
    """A literal text. If the model has single tokens for tags in it, the grammar uses these tokens."""

    text: str


class Terminal(Struct, frozen=True, tag=True):
    """A text that matches `expression`, a terminal of llguidance's Lark."""

    expression: str


class EmbeddedGrammar(Struct, frozen=True, tag=True):
    """A text that matches a grammar of its own, in llguidance's Lark."""

    source: str


class JsonValue(Struct, frozen=True, tag=True):
    """JSON that matches a schema."""

    schema: Any


class TextValue(Struct, frozen=True, tag=True):
    """A text up to the tag `end`, which it doesn't contain, and that tag.

    The text is a value that matches `schema`: a string as it is, any other value as JSON. `types`: the types that a
    parser may read it as; a text of none of them is a string. One node is for strings and JSON, because the text's end
    is unknown before the tag comes. `end` may have newlines around it; "": the text itself shows where it ends.
    """

    end: str
    schema: Any = True
    types: tuple[str, ...] = ("string",)


class Concatenation(Struct, frozen=True, tag=True):
    """All parts, one after the other."""

    parts: tuple["Node", ...]


class Alternation(Struct, frozen=True, tag=True):
    """One of several options."""

    options: tuple["Node", ...]


class Repetition(Struct, frozen=True, tag=True):
    """A part, 0 to `most` times; None: any number of times."""

    part: "Node"
    most: int | None = None


Node = Literal | Terminal | EmbeddedGrammar | JsonValue | TextValue | Concatenation | Alternation | Repetition


class CallGrammar(Struct, frozen=True):
    """A call of one tool: its arguments between the literal texts `begin` and `end`."""

    name: str
    begin: str
    body: Node
    end: str


class CallsGrammar(Struct, frozen=True):
    """An answer's calls: `prefix`, one or more of `calls` with `separator` between them, `suffix`; all literal texts.

    `trigger`: the text that opens a call anywhere in an answer; "" if there is none. Text may precede the call.
    """

    trigger: str
    prefix: str
    calls: tuple[CallGrammar, ...]
    separator: str
    suffix: str


def concatenation(*parts: Node | str) -> Node:
    """Return the node for parts one after the other; a string becomes a literal."""
    return Concatenation(tuple(Literal(part) if isinstance(part, str) else part for part in parts if part != ""))


def alternation(options: list[Node]) -> Node:
    """Return the node for one of at least one option."""
    return options[0] if len(options) == 1 else Alternation(tuple(options))


def optional_part(part: Node | str) -> Node:
    """Return the node for a part that may be missing."""
    return Repetition(concatenation(part), 1)


def leaves(node: Node) -> Iterator[Node]:
    """Yield the nodes in a tree that have no parts."""
    match node:
        case Concatenation(parts) | Alternation(parts):
            for part in parts:
                yield from leaves(part)
        case Repetition(part):
            yield from leaves(part)
        case _:
            yield node


def replace_leaves(node: Node, leaf: Callable[[Node], Node]) -> Node:
    """Return a tree in which `leaf` has replaced every node without parts."""
    match node:
        case Concatenation(parts):
            return Concatenation(tuple(replace_leaves(part, leaf) for part in parts))
        case Alternation(options):
            return Alternation(tuple(replace_leaves(option, leaf) for option in options))
        case Repetition(part, most):
            return Repetition(replace_leaves(part, leaf), most)
        case _:
            return leaf(node)


def json_arguments(tool: Tool) -> JsonValue:
    """Return the node for a tool's arguments as JSON: always an object."""
    return JsonValue({"type": "object", **(tool.parameters or {"properties": {}})})
