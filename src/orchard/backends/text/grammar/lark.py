"""Prints grammars in llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md)."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, regex_to_lark
from msgspec.structs import replace

from orchard.formats import call_grammar

_EMPTY_TEXT = call_grammar.Literal("")
# `GrammarState.forced` tokenises forced text; llguidance would do so again for each token.
_HEAD = '%llguidance {"no_forcing": true}\n'
_REGEX_SYNTAX = set("/\\.+*?()|[]{}^$&~#-")  # characters with a meaning in a regular expression

ANY_TEXT = "/(?s:.*)/"
"""The terminal of all texts."""
_TRIAL_CHARACTERS = 48  # characters of a text
# Masks of the next byte: printable characters, and lower-case letters.
_PRINTABLE_MASK = (1 << 127) - (1 << 32)
_LETTER_MASK = (1 << 123) - (1 << 97)
# No limit is above llguidance's own, so that nothing takes seconds or gigabytes. A step is one token of a row, and all
# other rows wait for it.
LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=50_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=100_000,
    verbose_errors=False,
)
"""The limits of one grammar."""

FREE_TEXT_RULE = r"free: | /[^\s\[{](?s:.*)/" + "\n"
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

    def tokenize(self, text: str, tokenize: Callable[[bytes], list[int]]) -> list[int]:
        """Tokenise a text: special tokens become their ids; `tokenize` tokenises the text between them."""
        tokens: list[int] = []
        for part in self._parts(text):
            tokens += [self._tokens[part]] if part in self._tokens else tokenize(part.encode())
        return tokens

    def up_to_rules(self, text: str) -> str:
        """Return rules called `up_to`: any text, followed by this one."""
        first, *rest = self._parts(text)
        if first in self._tokens:
            return f"up_to: {ANY_TEXT} {self.literal(text)}\n"
        return (
            f"up_to: up_to_text {' '.join(map(self._symbol, rest))}\nup_to_text[lazy]: {ANY_TEXT} {json.dumps(first)}\n"
        )

    def _parts(self, text: str) -> list[str]:
        return [part for part in (self._pattern.split(text) if self._pattern else [text]) if part]

    def _symbol(self, part: str) -> str:
        return f"<[{self._tokens[part]}]>" if part in self._tokens else text_literal(part)


def complete_grammar(
    answer: str, rules: str = "", reasoning: tuple[str, str] | None = None, tags: Tags | None = None
) -> str:
    """Return a complete grammar for an expression and the rules that it uses.

    `reasoning`: the texts that begin and end the reasoning that may come first; it needs the model's `tags`.
    """
    start = answer
    if reasoning and tags:
        start = f'({tags.literal(reasoning[0])} up_to "\\n"? "\\n"?)? ({answer})'
        rules += tags.up_to_rules(reasoning[1])
    return f"{_HEAD}start: {start}\n{rules}"


def text_up_to(tag: str, terminal: str = ANY_TEXT, *, allow_earlier: bool = False) -> str:
    """Return the terminal for texts that match `terminal`, too, and have a tag at their end and nowhere else.

    `allow_earlier`: the tag may occur earlier, since a text ends only where a special token follows the tag.
    """
    mark = tag.strip()
    text = ANY_TEXT
    if allow_earlier and tag:
        text = f"/(?s:.*){''.join(map(_escape_char, tag))}/"
    elif mark.startswith("<"):
        rest = ""
        for char in map(_escape_char, reversed(mark[1:])):
            following = f"|{char}{rest}" if rest else ""
            rest = f"(?:[^<{char}][^<]*{following})?"
        text = f"/[^<]*(?:<{rest})*{''.join(map(_escape_char, tag))}/"
    elif mark:
        escaped_mark = "".join(map(_escape_char, mark))
        text = f"/(?s:.*){''.join(map(_escape_char, tag))}/ & ~/(?s:.*){escaped_mark}(?s:.+)/"
    return text if terminal == ANY_TEXT else f"{text} & ({terminal})"


@lru_cache(maxsize=1024)
def terminal_fault(terminal: str) -> str:
    """Return what is wrong with a terminal, in a few words: it can't be read, or no text matches it; "" if nothing."""
    matcher = LLMatcher(byte_tokenizer(), f"{_HEAD}start: T\nT: {terminal}", limits=LIMITS)
    if reason := matcher.get_error().removesuffix("<non-verbose/>"):
        if "fuel exhausted" in reason:
            return "its lengths and repetitions together are too large"
        message = next((line for line in reason.splitlines() if "error: " in line or "supported" in line), reason)
        return re.split(r"error: |\(in regex\): ", message)[-1].partition(" in regex")[0].strip()
    is_possible = matcher.is_accepting() or any(matcher.compute_bitmask()[:32])
    return "" if is_possible else "nothing satisfies it"


def first_bytes(terminal: str) -> set[int]:
    """Return the bytes with which a terminal's texts may begin. Raise ValueError if it can't be read."""
    if reason := terminal_fault(terminal):
        raise ValueError(f"{terminal}: {reason}")
    mask = int.from_bytes(
        LLMatcher(byte_tokenizer(), f"{_HEAD}start: T\nT: {terminal}", limits=LIMITS).compute_bitmask(), "little"
    )
    return {byte for byte in range(256) if mask >> byte & 1}


