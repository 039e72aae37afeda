r"""Grammars of custom tools, for the input of a call as plain text or in a JSON string.

Their syntax is llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md). Text of the
call's format follows its input, and JSON may write one character as two. llguidance's lexer takes the longest text of a
terminal and never goes back, so both would break: `/.*/` before a newline would take the backslash of `\n`. So this
module turns terminals into rules whose lexemes are single characters.
"""

import json
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from llguidance import LLMatcher
from msgspec.structs import replace

from orchard.backends.text.grammar.json_schema import cut_before_token
from orchard.backends.text.grammar.lark import byte_tokenizer, first_bytes
from orchard.core.tasks.generate import Tool
from orchard.formats import call_grammar

MOST_CHARACTERS = 32 * 1024
_MOST_CLASSES = 256
_MARK = {"type": "string", "const": "input"}
_TOKEN = re.compile(
    r"""(?P<space>(?:(?:\#|//)[^\n]*|\s+)+)
    |(?P<range>"[^"\\]"\s*\.\.\s*"[^"\\]")
    |(?P<text>"(?:\\.|[^"\\\x00-\x1f\x7f])*")(?P<caseless>i?)
    |/(?P<regex>(?:\\.|[^/\\\n])+)/(?P<flags>[ims]*)(?![a-z])
    |%import\s+common\s*\.\s*(?P<imported>[A-Z_]+)(?:\s*->\s*(?P<alias>[A-Z_][A-Z_0-9]*))?
    |(?P<ignore>%ignore(?=\s))
    |(?P<alternative>->\s*\w+)
    |(?P<terminal>_?[A-Z][A-Z_0-9\-]*)(?P<defines>\s*:(?!:))?
    |[!?]*(?P<rule>_?[a-z][a-z_0-9\-]*)(?P<starts>\s*:(?!:))?
    |(?P<operator>~\s*[0-9]+(?:\s*\.\.\s*[0-9]+)?|\{\s*[0-9]*\s*,?\s*[0-9]*\s*\}|[|()\[\]?*+])
    |(?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)
_ATOM = re.compile(
    r"""(?P<open>\((?:\?(?:(?P<flags>[is]*):|P?<\w+>))?)(?!\?)
    |(?P<operator>(?:\{[0-9]*,?[0-9]*\}|[*+?])(?P<lazy>\??))
    |(?P<other>\(\?|[\^$]|\\[AzZGbB<>])
    |(?P<close>\))
    |(?P<bar>\|)
    |(?P<atom>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\[\]\\])*\]|\\[xu]\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}
        |\\[pP](?:\{[^}]*\}|\w)|\\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_COMMON = {
    "LF": r"\n",
    "CR": r"\r",
    "NEWLINE": r"(?:\r?\n)+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
    "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[a-fA-F0-9]",
    "INT": "[0-9]+",
    "DECIMAL": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)",
    "FLOAT": r"(?:[0-9]+[eE][+\-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+\-]?[0-9]+)?)",
    "NUMBER": r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+\-]?[0-9]+)?",
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
}
_COMMON |= {f"SIGNED_{name}": rf"[+\-]?{_COMMON[name]}" for name in ("INT", "FLOAT", "NUMBER")}
"""The terminals that can be imported (https://github.com/lark-parser/lark/blob/master/lark/grammars/common.lark)."""
_ESCAPED = {code: json.dumps(chr(code)) for code in (*range(32), ord('"'), ord("\\"))}
_PLAIN = r"\x22\\\x00-\x1f"  # in a character class: the characters that a JSON string escapes


def embedded(source: str, *, json: bool) -> call_grammar.EmbeddedGrammar:
    """Return the node for the texts of a grammar, as they are or as a JSON string writes them.

    Raise ValueError, with the reason, if the grammar can't be read or can't be converted.
    """
    if len(source) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(source):,} characters; there may be {MOST_CHARACTERS:,}")
    if reason := LLMatcher(byte_tokenizer(), source).get_error():
        raise ValueError(reason)
    return call_grammar.EmbeddedGrammar("".join(_Rewriter(source, json=json).lines()))


def marked(tool: Tool) -> Tool:
    """Return a tool whose input has a mark in the grammar of its calls."""
    return replace(tool, parameters={**call_grammar.json_arguments(tool).schema, "properties": {"input": _MARK}})


def body(arguments: call_grammar.Node, source: str, tokens: Collection[str]) -> call_grammar.Node:
    """Return the grammar of a marked tool's arguments, with the grammar `source` enforced on its input.

    `tokens`: the texts that are special tokens of the model. Raise ValueError, with a sentence, if that can't be done.
    """

    def input_kept(node: call_grammar.Node) -> call_grammar.Node:
        match node:
            case call_grammar.TextValue(end, schema) if schema == _MARK:
                # The grammar's lexemes are single characters, so they can't run past the end of the input.
                head, tail = cut_before_token(end, tokens)
                return call_grammar.concatenation(embedded(source, json=False), *head, tail)
            case call_grammar.JsonValue(schema):
                text = call_grammar.concatenation('"', embedded(source, json=True), '"')
                if schema == _MARK:
                    return text
                space = call_grammar.optional_part(" ")
                return call_grammar.concatenation("{", space, '"input":', space, text, space, "}")
        return node

    return call_grammar.replace_leaves(arguments, input_kept)


