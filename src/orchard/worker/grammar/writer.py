"""Writes down what an answer must look like as a grammar of llguidance's (https://github.com/guidance-ai/llguidance).

Reading schemas and patterns, and compiling what they become, may take any time and memory, and can crash: all of it is
done in a process of its own (`process`).

- A grammar binds the text of the answer. Where there are tools, calls in the model's own format may take its place.
- Calls that must be made (`must_call`) are the whole answer.
- Strict tools ask for nothing: from the text on that opens a call, whatever stands before it, the call is bound. Where
  a format's calls have no text of their own to open them, an answer that begins like one is bound. Where the format or
  the tokens are not known well enough, strict tools are like others.
- The input of a custom tool keeps its grammar, in a JSON string as in a text of its own; where that can't be, the
  request is refused.
- Of tools that are not strict, calls keep as much of the schema as can be kept.
- In JSON there is a space, a newline with an indentation, or nothing between two parts.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper, regex_to_lark
from msgspec import Struct
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks import generate
from orchard.formats.call_grammar import CallGrammar, CallsGrammar, Node, TextValue, leaves
from orchard.worker.grammar import input_grammar, json_schema, lark

_MOST_CHARACTERS = 256 * 1024
_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?| \d+ \| .*")  # in a grammar of our own
_BYTES = 256
_TRIED = 4  # tokens of an answer


class ToolCalls(Struct, frozen=True):
    """What the calls of one tool look like; `loose`: with any object as arguments, None where the tool is strict.

    `input_grammar`: what the input keeps that is marked in `grammar`.
    """

    name: str
    grammar: CallsGrammar
    loose: CallsGrammar | None
    input_grammar: str | None = None


class GrammarRequest(Struct, frozen=True):
    """What an answer must look like.

    `several`: there may be more calls than one. `header`: what the answer begins with before a grammar binds it.
    `reasoning`: the texts that begin and end what may come before it, where the grammar must allow for them.
    """

    grammar: generate.Grammar | None
    tools: tuple[ToolCalls, ...]
    must_call: bool
    several: bool
    header: str = ""
    reasoning: tuple[str, str] | None = None


class GrammarText(Struct, frozen=True):
    """A grammar that compiles.

    `text`: what `LLMatcher` takes; `whole`: with the reasoning that may come before, if a grammar must allow for it.
    `trigger`: the text behind which it begins to bind, each time. `ends`: what ends the free texts in calls.
    """

    text: str
    whole: str = ""
    trigger: str = ""
    ends: tuple[str, ...] = ()


class _GrammarSource(Struct, frozen=True):
    """A grammar before it is whole: an expression, the rules in it, and what `@answer` in it stands for."""

    expression: str
    rules: str = ""
    answer: dict[str, Any] | None = None
    trigger: str = ""


class GrammarWriter:
    """Writes grammars for one model."""

    def __init__(self, special: Mapping[str, int]) -> None:
        """Write for a model with these `special` tokens: the ids of those that are no text, by their texts."""
        self._special = special.keys()
        self._tags = lark.Tags(special)
        self._tokenizer = _bytes_beside(special)

    def write(self, wanted: GrammarRequest) -> GrammarText | None:
        """Return the grammar; None where nothing binds the answer.

        Raise ValueError with what can't be kept, OrchardError where that is a strict tool's schema.
        """
        try:
            return self._written(wanted)
        except ValueError:
            kept = tuple(map(self._kept, wanted.tools))
            if kept == wanted.tools:  # it is all of them together, or none of them
                kept = tuple(map(_loose, kept))
            if kept == wanted.tools:
                raise
            return self.write(replace(wanted, tools=kept))

    def _written(self, wanted: GrammarRequest) -> GrammarText | None:
        source = self._source(wanted)
        if source is None:
            return None
        text = self._text(source, None)
        whole = self._text(source, wanted.reasoning) if wanted.reasoning and not source.trigger else ""
        for one in filter(None, (text, whole)):
            self._try(one)
        return GrammarText(text, whole, source.trigger, _ends(wanted.tools))

    def _source(self, wanted: GrammarRequest) -> _GrammarSource | None:
        grammar = self._together(wanted.tools)
        calls = lark.calls(grammar, self._tags, several=wanted.several) if grammar else ""
        if wanted.must_call:
            if not calls:
                raise ValueError("how this model writes calls is not known")
            return _GrammarSource("calls", calls)
        if wanted.grammar:
            answer = f"{self._tags.literal(wanted.header)} @answer" if wanted.header else "@answer"
            return _GrammarSource(f"{answer} | calls" if calls else answer, calls, _answer(wanted.grammar))
        source = self._strict(grammar, calls, several=wanted.several) if grammar else None
        if source is None and any(tool.input_grammar is not None for tool in wanted.tools):
            raise ValueError("this model's calls can't be told from its text before they are written")
        return source

    def _strict(self, grammar: CallsGrammar, calls: str, *, several: bool) -> _GrammarSource | None:
        """Bind calls only; all else is free."""
        if not grammar.trigger:
            return _GrammarSource("free | calls", calls + lark.FREE)
        rules = lark.triggered(grammar, self._tags, several=several)
        return _GrammarSource("calls", rules, trigger=grammar.trigger) if rules else None

    def _kept(self, tool: ToolCalls) -> ToolCalls:
        """Return a tool that takes any object where its schema can't be kept. Raise OrchardError if it is strict."""
        try:
            grammar = self._together((tool,))
            if grammar:
                self._try(self._text(_GrammarSource("calls", lark.calls(grammar, self._tags, several=False)), None))
        except ValueError as error:
            if tool.loose:
                return _loose(tool)
            raise strict_refusal(tool.name, str(error), of_input=tool.input_grammar is not None) from error
        return tool

    def _together(self, tools: tuple[ToolCalls, ...]) -> CallsGrammar | None:
        """Return what the calls of some tools look like. Raise ValueError where a schema can't be kept."""
        if not tools:
            return None
        calls = [replace(call, body=self._body(tool, call)) for tool in tools for call in tool.grammar.calls]
        return replace(tools[0].grammar, calls=tuple(calls))

    def _body(self, tool: ToolCalls, call: CallGrammar) -> Node:
        if tool.input_grammar is not None:
            return input_grammar.body(call, tool.input_grammar, self._special)
        return json_schema.prepared_call(call.body, self._special, lenient=tool.loose is not None)

    def _text(self, source: _GrammarSource, reasoning: tuple[str, str] | None) -> str:
        """Return what `LLMatcher` takes: JSON with all grammars, the first of which is the whole."""
        grammars: list[dict[str, Any]] = [
            {"lark_grammar": lark.whole(source.expression, source.rules, reasoning, self._tags)}
        ]
        if source.answer is not None:
            grammars.append({"name": "answer", **source.answer})
        return json.dumps({"grammars": grammars}, ensure_ascii=False)

    def _try(self, text: str) -> None:
        """Raise ValueError with what is wrong with a grammar."""
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"it has {len(text):,} characters; there may be {_MOST_CHARACTERS:,}")
        matcher = LLMatcher(self._tokenizer, text, limits=lark.LIMITS, log_level=0)
        if reason := fault(matcher):
            raise ValueError(reason)