@lru_cache(maxsize=1024)
def repetition_fault(grammar: str) -> str:
    """Return what is wrong with a grammar if its nested repetitions are too ambiguous; "" if they aren't."""
    matcher = LLMatcher(byte_tokenizer(), grammar, limits=LIMITS)
    for _ in range(_TRIAL_CHARACTERS):
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        if "lexer error" in matcher.get_error():
            return "it repeats too much within repetitions"
        next_bytes = mask & _LETTER_MASK or mask & _PRINTABLE_MASK
        if not next_bytes or not matcher.consume_token(next_bytes.bit_length() - 1):
            break
    return ""


@cache
def byte_tokenizer() -> LLTokenizer:
    """Return a tokenizer whose tokens are bytes, to test a grammar independently of a model."""
    return LLTokenizer("byte")


def _escape_char(char: str) -> str:
    if char == "\n":
        return "\\n"
    return f"\\{char}" if char in _REGEX_SYNTAX else char


def text_literal(text: str) -> str:
    """Return the expression for exactly this text, which may be empty."""
    return json.dumps(text, ensure_ascii=False)


def regex_terminal(pattern: str, use_ascii: str) -> str:
    """Return the terminal for a regular expression of whole texts; the classes in `use_ascii` match only ASCII.

    Raise ValueError, with a few words, if it can't be enforced.
    """
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise ValueError("it ends within an escape")
    terminal = f"/{regex_to_lark(pattern, use_ascii=use_ascii)}/"
    if reason := terminal_fault(terminal):
        raise ValueError(reason)
    return terminal


def call_rules(grammar: call_grammar.CallsGrammar, tags: Tags, *, parallel: bool) -> str:
    """Return rules called `calls`: what a model writes for one or more calls."""
    printer = _Printer(tags)
    parts = (
        printer.text(grammar.prefix),
        "call",
        printer.further_calls(grammar, parallel=parallel),
        printer.text(grammar.suffix),
    )
    return printer.rules(parts, call=map(printer.call, grammar.calls))


def triggered_call_rules(grammar: call_grammar.CallsGrammar, tags: Tags, *, parallel: bool) -> str | None:
    """Return rules called `calls`, each without its text up to the trigger; None if a call has no trigger.

    If a format has no text around all calls, each call has its own trigger, and the rules are for one call.
    """
    begins = [grammar.prefix + call.begin for call in grammar.calls]
    if not all(grammar.trigger in begin for begin in begins):
        return None
    printer = _Printer(tags)
    further_calls = printer.further_calls(grammar, parallel=parallel and bool(grammar.prefix or grammar.suffix))
    rests = [begin.partition(grammar.trigger)[2] for begin in begins]
    return printer.rules(
        ("first", further_calls, printer.text(grammar.suffix)),
        first=(printer.call(replace(call, begin=rest)) for call, rest in zip(grammar.calls, rests, strict=True)),
        call=map(printer.call, grammar.calls),
    )


class _Printer:
    """Prints the trees of one grammar."""

    def __init__(self, tags: Tags) -> None:
        self.text = tags.literal
        self._terminals: dict[str, str] = {}  # those that need a name, by their expressions

    def further_calls(self, grammar: call_grammar.CallsGrammar, *, parallel: bool) -> str:
        """Return the expression for further calls."""
        return f"({self.text(grammar.separator)} call)*" if parallel else ""

    def call(self, call: call_grammar.CallGrammar) -> str:
        """Return the expression for a call."""
        return self._expression(
            call_grammar.Concatenation((call_grammar.Literal(call.begin), call.body, call_grammar.Literal(call.end)))
        )

    def rules(self, calls: Iterable[str], **options: Iterable[str]) -> str:
        """Return the rule `calls`, a rule for each of `options`, which is one of its expressions, and the terminals."""
        lines = [f"calls: {' '.join(filter(None, calls))}"]
        for name, expressions in options.items():
            rules = {f"{name}_{number}": expression for number, expression in enumerate(expressions)}
            lines.append(f"{name}: {' | '.join(rules)}")
            lines += [f"{rule}: {expression}" for rule, expression in rules.items()]
        lines += [f"{name}: {terminal}" for terminal, name in self._terminals.items()]
        return "".join(f"{line}\n" for line in lines)

    def _expression(self, node: call_grammar.Node) -> str:
        match node:
            case call_grammar.Concatenation(parts):
                return " ".join(self._expression(part) for part in parts if part != _EMPTY_TEXT) or text_literal("")
            case call_grammar.Alternation(options):
                return f"({' | '.join(map(self._expression, options))})"
            case call_grammar.Repetition(part, most):
                times = {None: "*", 1: "?"}.get(most, f"{{0,{most}}}")
                return f"({self._expression(part)}){times}"
        return self._leaf_expression(node)

    def _leaf_expression(self, node: call_grammar.Node) -> str:
        match node:
            case call_grammar.Literal(text):
                return self.text(text) or text_literal("")
            case call_grammar.Terminal(terminal):
                if "&" in terminal or "~" in terminal:
                    return self._terminals.setdefault(terminal, f"TEXT_{len(self._terminals)}")
                return terminal
            case call_grammar.EmbeddedGrammar(source):
                return f"%lark {{\n{source}\n}}"
            case call_grammar.JsonValue(schema):
                return f"%json {json.dumps(schema)}"
        raise TypeError(f"{type(node).__name__} is not prepared for llguidance")
