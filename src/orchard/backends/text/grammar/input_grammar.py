r"""Grammars of custom tools, for the input of a call as plain text or in a JSON string.

Their syntax is llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md). llguidance's
lexer takes the longest text that a terminal matches and never goes back. So `/.*/` would take the text that follows the
input in a call, and the backslash of a `\n` in JSON. Therefore this module turns terminals into rules whose lexemes are
single characters.
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
_COMMON_TERMINALS = {
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
_COMMON_TERMINALS |= {f"SIGNED_{name}": rf"[+\-]?{_COMMON_TERMINALS[name]}" for name in ("INT", "FLOAT", "NUMBER")}
"""The terminals that can be imported (https://github.com/lark-parser/lark/blob/master/lark/grammars/common.lark)."""
_JSON_ESCAPES = {code: json.dumps(chr(code)) for code in (*range(32), ord('"'), ord("\\"))}
_ESCAPED_CLASS = r"\x22\\\x00-\x1f"  # in a character class: the characters that a JSON string escapes


def embed_grammar(source: str, *, json: bool) -> call_grammar.EmbeddedGrammar:
    """Return the node for the texts of a grammar, as they are or as a JSON string writes them.

    Raise ValueError, with the reason, if the grammar can't be read or can't be converted.
    """
    if len(source) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(source):,} characters; there may be {MOST_CHARACTERS:,}")
    if reason := LLMatcher(byte_tokenizer(), source).get_error():
        raise ValueError(reason)
    return call_grammar.EmbeddedGrammar("".join(_Rewriter(source, json=json).lines()))


def mark_input(tool: Tool) -> Tool:
    """Return the tool with a mark for its input, which `enforce_input` finds in the grammar of its calls."""
    return replace(tool, parameters={**call_grammar.json_arguments(tool).schema, "properties": {"input": _MARK}})


def enforce_input(arguments: call_grammar.Node, source: str, tokens: Collection[str]) -> call_grammar.Node:
    """Return the grammar of a marked tool's arguments, with the grammar `source` enforced on its input.

    `tokens`: the texts that are special tokens of the model. Raise ValueError, with a sentence, if that can't be done.
    """

    def replace_input(node: call_grammar.Node) -> call_grammar.Node:
        match node:
            case call_grammar.TextValue(end, schema) if schema == _MARK:
                # The grammar's lexemes are single characters, so they can't run past the end of the input.
                head, tail = cut_before_token(end, tokens)
                return call_grammar.concatenation(embed_grammar(source, json=False), *head, tail)
            case call_grammar.JsonValue(schema):
                text = call_grammar.concatenation('"', embed_grammar(source, json=True), '"')
                if schema == _MARK:
                    return text
                space = call_grammar.optional_part(" ")
                return call_grammar.concatenation("{", space, '"input":', space, text, space, "}")
        return node

    return call_grammar.replace_leaves(arguments, replace_input)