def strict_refusal(tool: str, reason: str, *, of_input: bool = False) -> OrchardError:
    """Return the error that says that a strict tool's schema, or the grammar of its input, can't be kept."""
    what = "grammar of the custom" if of_input else "parameters of the strict"
    message = f"the {what} tool '{tool}' can't be kept: {_PLACE.sub('', ' '.join(reason.split()))}"
    return OrchardError("invalid_request", message, param="tools")


def fault(matcher: LLMatcher) -> str:
    """Return what is wrong with a grammar, also where that shows only when an answer begins; "": nothing."""
    reason = matcher.get_error() or _fault_at_start(matcher.deep_copy())
    if "NoExtensionBias" in reason:
        return "nothing keeps it"
    return _PLACE.sub("", " ".join(reason.removesuffix("<non-verbose/>").split())[:300])


def _fault_at_start(matcher: LLMatcher) -> str:
    for _ in range(_TRIED):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        if matcher.is_error() or not allowed:
            return matcher.get_error() or "nothing keeps it"
        lowest = (allowed & -allowed).bit_length() - 1
        if matcher.is_accepting() or not matcher.consume_token(lowest):
            break
    return matcher.get_error()


def _bytes_beside(special: Mapping[str, int]) -> LLTokenizer:
    """Return a vocabulary of single bytes, in which special tokens have the ids that grammars name them by."""
    size = max(special.values(), default=-1) + 1
    names = {id_: text.encode() for text, id_ in special.items()}
    pieces = [names.get(id_, b"") for id_ in range(size)] + [bytes([byte]) for byte in range(_BYTES)] + [b""]
    end = len(pieces) - 1
    return LLTokenizer(TokenizerWrapper(_TokenBytes(pieces, [*sorted(names), end], end)), end + 1, [end])


class _TokenBytes:
    """What `TokenizerWrapper` wants."""

    bos_token_id = None

    def __init__(self, tokens: list[bytes], special_token_ids: list[int], eos_token_id: int) -> None:
        self.tokens = tokens
        self.special_token_ids = special_token_ids
        self.eos_token_id = eos_token_id
        self._first = len(tokens) - 1 - _BYTES

    def __call__(self, text: bytes) -> list[int]:
        return [self._first + byte for byte in text]


def _ends(tools: tuple[ToolCalls, ...]) -> tuple[str, ...]:
    nodes = [node for tool in tools for call in tool.grammar.calls for node in leaves(call.body)]
    return tuple({node.end: None for node in nodes if isinstance(node, TextValue)})


def _loose(tool: ToolCalls) -> ToolCalls:
    return replace(tool, grammar=tool.loose) if tool.loose else tool


def _answer(wanted: generate.Grammar) -> dict[str, Any]:
    """Return a grammar as llguidance takes it. Raise ValueError where it can't be kept."""
    match wanted.kind:
        case "json_schema":
            return {"json_schema": json_schema.prepared(wanted.value, lenient=not wanted.strict)}
        case "json_object":
            return {"json_schema": json_schema.prepared({"type": "object"})}
        case "regex":
            return {"lark_grammar": lark.whole(_pattern(wanted.value))}
        case "choice":
            return {"lark_grammar": lark.whole(lark.choice(wanted.value))}
        case "lark":
            return {"lark_grammar": wanted.value}


def _pattern(regex: str) -> str:
    if (len(regex) - len(regex.rstrip("\\"))) % 2:
        raise ValueError("it ends within an escape")
    terminal = f"/{regex_to_lark(regex, use_ascii='d')}/" if regex else '""'
    if reason := lark.fault(terminal) or lark.fault_within(lark.whole(terminal)):
        raise ValueError(reason)
    return terminal
