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

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from msgspec import Struct
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks import generate
from orchard.formats.call_grammar import CallsGrammar, Node, TextValue, leaves
from orchard.worker.grammar import input_grammar, json_schema, lark

_MOST_CHARACTERS = 256 * 1024
_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?| \d+ \| .*")  # in a grammar of our own
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
        tokens = _BytesBeside(special)
        self._tokenizer = LLTokenizer(TokenizerWrapper(tokens), len(tokens.tokens), [tokens.eos_token_id])

    def write(self, wanted: GrammarRequest) -> GrammarText | None:
        """Return the grammar; None where nothing binds the answer.

        Raise ValueError with what can't be enforced, OrchardError where that is a strict tool's schema.
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
        text = self._tried(source)
        whole = self._tried(source, wanted.reasoning) if wanted.reasoning and not source.trigger else ""
        nodes = [node for tool in wanted.tools for call in tool.grammar.calls for node in leaves(call.body)]
        ends = dict.fromkeys(node.end for node in nodes if isinstance(node, TextValue))
        return GrammarText(text, whole, source.trigger, tuple(ends))

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
        # Calls of strict tools are bound; all else is free.
        if grammar and not grammar.trigger:
            return _GrammarSource("free | calls", calls + lark.FREE)
        if grammar and (rules := lark.triggered(grammar, self._tags, several=wanted.several)):
            return _GrammarSource("calls", rules, trigger=grammar.trigger)
        if any(tool.input_grammar is not None for tool in wanted.tools):
            raise ValueError("this model's calls can't be told from its text before they are written")
        return None

    def _kept(self, tool: ToolCalls) -> ToolCalls:
        """Return a tool that takes any object if its schema can't be enforced. Raise OrchardError if it is strict."""
        try:
            grammar = self._together((tool,))
            if grammar:
                self._tried(_GrammarSource("calls", lark.calls(grammar, self._tags, several=False)))
        except ValueError as error:
            if tool.loose:
                return _loose(tool)
            raise strict_refusal(tool.name, str(error), of_input=tool.input_grammar is not None) from error
        return tool

    def _together(self, tools: tuple[ToolCalls, ...]) -> CallsGrammar | None:
        """Return what the calls of some tools look like. Raise ValueError where a schema can't be enforced."""
        if not tools:
            return None
        calls = [replace(call, body=self._body(tool, call.body)) for tool in tools for call in tool.grammar.calls]
        return replace(tools[0].grammar, calls=tuple(calls))

    def _body(self, tool: ToolCalls, body: Node) -> Node:
        if tool.input_grammar is not None:
            return input_grammar.body(body, tool.input_grammar, self._special)
        return json_schema.prepared_call(body, self._special, lenient=tool.loose is not None)

    def _tried(self, source: _GrammarSource, reasoning: tuple[str, str] | None = None) -> str:
        """Return what `LLMatcher` takes: JSON with all grammars, the first of which is the whole.

        Raise ValueError with what is wrong with it.
        """
        grammars: list[dict[str, Any]] = [
            {"lark_grammar": lark.whole(source.expression, source.rules, reasoning, self._tags)}
        ]
        if source.answer is not None:
            grammars.append({"name": "answer", **source.answer})
        text = json.dumps({"grammars": grammars}, ensure_ascii=False)
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"it has {len(text):,} characters; there may be {_MOST_CHARACTERS:,}")
        matcher = LLMatcher(self._tokenizer, text, limits=lark.LIMITS, log_level=0)
        if reason := fault(matcher):
            raise ValueError(reason)
        return text


def strict_refusal(tool: str, reason: str, *, of_input: bool = False) -> OrchardError:
    """Return the error that says that a strict tool's schema, or the grammar of its input, can't be enforced."""
    what = "grammar of the custom" if of_input else "parameters of the strict"
    message = f"the {what} tool '{tool}' can't be enforced: {_PLACE.sub('', ' '.join(reason.split()))}"
    return OrchardError("invalid_request", message, param="tools")


def fault(matcher: LLMatcher) -> str:
    """Return what is wrong with a grammar, also where that shows only when an answer begins; "": nothing."""
    matcher = matcher.deep_copy()
    for _ in range(_TRIED):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        lowest = (allowed & -allowed).bit_length() - 1
        if not allowed or matcher.is_accepting() or not matcher.consume_token(lowest):
            break
    reason = matcher.get_error()
    if "NoExtensionBias" in reason or not (allowed or reason):
        return "nothing satisfies it"
    return _PLACE.sub("", " ".join(reason.removesuffix("<non-verbose/>").split())[:300])


class _BytesBeside:
    """A vocabulary of single bytes, in which special tokens have the ids that grammars name them by.

    It has what `TokenizerWrapper` wants.
    """

    bos_token_id = None

    def __init__(self, special: Mapping[str, int]) -> None:
        names = {id_: text.encode() for text, id_ in special.items()}
        self._first_byte = max(names, default=-1) + 1
        bytes_ = [bytes([byte]) for byte in range(256)]
        self.tokens = [*(names.get(id_, b"") for id_ in range(self._first_byte)), *bytes_, b""]
        self.eos_token_id = len(self.tokens) - 1
        self.special_token_ids = [*sorted(names), self.eos_token_id]

    def __call__(self, text: bytes) -> list[int]:
        return [self._first_byte + byte for byte in text]


def _loose(tool: ToolCalls) -> ToolCalls:
    return replace(tool, grammar=tool.loose) if tool.loose else tool


def _answer(wanted: generate.Grammar) -> dict[str, Any]:
    """Return a grammar as llguidance takes it. Raise ValueError where it can't be enforced."""
    match wanted.kind:
        case "json_schema":
            return {"json_schema": json_schema.prepared(wanted.value, lenient=not wanted.strict)}
        case "json_object":
            return {"json_schema": json_schema.prepared({"type": "object"})}
        case "regex":
            terminal = lark.regex(wanted.value, use_ascii="d") if wanted.value else lark.literal("")
            if reason := lark.fault_within(lark.whole(terminal)):
                raise ValueError(reason)
            return {"lark_grammar": lark.whole(terminal)}
        case "choice":
            return {"lark_grammar": lark.whole(" | ".join(map(lark.literal, wanted.value)))}
        case "lark":
            return {"lark_grammar": wanted.value}
