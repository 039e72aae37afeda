"""Prints grammars in llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md)."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, regex_to_lark
from msgspec.structs import replace

from orchard.formats import call_grammar

_NOTHING = call_grammar.Literal("")
# `GrammarState.forced` tokenises forced text; llguidance would do so again for each token.
_HEAD = '%llguidance {"no_forcing": true}\n'
_SYNTAX = set("/\\.+*?()|[]{}^$&~#-")  # characters with a meaning in a regular expression

ANY = "/(?s:.*)/"
"""The terminal of all texts."""
# No limit is above llguidance's own, so that nothing takes seconds or gigabytes. A step is one token of a row, and all
# other rows wait for it.
_TRIED = 48  # characters of a text
_PRINTABLE = (1 << 127) - (1 << 32)  # the printable ones of the bytes that may come next
_LETTERS = (1 << 123) - (1 << 97)
LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=50_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=100_000,
    verbose_errors=False,
)
"""The limits of one grammar."""

FREE = r"free: | /[^\s\[{](?s:.*)/" + "\n"
"""A rule called `free`: text that does not begin like a call without tags."""


class Tags:
    """The texts that are special tokens. A grammar doesn't treat these as text; it writes them as `<[id]>`."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        self._tokens = dict(tokens)
        longest_first = sorted(map(re.escape, tokens), key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(longest_first)})") if tokens else None

    def literal(self, text: str) -> str:
        """Return the expression for a text; "" for an empty one."""
        return " ".join(self._symbol(part) for part in self._parts(text))

    def cut(self, text: str, cut: Callable[[bytes], list[int]]) -> list[int]:
        """Tokenise a text: special tokens become their ids; `cut` tokenises the text between them."""
        cuts = ([self._tokens[part]] if part in self._tokens else cut(part.encode()) for part in self._parts(text))
        return [token for tokens in cuts for token in tokens]

    def up_to(self, text: str) -> str:
        """Return rules called `up_to`: any text, followed by this one."""
        first, *rest = self._parts(text)
        if first in self._tokens:
            return f"up_to: {ANY} {self.literal(text)}\n"
        return f"up_to: up_to_text {' '.join(map(self._symbol, rest))}\nup_to_text[lazy]: {ANY} {json.dumps(first)}\n"

    def _parts(self, text: str) -> list[str]:
        return [part for part in (self._pattern.split(text) if self._pattern else [text]) if part]

    def _symbol(self, part: str) -> str:
        return f"<[{self._tokens[part]}]>" if part in self._tokens else literal(part)


def whole(answer: str, rules: str = "", reasoning: tuple[str, str] | None = None, tags: Tags | None = None) -> str:
    """Return a complete grammar for an expression and the rules that it uses.

    `reasoning`: the texts that begin and end the reasoning that may come first; it needs the model's `tags`.
    """
    start = answer
    if reasoning and tags:
        start = f'({tags.literal(reasoning[0])} up_to "\\n"? "\\n"?)? ({answer})'
        rules += tags.up_to(reasoning[1])
    return f"{_HEAD}start: {start}\n{rules}"


def text_up_to(tag: str, kept: str = ANY, *, within: bool = False) -> str:
    """Return the terminal for texts that end with a tag and don't have it before; `kept` must match them, too.

    `within`: they may have it before, since only what follows it is an end.
    """
    mark = tag.strip()
    text = ANY
    if within and tag:
        text = f"/(?s:.*){''.join(map(_escaped, tag))}/"
    elif mark.startswith("<"):
        other = ""
        for char in map(_escaped, reversed(mark[1:])):
            following = f"|{char}{other}" if other else ""
            other = f"(?:[^<{char}][^<]*{following})?"
        text = f"/[^<]*(?:<{other})*{''.join(map(_escaped, tag))}/"
    elif mark:
        whole = "".join(map(_escaped, mark))
        text = f"/(?s:.*){''.join(map(_escaped, tag))}/ & ~/(?s:.*){whole}(?s:.+)/"
    return text if kept == ANY else f"{text} & ({kept})"


@lru_cache(maxsize=1024)
def fault(terminal: str) -> str:
    """Return what is wrong with a terminal, in a few words: it can't be read, or no text matches it; "" if nothing."""
    matcher = LLMatcher(byte_tokenizer(), f"{_HEAD}start: T\nT: {terminal}", limits=LIMITS)
    if reason := matcher.get_error().removesuffix("<non-verbose/>"):
        if "fuel exhausted" in reason:
            return "its lengths and repetitions together are too large"
        said = next((line for line in reason.splitlines() if "error: " in line or "supported" in line), reason)
        return re.split(r"error: |\(in regex\): ", said)[-1].partition(" in regex")[0].strip()
    some = matcher.is_accepting() or any(matcher.compute_bitmask()[:32])
    return "" if some else "nothing satisfies it"


def first_bytes(terminal: str) -> set[int]:
    """Return the bytes with which a terminal's texts may begin. Raise ValueError if it can't be read."""
    if reason := fault(terminal):
        raise ValueError(f"{terminal}: {reason}")
    mask = int.from_bytes(
        LLMatcher(byte_tokenizer(), f"{_HEAD}start: T\nT: {terminal}", limits=LIMITS).compute_bitmask(), "little"
    )
    return {byte for byte in range(256) if mask >> byte & 1}


