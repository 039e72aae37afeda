"""JSON as models write it, read piece by piece: raw newlines in strings are made escapes, all else is checked."""

import json
import re
from collections.abc import Callable

from orchard.formats.schema import Signature, encodable, fitted, loads
from orchard.formats.source import Broken, Ended, Reading, Source, run

# Characters and whole escapes, as they may stand in a JSON string.
_RUN = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))++')
_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_BRACKETS = re.compile(r'["{}\[\]]')
_SCALAR = re.compile(r"[-+.\w]+")

Give = Callable[[str], object]


def string(source: Source, give: Give) -> Reading[None]:
    """Read a string from behind its quote, over its closing one; `give` gets what stands between, as JSON has it."""
    while True:
        text, at = source.text, source.at
        if run := _RUN.match(text, at):
            source.at = run.end()
            give(run[0])
        elif at == len(text):
            yield from source.more()
        elif text[at] == '"':
            source.at += 1
            return
        elif text[at] != "\\":
            source.at += 1
            give(json.dumps(text[at])[1:-1])
        elif _BEGUN_ESCAPE.fullmatch(text, at):
            yield from source.more()
        else:
            raise Broken


def quoted(source: Source) -> Reading[str]:
    """Read a string; gives its text, without quotes, as JSON has it."""
    yield from source.literal('"')
    found: list[str] = []
    yield from string(source, found.append)
    return "".join(found)


def plain(source: Source) -> Reading[str]:
    """Read a string; gives what it stands for. Raises Broken where that is no text."""
    found: str = json.loads(f'"{(yield from quoted(source))}"')
    if not encodable(found):
        raise Broken
    return found


def value(source: Source) -> Reading[str]:
    """Read a whole value of any kind; gives its JSON text."""
    first = yield from source.peek()
    found: list[str] = []
    if first == '"':
        return f'"{(yield from quoted(source))}"'
    if first in "{[":
        yield from _container(source, found.append)
    else:
        yield from _scalar(source, found.append)
    written = loads("".join(found))
    if written is None:
        raise Broken
    return written[1]


def _container(source: Source, give: Give) -> Reading[None]:
    depth = 0
    while True:
        mark = _BRACKETS.search(source.text, source.at)
        stop = mark.end() if mark else len(source.text)
        found, source.at = source.text[source.at : stop], stop
        give(found)
        if not mark:
            yield from source.more()
        elif mark[0] == '"':
            yield from string(source, give)
            give('"')
        else:
            depth += 1 if mark[0] in "{[" else -1
            if not depth:
                return


def _scalar(source: Source, give: Give) -> Reading[None]:
    while (yield from source.peek()):
        run = _SCALAR.match(source.text, source.at)
        if not run:
            return
        source.at = run.end()
        give(run[0])


def arguments(source: Source, signature: Signature | None, give: Give) -> Reading[None]:
    """Read an object of arguments; `give` gets it piece by piece, each value of a type that its parameter may have."""
    yield from source.literal("{")
    before = "{" + (yield from source.spaces())
    if source.text[source.at] != "}":
        while True:
            yield from _argument(source, signature, before, give)
            before = yield from source.spaces()
            if source.text[source.at] == "}":
                break
            yield from source.literal(",")
            before += "," + (yield from source.spaces())
    source.at += 1
    give(before + "}")


def _argument(source: Source, signature: Signature | None, before: str, give: Give) -> Reading[None]:
    key = yield from quoted(source)
    between = yield from source.spaces()
    yield from source.literal(":")
    give(f'{before}"{key}"{between}:{(yield from source.spaces())}')
    types = signature.types(json.loads(f'"{key}"')) if signature else frozenset()
    if source.text[source.at] != '"':
        give((yield from value(source)))
    elif not types or "string" in types:
        source.at += 1
        give('"')
        yield from string(source, give)
        give('"')
    else:
        text = yield from quoted(source)
        give(fitted(json.loads(f'"{text}"'), types) or f'"{text}"')


def whole(text: str, signature: Signature | None) -> str:
    """Read an object of arguments that stands in a text of its own. Raises Broken where it is none."""
    source = Source(text.strip(), final=True)
    found: list[str] = []
    try:
        run(arguments(source, signature, found.append))
    except Ended:
        raise Broken from None
    if source.at < len(source.text):
        raise Broken
    return "".join(found)