class _Rewriter:
    def __init__(self, source: str, *, json: bool) -> None:
        self._source = source
        self._json = json
        self._classes: set[str] = set()

    def lines(self) -> Iterator[str]:
        """Yield the rewritten grammar, piece by piece."""
        skips = re.search(r"^\s*%ignore\s", self._source, re.MULTILINE) is not None
        ignore_count, in_rule = 0, False
        for match in _TOKEN.finditer(self._source):
            if match["space"] or match["alternative"]:
                yield "\n" if "\n" in match[0] else " "
            elif match["operator"]:
                yield match[0]
            elif match["rule"]:
                in_rule |= match["starts"] is not None
                yield f"r_{match['rule']}{match['starts'] or ''}"
            elif match["imported"]:
                if match["imported"] not in _COMMON_TERMINALS:
                    raise ValueError(f"it imports {match['imported']}, which is not known")
                name = match["alias"] or match["imported"]
                yield f"\nt_{name.lower()}: {self._regex_expression(_COMMON_TERMINALS[match['imported']], '')}\n"
            elif match["ignore"]:
                yield f"skip_{ignore_count}:"
                ignore_count, in_rule = ignore_count + 1, False
            elif match["defines"]:
                in_rule = False
                yield f"t_{match['terminal'].lower()}:"
            else:
                expression = self._terminal_expression(match)
                yield f"(({expression}) skip)" if in_rule and skips else f"({expression})"
        if skips:
            yield f"\nskip: ({' | '.join(f'skip_{number}' for number in range(ignore_count))})*\n"
        yield f"\nstart: {'skip ' if skips else ''}r_start\n"

    def _terminal_expression(self, match: re.Match[str]) -> str:
        """Return the expression for a terminal, a text, a range or a regular expression."""
        if match["unknown"]:
            place = self._source[match.start() :].split("\n")[0][:40]
            raise ValueError(f"{place!r} can't be enforced within a call")
        if match["terminal"]:
            return f"t_{match['terminal'].lower()}"
        if match["regex"]:
            return self._regex_expression(match["regex"], match["flags"])
        if match["range"]:
            return self._class_expression(f"[{_code_escape(match[0][1])}-{_code_escape(match[0][-2])}]", "")
        value = json.loads(re.sub(r"(?<!\\)((?:\\\\)*)\\x(..)", r"\1\\u00\2", match["text"]))
        return (
            " ".join(self._class_expression(_code_escape(char), "i" if match["caseless"] else "") for char in value)
            or '""'
        )

    def _regex_expression(self, regex: str, flags: str) -> str:
        """Return the expression of rules for a regular expression."""
        parts = ["("]
        scopes = [flags]
        for match in _ATOM.finditer(regex):
            if match["other"]:
                raise ValueError(f"{match[0]!r} in a regular expression can't be enforced within a call")
            if match["open"]:
                scopes.append((match["flags"] or "") + scopes[-1])
                parts.append("(")
            elif match["operator"]:
                parts.append(match["operator"].removesuffix(match["lazy"]) if match["lazy"] else match["operator"])
            elif match["close"] or match["bar"]:
                empty = parts[-1] in ("(", "|")
                parts += ['""'] if empty else []
                parts.append(match[0])
                scopes = scopes[:-1] if match["close"] else scopes
            else:
                any_char = r"[\s\S]" if "s" in scopes[-1] else r"[^\n]"
                parts.append(self._class_expression(any_char if match["atom"] == "." else match["atom"], scopes[-1]))
        return " ".join([*parts, *(['""'] if parts[-1] in ("(", "|") else []), ")"])

    def _class_expression(self, atom: str, flags: str) -> str:
        """Return the expression for a character class."""
        # A bare quote would look like the beginning of a string in the expression.
        atom = _QUOTE.sub(lambda match: r"\x22" if match[0].endswith('"') else match[0], atom)
        char_class = atom if atom.startswith("[") else f"[{atom}]"
        self._classes.add(char_class)
        if len(self._classes) > _MOST_CLASSES:
            raise ValueError(f"it has more than {_MOST_CLASSES} kinds of characters")
        flag = "i" if "i" in flags else ""
        return escape_class(char_class, flag) if self._json else f"/{char_class}/{flag}"


def _code_escape(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


@lru_cache(maxsize=1024)
def escape_class(char_class: str, flag: str) -> str:
    """Return the expression for a character class, as a JSON string writes its characters."""
    members = first_bytes(f"/{char_class}/{flag}")
    special = sorted(members & _JSON_ESCAPES.keys())
    if not special:
        return f"/{char_class}/{flag}"
    others = [f"/[{char_class}--[{_ESCAPED_CLASS}]]/{flag}"] if members - _JSON_ESCAPES.keys() else []
    escapes = [json.dumps(_JSON_ESCAPES[code][1:-1]) for code in special]
    return f"({' | '.join([*others, *escapes])})"