@lru_cache(maxsize=1024)
def fault_within(grammar: str) -> str:
    """Return what is wrong in a grammar: nested repetitions may be ambiguous in too many ways; "" if nothing."""
    matcher = LLMatcher(byte_tokenizer(), grammar, limits=LIMITS)
    for _ in range(_TRIED):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        if "lexer error" in matcher.get_error():
            return "it repeats too much within repetitions"
        next_bytes = allowed & _LETTERS or allowed & _PRINTABLE
        if not next_bytes or not matcher.consume_token(next_bytes.bit_length() - 1):
            break
    return ""


@cache
def byte_tokenizer() -> LLTokenizer:
    """Return a tokenizer whose tokens are bytes, to test a grammar independently of a model."""
    return LLTokenizer("byte")


def _escaped(char: str) -> str:
    if char == "\n":
        return "\\n"
    return f"\\{char}" if char in _SYNTAX else char


def literal(text: str) -> str:
    """Return the expression for exactly this text, which may be empty."""
    return json.dumps(text, ensure_ascii=False)


def regex(pattern: str, use_ascii: str) -> str:
    """Return the terminal for a regular expression of whole texts; the classes in `use_ascii` match only ASCII.

    Raise ValueError, with a few words, if it can't be enforced.
    """
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise ValueError("it ends within an escape")
    terminal = f"/{regex_to_lark(pattern, use_ascii=use_ascii)}/"
    if reason := fault(terminal):
        raise ValueError(reason)
    return terminal


def calls(grammar: call_grammar.CallsGrammar, tags: Tags, *, several: bool) -> str:
    """Return rules called `calls`: what a model writes for one or more calls."""
    printer = _Printer(tags)
    parts = (printer.text(grammar.prefix), "call", printer.more(grammar, several=several), printer.text(grammar.suffix))
    return printer.rules(parts, call=map(printer.call, grammar.calls))


def triggered(grammar: call_grammar.CallsGrammar, tags: Tags, *, several: bool) -> str | None:
    """Return rules called `calls`, without what stands before them up to the trigger; None where some don't have it.

    Where nothing holds several calls together, each has a trigger of its own.
    """
    begins = [grammar.prefix + call.begin for call in grammar.calls]
    if not all(grammar.trigger in begin for begin in begins):
        return None
    printer = _Printer(tags)
    more = printer.more(grammar, several=several and bool(grammar.prefix or grammar.suffix))
    rests = [begin.partition(grammar.trigger)[2] for begin in begins]
    return printer.rules(
        ("first", more, printer.text(grammar.suffix)),
        first=(printer.call(replace(call, begin=rest)) for call, rest in zip(grammar.calls, rests, strict=True)),
        call=map(printer.call, grammar.calls),
    )


class _Printer:
    """Prints the trees of one grammar."""

    def __init__(self, tags: Tags) -> None:
        self.text = tags.literal
        self._terminals: dict[str, str] = {}  # those that need a name, by their expressions

    def more(self, grammar: call_grammar.CallsGrammar, *, several: bool) -> str:
        """Return the expression for further calls."""
        return f"({self.text(grammar.separator)} call)*" if several else ""

    def call(self, call: call_grammar.CallGrammar) -> str:
        """Return the expression for a call."""
        return self._printed(
            call_grammar.Concatenation((call_grammar.Literal(call.begin), call.body, call_grammar.Literal(call.end)))
        )

    def rules(self, calls: Iterable[str], **options: Iterable[str]) -> str:
        """Return rules called `calls` and, each for one of some expressions, as `options` are; and terminals."""
        lines = [f"calls: {' '.join(filter(None, calls))}"]
        for name, expressions in options.items():
            rules = {f"{name}_{number}": expression for number, expression in enumerate(expressions)}
            lines.append(f"{name}: {' | '.join(rules)}")
            lines += [f"{one}: {expression}" for one, expression in rules.items()]
        lines += [f"{name}: {terminal}" for terminal, name in self._terminals.items()]
        return "".join(f"{line}\n" for line in lines)

    def _printed(self, node: call_grammar.Node) -> str:
        match node:
            case call_grammar.Concatenation(parts):
                return " ".join(self._printed(part) for part in parts if part != _NOTHING) or literal("")
            case call_grammar.Alternation(options):
                return f"({' | '.join(map(self._printed, options))})"
            case call_grammar.Repetition(part, most):
                times = {None: "*", 1: "?"}.get(most, f"{{0,{most}}}")
                return f"({self._printed(part)}){times}"
        return self._leaf(node)

    def _leaf(self, node: call_grammar.Node) -> str:
        match node:
            case call_grammar.Literal(text):
                return self.text(text) or literal("")
            case call_grammar.Terminal(terminal):
                if "&" in terminal or "~" in terminal:
                    return self._terminals.setdefault(terminal, f"TEXT_{len(self._terminals)}")
                return terminal
            case call_grammar.EmbeddedGrammar(source):
                return f"%lark {{\n{source}\n}}"
            case call_grammar.JsonValue(schema):
                return f"%json {json.dumps(schema)}"
        raise TypeError(f"{type(node).__name__} is not prepared for llguidance")
