"""What the tests of formats share: pieces put together, texts cut, and tools to call."""

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from orchard.backends.text.grammar.json_schema import prepare_call
from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsGrammar
from orchard.formats.format import CallArguments, CallEnd, CallStart, Content, Format, Piece, Thought


class Call(NamedTuple):
    """A call of an answer; `over`: its end was told."""

    name: str
    arguments: str = "{}"
    id: str | None = None
    over: bool = True


def whole(pieces: Iterable[Piece]) -> list[Call | str]:
    """Neighbouring pieces of one kind joined, reasoning in brackets."""
    joined: list[Call | str] = []
    last: type | None = None
    for piece in pieces:
        match piece:
            case CallStart(name, id_):
                joined.append(Call(name, "", id_, over=False))
            case CallArguments(text):
                call = joined.pop()
                assert isinstance(call, Call)
                joined.append(call._replace(arguments=call.arguments + text))
            case CallEnd():
                call = joined.pop()
                assert isinstance(call, Call)
                joined.append(call._replace(over=True))
            case Thought(text) | Content(text):
                opened, closed = ("[", "]") if isinstance(piece, Thought) else ("", "")
                if last is type(piece):
                    text = str(joined.pop())[len(opened) :].removesuffix(closed) + text
                joined.append(f"{opened}{text}{closed}")
        last = type(piece)
    return joined


def prepared(grammar: CallsGrammar | None, tokens: Collection[str] = (), *, lenient: bool = False) -> CallsGrammar:
    """What calls look like, as it is printed. `tokens`: the tags that are tokens of the model."""
    assert grammar
    bodies = (prepare_call(call.body, tokens, lenient=lenient) for call in grammar.calls)
    calls = (replace(call, body=body) for call, body in zip(grammar.calls, bodies, strict=True))
    return replace(grammar, calls=tuple(calls))


def parse(format_: Format, *texts: str) -> list[Piece]:
    return [piece for text in texts for piece in format_.feed(text)] + format_.finish()


def cut(text: str, places: Iterable[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


def marked(pieces: Iterable[Piece]) -> set[tuple[int, str]]:
    """The characters of the content, each with its place in the answer."""
    return {
        (piece.start + n, char) for piece in pieces if isinstance(piece, Content) for n, char in enumerate(piece.text)
    }


TOOLS = [
    Tool(
        "weather",
        parameters={
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"enum": ["C", "F"]},
                "until": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["city"],
        },
    ),
    Tool(
        "search",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "filter": {"$ref": "#/$defs/filter"},
                "exact": {"type": "boolean"},
                "limit": {"type": "number"},
                "page": {"type": "integer", "nullable": True},
            },
            "$defs": {"filter": {"type": "object"}},
        },
    ),
    Tool(
        "write",
        parameters={
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "any": {},
                "mixed": {"type": ["string", "integer"]},
            }
        },
    ),
    Tool("now"),
]
