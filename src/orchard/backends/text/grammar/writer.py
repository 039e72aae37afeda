"""Writes what an answer must look like as a grammar for llguidance (https://github.com/guidance-ai/llguidance).

Reading schemas and patterns, and compiling the results, may take any time and memory, and can crash. So all of it is
done in a separate process (`process`).

- A grammar is enforced on the text of the answer. If there are tools, calls in the model's own format may replace it.
- Calls that must be made (`must_call`) are the whole answer.
- Strict tools don't require a call. But wherever a text opens a call, the call is enforced. If no text opens a format's
  calls, an answer that begins like a call must be one. If the format or the tokens are not known well enough, strict
  tools are like others.
- The grammar of a custom tool is enforced on its input, in a JSON string or as plain text; if that is not possible, the
  request is rejected.
- For tools that are not strict, as much of the schema as possible is enforced.
- In JSON there is a space, a newline with an indentation, or nothing between two parts.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from msgspec import Struct
from msgspec.structs import replace

from orchard.backends.text.grammar import input_grammar, json_schema, lark
from orchard.core.errors import OrchardError
from orchard.core.tasks import generate
from orchard.formats.call_grammar import CallsGrammar, Node, TextValue, leaves

_MOST_CHARACTERS = 256 * 1024
# Where an error is in a grammar of this module.
_ERROR_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?| \d+ \| .*")
_TRIAL_TOKENS = 4  # tokens of an answer


class ToolCalls(Struct, frozen=True):
    """The grammar of one tool's calls; `loose_grammar`: with any object as arguments, None if the tool is strict.

    `input_grammar`: the grammar of the input that is marked in `grammar`.
    """

    name: str
    grammar: CallsGrammar
    loose_grammar: CallsGrammar | None
    input_grammar: str | None = None


class GrammarRequest(Struct, frozen=True):
    """What an answer must look like.

    `parallel_calls`: there may be several calls. `header`: the beginning of the answer, before the grammar is enforced.
    `reasoning`: the texts that begin and end the reasoning, if the grammar must include it. `salt`: that of the
    request's `CacheScope`; what the process remembers of a grammar serves only requests with the same salt.
    """

    grammar: generate.Grammar | None
    tools: tuple[ToolCalls, ...]
    must_call: bool
    parallel_calls: bool
    header: str = ""
    reasoning: tuple[str, str] | None = None
    salt: bytes = b""


class GrammarText(Struct, frozen=True):
    """A grammar that compiles.

    `text`: the grammar as `LLMatcher` takes it. `text_with_reasoning`: the same with the reasoning before it, if
    the grammar must include that; else "".
    `trigger`: the grammar is enforced after each occurrence of this text. `ends`: the ends of free texts in calls.
    """

    text: str
    text_with_reasoning: str = ""
    trigger: str = ""
    ends: tuple[str, ...] = ()


class _GrammarSource(Struct, frozen=True):
    """An incomplete grammar: an expression, the rules that it uses, and the grammar that `@answer` stands for."""

    expression: str
    rules: str = ""
    answer: dict[str, Any] | None = None
    trigger: str = ""


class GrammarWriter:
    """Writes grammars for one model."""

    def __init__(self, special_tokens: Mapping[str, int]) -> None:
        """Write for a model with these special tokens: ids by their texts."""
        self._special_tokens = special_tokens.keys()
        self._tags = lark.Tags(special_tokens)
        tokens = _ByteVocabulary(special_tokens)
        self._tokenizer = LLTokenizer(TokenizerWrapper(tokens), len(tokens.tokens), [tokens.eos_token_id])

    def write(self, request: GrammarRequest) -> GrammarText | None:
        """Return the grammar; None if there is nothing to enforce.

        Raise ValueError with the reason if it can't be enforced, OrchardError if a strict tool's schema can't be.
        """
        try:
            return self._write_text(request)
        except ValueError:
            tools = tuple(map(self._loosen_if_unenforceable, request.tools))
            if tools == request.tools:  # only the combination fails, or no tool is the cause
                tools = tuple(map(_loosen, tools))
            if tools == request.tools:
                raise
            return self.write(replace(request, tools=tools))

    def _write_text(self, request: GrammarRequest) -> GrammarText | None:
        source = self._grammar_source(request)
        if source is None:
            return None
        text = self._enforceable_text(source)
        with_reasoning = (
            self._enforceable_text(source, request.reasoning) if request.reasoning and not source.trigger else ""
        )
        nodes = [node for tool in request.tools for call in tool.grammar.calls for node in leaves(call.body)]
        ends = dict.fromkeys(node.end for node in nodes if isinstance(node, TextValue))
        return GrammarText(text, with_reasoning, source.trigger, tuple(ends))

    def _grammar_source(self, request: GrammarRequest) -> _GrammarSource | None:
        grammar = self._joined_calls(request.tools)
        calls = lark.call_rules(grammar, self._tags, parallel=request.parallel_calls) if grammar else ""
        if request.must_call:
            if not calls:
                raise ValueError("how this model writes calls is not known")
            return _GrammarSource("calls", calls)
        if request.grammar:
            answer = f"{self._tags.literal(request.header)} @answer" if request.header else "@answer"
            return _GrammarSource(f"{answer} | calls" if calls else answer, calls, _answer_grammar(request.grammar))
        # Calls of strict tools are enforced; other text is free.
        if grammar and not grammar.trigger:
            return _GrammarSource("free | calls", calls + lark.FREE_TEXT_RULE)
        if grammar and (rules := lark.triggered_call_rules(grammar, self._tags, parallel=request.parallel_calls)):
            return _GrammarSource("calls", rules, trigger=grammar.trigger)
        if any(tool.input_grammar is not None for tool in request.tools):
            raise ValueError("this model's calls can't be told from its text before they are written")
        return None

    def _loosen_if_unenforceable(self, tool: ToolCalls) -> ToolCalls:
        """Return the tool, or one that takes any object if its schema can't be enforced.

        Raise OrchardError if its schema can't be enforced and it is strict.
        """
        try:
            grammar = self._joined_calls((tool,))
            if grammar:
                self._enforceable_text(_GrammarSource("calls", lark.call_rules(grammar, self._tags, parallel=False)))
        except ValueError as error:
            if tool.loose_grammar:
                return _loosen(tool)
            raise strict_refusal(tool.name, str(error), of_input=tool.input_grammar is not None) from error
        return tool

    def _joined_calls(self, tools: tuple[ToolCalls, ...]) -> CallsGrammar | None:
        """Return the grammar of some tools' calls. Raise ValueError if a schema can't be enforced."""
        if not tools:
            return None
        calls = [replace(call, body=self._call_body(tool, call.body)) for tool in tools for call in tool.grammar.calls]
        return replace(tools[0].grammar, calls=tuple(calls))

    def _call_body(self, tool: ToolCalls, body: Node) -> Node:
        if tool.input_grammar is not None:
            return input_grammar.enforce_input(body, tool.input_grammar, self._special_tokens)
        return json_schema.prepare_call(body, self._special_tokens, lenient=tool.loose_grammar is not None)

    def _enforceable_text(self, source: _GrammarSource, reasoning: tuple[str, str] | None = None) -> str:
        """Return a grammar as `LLMatcher` takes it: JSON with all grammars, the complete one first.

        Raise ValueError with the reason if it can't be enforced.
        """
        grammars: list[dict[str, Any]] = [
            {"lark_grammar": lark.complete_grammar(source.expression, source.rules, reasoning, self._tags)}
        ]
        if source.answer is not None:
            grammars.append({"name": "answer", **source.answer})
        text = json.dumps({"grammars": grammars}, ensure_ascii=False)
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"it has {len(text):,} characters; there may be {_MOST_CHARACTERS:,}")
        matcher = LLMatcher(self._tokenizer, text, limits=lark.LIMITS, log_level=0)
        if reason := grammar_fault(matcher):
            raise ValueError(reason)
        return text


def strict_refusal(tool: str, reason: str, *, of_input: bool = False) -> OrchardError:
    """Return the error for a strict tool whose schema, or the grammar of whose input, can't be enforced."""
    subject = "grammar of the custom" if of_input else "parameters of the strict"
    message = f"the {subject} tool '{tool}' can't be enforced: {_ERROR_PLACE.sub('', ' '.join(reason.split()))}"
    return OrchardError("invalid_request", message, param="tools")


