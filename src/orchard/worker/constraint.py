"""What an answer must look like becomes a grammar of llguidance's (https://github.com/guidance-ai/llguidance).

- A grammar binds the text of the answer. Where there are tools, calls in the model's own format may take its place.
- Calls that must be made (`must_call`) are the whole answer.
- Strict tools ask for nothing: from the text on that opens a call, whatever stands before it, the call is bound. Where
  a format's calls have no text of their own to open them, an answer that begins like one is bound. Where the format or
  the tokens are not known well enough, strict tools are like others.
- Of tools that are not strict, calls keep as much of the schema as can be kept.
- Reasoning is free, while it leaves room for a short answer. Between its end and the answer two newlines may stand; the
  formats drop them.
- In JSON there is a space, a newline with an indentation, or nothing between two parts.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from llguidance import LLMatcher, regex_to_lark
from msgspec import Struct
from msgspec.structs import replace

from orchard.core import request
from orchard.core.errors import OrchardError
from orchard.core.request import Generate, TextPart, Tool
from orchard.engine.grammar import MOST_NEWLINES, Alphabet, Grammar, Reasoning, Rules
from orchard.formats import Family
from orchard.formats.shapes import CallsShape, parts
from orchard.worker import json_schema, lark
from orchard.worker.markers import template_source
from orchard.worker.output import Vocabulary
from orchard.worker.shortest import ShortestAnswers

_MOST_CHARACTERS = 256 * 1024
_CACHED = 64
_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?| \d+ \| .*")  # in a grammar of our own
_ANY_OBJECT = {"type": "object"}
_TRIED = 4  # tokens of an answer
_UNKNOWN = 64  # tokens that are kept for an answer of which no short one was found


class _Source(Struct, frozen=True):
    """A grammar before it is compiled: an expression, the rules in it, and what `@answer` in it stands for.

    `trigger`: the text behind which it begins to bind, each time. `ends`: what ends the free texts in calls.
    """

    expression: str
    rules: str = ""
    answer: dict[str, Any] | None = None
    trigger: str = ""
    ends: tuple[str, ...] = ()


class Constraints:
    """Compiles the grammars for one model. Belongs to one thread, off the event loop: compiling takes its time."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, vocab_size: int, eos_token_ids: Collection[int]) -> None:
        """`tokenizer` is mlx-lm's wrapper, `vocab_size` the width of the logits."""
        self._hf = tokenizer
        self._vocabulary = vocabulary
        self._vocab_size = vocab_size
        self._eos = sorted(token for token in eos_token_ids if token < vocab_size)
        added, template = tokenizer.added_tokens_decoder, template_source(tokenizer)
        self._added = {token.content: id_ for id_, token in added.items()}
        # A tag that is no special token, but a token of its own that the template writes, is no text either.
        special = {token.content for token in added.values() if token.special}
        special |= {text for text in self._added if text.startswith(("<", "[")) and text in template}
        self._special = {text: self._added[text] for text in special}
        self._tags = lark.Tags(self._special)
        self._alphabet: Alphabet | None = None
        self._short_answers: ShortestAnswers | None = None
        self._compiled: OrderedDict[str, Rules | str] = OrderedDict()

    def compile(self, task: Generate, family: Family, prompt: str, max_tokens: int | None = None) -> Grammar | None:
        """Give what binds the answer to a rendered prompt; None where nothing does.

        `max_tokens`: how long the answer may be. Raises OrchardError on what can't be kept.
        """
        if not (task.grammar or task.must_call or any(tool.strict for tool in task.tools)):
            return None
        param = task.grammar.param if task.grammar else "tool_choice" if task.must_call else "tools"
        if not (self._vocabulary.exact and self._eos):
            if not (task.grammar or task.must_call):
                return None
            message = "this model's tokens have no text of their own, or none ends a turn: its answers can't be bound"
            raise OrchardError("invalid_request", message, param=param)
        try:
            return self._made(task, family, prompt, max_tokens)
        except ValueError as error:
            what = f"the {task.grammar.kind} of `{param}`" if task.grammar else "the tools' format"
            reason = _PLACE.sub("", str(error))
            raise OrchardError("invalid_request", f"{what} can't be kept: {reason}", param=param) from error

    def _made(self, task: Generate, family: Family, prompt: str, max_tokens: int | None) -> Grammar | None:
        try:
            source = self._source(task, family, prompt)
            if source is None:
                return None
            reasoning = self._reasoning(task, family, prompt)
            if reasoning:
                reasoning = self._in_time(reasoning, source, max_tokens)
            text = self._text(source, reasoning)
            rules = self._rules(text)
        except ValueError:
            kept = tuple(self._kept(tool, family) for tool in task.tools)
            if kept == task.tools:  # it is all of them together, or none of them
                kept = tuple(tool if tool.strict else replace(tool, parameters=_ANY_OBJECT) for tool in kept)
            if kept == task.tools:
                raise
            return self._made(replace(task, tools=kept), family, prompt, max_tokens)
        begun = _begun(task, prompt)
        taken = rules.alphabet.cut(begun)
        if begun and rules.first.deep_copy().try_consume_tokens(taken) != len(taken):
            raise ValueError("the unfinished message that the answer goes on with doesn't keep it")
        return Grammar(f"{hash(text):x}", rules, reasoning, source.trigger.encode(), begun)

    def _reasoning(self, task: Generate, family: Family, prompt: str) -> Reasoning | None:
        """Say what reasoning may come before the answer."""
        tags, headers = family.reasoning_tags, family.headers
        if tags is None:
            return None
        start, end = tags
        if headers:
            end = headers.between
        closing = tuple(self._tags.cut(end, self._letters().cut))
        if family.begin(prompt).thinking:
            return Reasoning(end.encode(), opened=True, closing=closing)
        closed = prompt.endswith(headers.answer) if headers else prompt.rstrip().endswith(end)
        if (
            closed
            or task.continue_last
            or task.prompt is not None
            or task.template_args.get("enable_thinking") is False
        ):
            return None
        if start in self._added:
            return Reasoning(end.encode(), start=self._added[start], closing=closing)
        return Reasoning(end.encode(), within=start.encode(), closing=closing)

    def _in_time(self, reasoning: Reasoning, source: _Source, max_tokens: int | None) -> Reasoning | None:
        """Say when the reasoning must end for an answer to follow it; None where the model may not begin it.

        It doesn't begin where an answer of `max_tokens` has no room for both. Where only calls are bound, none is due.
        """
        if source.trigger:
            return None if reasoning.within else reasoning
        needs = MOST_NEWLINES + self._shortest(source) + 1  # the token that ends the turn
        opening = len(self._tags.cut(reasoning.within.decode(), self._letters().cut)) or 1
        if not reasoning.opened and max_tokens is not None and max_tokens <= opening + len(reasoning.closing) + needs:
            return None
        return replace(reasoning, needs=needs)

    def _shortest(self, source: _Source) -> int:
        """Give the tokens of a short answer, without reasoning."""
        text = self._text(source, None)
        rules = self._rules(text)
        if rules.shortest is None:
            if self._short_answers is None:
                self._short_answers = ShortestAnswers(self._letters(), list(self._special.values()), self._eos)
            found = self._short_answers.find(text, lark.LIMITS, source.ends)
            rules.shortest = _UNKNOWN if found is None else len(found)
        return rules.shortest

    def _source(self, task: Generate, family: Family, prompt: str) -> _Source | None:
        shape = self._shape(task.tools, family)
        calls = lark.calls(shape, self._tags, several=task.parallel_tool_calls) if shape else ""
        ends = (
            tuple({part["end"]: None for call in shape.calls for kind, part in parts(call.body) if kind == "text"})
            if shape
            else ()
        )
        if task.must_call:
            if not calls:
                raise ValueError("how this model writes calls is not known")
            return _Source("calls", calls, ends=ends)
        if task.grammar:
            header = family.headers.answer if family.headers else ""
            begun = not header or task.continue_last or prompt.endswith(header)
            answer = "@answer" if begun else f"{self._tags.literal(header)} @answer"
            return _Source(f"{answer} | calls" if calls else answer, calls, _answer(task.grammar), ends=ends)
        return self._strict(shape, calls, several=task.parallel_tool_calls) if shape else None

    def _strict(self, shape: CallsShape, calls: str, *, several: bool) -> _Source | None:
        """Bind calls only; all else is free."""
        if not shape.trigger:
            return _Source("free | calls", calls + lark.FREE)
        rules = lark.triggered(shape, self._tags, several=several)
        return _Source("calls", rules, trigger=shape.trigger) if rules else None

    def _shape(self, tools: tuple[Tool, ...], family: Family) -> CallsShape | None:
        """Say what calls of these tools look like. Raises ValueError where that of some can't be kept."""
        shapes = [shape for tool in tools if (shape := family.calls([tool]))]
        if not shapes:
            return None
        calls = [
            replace(call, body=json_schema.prepared_body(call.body, lenient=not tool.strict))
            for tool, shape in zip(tools, shapes, strict=True)
            for call in shape.calls
        ]
        return replace(shapes[0], calls=tuple(calls))

    def _kept(self, tool: Tool, family: Family) -> Tool:
        """Give a tool that takes any object where its schema can't be kept. Raises OrchardError where it is strict."""
        try:
            shape = self._shape((tool,), family)
            source = _Source("calls", lark.calls(shape, self._tags, several=False)) if shape else None
            if source:
                self._rules(self._text(source, None))
        except ValueError as error:
            if not tool.strict:
                return replace(tool, parameters=_ANY_OBJECT)
            reason = _PLACE.sub("", str(error))
            message = f"the parameters of the strict tool '{tool.name}' can't be kept: {reason}"
            raise OrchardError("invalid_request", message, param="tools") from error
        return tool

    def _text(self, source: _Source, reasoning: Reasoning | None) -> str:
        """Give what `LLMatcher` takes: JSON with all grammars, the first of which is the whole."""
        tags = (reasoning.within.decode(), reasoning.end.decode()) if reasoning and reasoning.within else None
        grammars: list[dict[str, Any]] = [
            {"lark_grammar": lark.whole(source.expression, source.rules, tags, self._tags)}
        ]
        if source.answer is not None:
            grammars.append({"name": "answer", **source.answer})
        return json.dumps({"grammars": grammars}, ensure_ascii=False)

    def _rules(self, text: str) -> Rules:
        """Compile, or find what was compiled. Raises ValueError with what is wrong with it."""
        known = self._compiled.pop(text, None)
        if known is None:
            known = self._compile(text)
        self._compiled[text] = known
        if len(self._compiled) > _CACHED:
            self._compiled.popitem(last=False)
        if isinstance(known, str):
            raise ValueError(known)
        return known

    def _compile(self, text: str) -> Rules | str:
        if len(text) > _MOST_CHARACTERS:
            return f"it has {len(text):,} characters; there may be {_MOST_CHARACTERS:,}"
        rules = Rules(self._letters(), text, lark.LIMITS)
        reason = rules.first.get_error() or _fault(rules.first.deep_copy())
        if "NoExtensionBias" in reason:
            return "nothing keeps it"
        return " ".join(reason.removesuffix("<non-verbose/>").split())[:300] if reason else rules

    def _letters(self) -> Alphabet:
        if self._alphabet is None:
            pieces = [self._vocabulary.bytes_of(token) for token in range(self._vocab_size)]
            special = [token for token in (*self._special.values(), *self._eos) if token < self._vocab_size]

            def cut(text: str) -> list[int]:
                tokens: list[int] = self._hf.encode(text, add_special_tokens=False)
                return tokens

            self._alphabet = Alphabet(pieces, special, self._eos, cut)
        return self._alphabet


def _answer(wanted: request.Grammar) -> dict[str, Any]:
    """Give a grammar as llguidance takes it. Raises ValueError where it can't be kept."""
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


def _begun(task: Generate, prompt: str) -> bytes:
    """Give what of the answer that a grammar binds stands in the prompt already."""
    if not (task.grammar and task.continue_last):
        return b""
    text = "".join(part.text for part in task.messages[-1].parts if isinstance(part, TextPart)).lstrip()
    return (text if prompt.endswith(text) else text.rstrip()).encode()


def _fault(matcher: LLMatcher) -> str:
    """Say what is wrong with a grammar that shows only where it begins: too large, or nothing keeps it; else ""."""
    for _ in range(_TRIED):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        if matcher.is_error() or not allowed:
            return matcher.get_error() or "nothing keeps it"
        lowest = (allowed & -allowed).bit_length() - 1
        if matcher.is_accepting() or not matcher.consume_token(lowest):
            break
    return matcher.get_error()