class _Rewriter:
    def __init__(self, source: str, *, json: bool) -> None:
        self._source = source
        self._json = json
        self._classes: set[str] = set()

    def lines(self) -> Iterator[str]:
        """Yield the rewritten grammar, piece by piece."""
        skips = re.search(r"^\s*%ignore\s", self._source, re.MULTILINE) is not None
        ignored, in_rule = 0, False
        for found in _TOKEN.finditer(self._source):
            if found["space"] or found["alternative"]:
                yield "\n" if "\n" in found[0] else " "
            elif found["operator"]:
                yield found[0]
            elif found["rule"]:
                in_rule |= found["starts"] is not None
                yield f"r_{found['rule']}{found['starts'] or ''}"
            elif found["imported"]:
                if found["imported"] not in _COMMON:
                    raise ValueError(f"it imports {found['imported']}, which is not known")
                name = found["alias"] or found["imported"]
                yield f"\nt_{name.lower()}: {self._regex(_COMMON[found['imported']], '')}\n"
            elif found["ignore"]:
                yield f"skip_{ignored}:"
                ignored, in_rule = ignored + 1, False
            elif found["defines"]:
                in_rule = False
                yield f"t_{found['terminal'].lower()}:"
            else:
                expression = self._terminal(found)
                yield f"(({expression}) skip)" if in_rule and skips else f"({expression})"
        if skips:
            yield f"\nskip: ({' | '.join(f'skip_{number}' for number in range(ignored))})*\n"
        yield f"\nstart: {'skip ' if skips else ''}r_start\n"

    def _terminal(self, found: re.Match[str]) -> str:
        """Return the expression for a terminal, or for what may replace one."""
        if found["unknown"]:
            place = self._source[found.start() :].split("\n")[0][:40]
            raise ValueError(f"{place!r} can't be enforced within a call")
        if found["terminal"]:
            return f"t_{found['terminal'].lower()}"
        if found["regex"]:
            return self._regex(found["regex"], found["flags"])
        if found["range"]:
            return self._class(f"[{_code(found[0][1])}-{_code(found[0][-2])}]", "")
        value = json.loads(re.sub(r"(?<!\\)((?:\\\\)*)\\x(..)", r"\1\\u00\2", found["text"]))
        return " ".join(self._class(_code(char), "i" if found["caseless"] else "") for char in value) or '""'

    def _regex(self, regex: str, flags: str) -> str:
        """Return the expression of rules for a regular expression."""
        written = ["("]
        scopes = [flags]
        for found in _ATOM.finditer(regex):
            if found["other"]:
                raise ValueError(f"{found[0]!r} in a regular expression can't be enforced within a call")
            if found["open"]:
                scopes.append((found["flags"] or "") + scopes[-1])
                written.append("(")
            elif found["operator"]:
                written.append(found["operator"].removesuffix(found["lazy"]) if found["lazy"] else found["operator"])
            elif found["close"] or found["bar"]:
                empty = written[-1] in ("(", "|")
                written += ['""'] if empty else []
                written.append(found[0])
                scopes = scopes[:-1] if found["close"] else scopes
            else:
                any_char = r"[\s\S]" if "s" in scopes[-1] else r"[^\n]"
                written.append(self._class(any_char if found["atom"] == "." else found["atom"], scopes[-1]))
        return " ".join([*written, *(['""'] if written[-1] in ("(", "|") else []), ")"])

    def _class(self, atom: str, flags: str) -> str:
        """Return the expression for one of some characters."""
        # A bare quote would look like the beginning of a string in the expression.
        atom = _QUOTE.sub(lambda found: r"\x22" if found[0].endswith('"') else found[0], atom)
        own = atom if atom.startswith("[") else f"[{atom}]"
        self._classes.add(own)
        if len(self._classes) > _MOST_CLASSES:
            raise ValueError(f"it has more than {_MOST_CLASSES} kinds of characters")
        flag = "i" if "i" in flags else ""
        return escaped(own, flag) if self._json else f"/{own}/{flag}"


def _code(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


@lru_cache(maxsize=1024)
def escaped(own: str, flag: str) -> str:
    """Return the expression for one of some characters, as a JSON string writes them."""
    members = first_bytes(f"/{own}/{flag}")
    special = sorted(members & _ESCAPED.keys())
    if not special:
        return f"/{own}/{flag}"
    others = [f"/[{own}--[{_PLAIN}]]/{flag}"] if members - _ESCAPED.keys() else []
    escapes = [json.dumps(_ESCAPED[code][1:-1]) for code in special]
    return f"({' | '.join([*others, *escapes])})"