def grammar_fault(matcher: LLMatcher) -> str:
    """Return what is wrong with a grammar, including faults that only show when an answer begins; "" if nothing."""
    matcher = matcher.deep_copy()
    for _ in range(_TRIAL_TOKENS):
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        lowest = (mask & -mask).bit_length() - 1
        if not mask or matcher.is_accepting() or not matcher.consume_token(lowest):
            break
    reason = matcher.get_error()
    if "NoExtensionBias" in reason or not (mask or reason):
        return "nothing satisfies it"
    return _ERROR_PLACE.sub("", " ".join(reason.removesuffix("<non-verbose/>").split())[:300])


class _ByteVocabulary:
    """A vocabulary of single bytes, and of special tokens with the ids by which grammars name them.

    It has the attributes that `TokenizerWrapper` needs.
    """

    bos_token_id = None

    def __init__(self, special_tokens: Mapping[str, int]) -> None:
        names = {id_: text.encode() for text, id_ in special_tokens.items()}
        self._first_byte = max(names, default=-1) + 1
        bytes_ = [bytes([byte]) for byte in range(256)]
        self.tokens = [*(names.get(id_, b"") for id_ in range(self._first_byte)), *bytes_, b""]
        self.eos_token_id = len(self.tokens) - 1
        self.special_token_ids = [*sorted(names), self.eos_token_id]

    def __call__(self, text: bytes) -> list[int]:
        return [self._first_byte + byte for byte in text]


def _loosen(tool: ToolCalls) -> ToolCalls:
    return replace(tool, grammar=tool.loose_grammar) if tool.loose_grammar else tool


def _answer_grammar(grammar: generate.Grammar) -> dict[str, Any]:
    """Return a grammar as llguidance takes it. Raise ValueError if it can't be enforced."""
    match grammar.kind:
        case "json_schema":
            return {"json_schema": json_schema.prepare_schema(grammar.value, lenient=not grammar.strict)}
        case "json_object":
            return {"json_schema": json_schema.prepare_schema({"type": "object"})}
        case "regex":
            terminal = lark.regex_terminal(grammar.value, use_ascii="d") if grammar.value else lark.text_literal("")
            if reason := lark.repetition_fault(lark.complete_grammar(terminal)):
                raise ValueError(reason)
            return {"lark_grammar": lark.complete_grammar(terminal)}
        case "choice":
            return {"lark_grammar": lark.complete_grammar(" | ".join(map(lark.text_literal, grammar.value)))}
        case "lark":
            return {"lark_grammar": grammar.value}
