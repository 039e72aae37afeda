"""What constrains an answer: a grammar (see `writer`), where it starts, and which part of the answer is in the prompt.

Reasoning is free as long as it leaves room for a short answer. Up to two newlines may come between its end and the
answer; the formats drop them.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchard.backends.text.grammar import input_grammar, lark
from orchard.backends.text.grammar.shortest_answer import ShortestAnswers
from orchard.backends.text.grammar.writer import GrammarRequest, GrammarText, ToolCalls, grammar_fault, strict_refusal
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, TextPart, Tool
from orchard.engine.sampling.grammar import (
    MAX_NEWLINES,
    BoundGrammar,
    CompiledGrammar,
    GrammarVocabulary,
    ReasoningTokens,
)
from orchard.formats.registry import Family

_MOST_CACHED = 64
_DEFAULT_ANSWER_TOKENS = 64  # tokens that are reserved for an answer if no short one was found
_ANY_OBJECT = {"type": "object"}


class Constraint(Struct, frozen=True):
    """The grammar to enforce on one answer, before it is compiled.

    `key` identifies it; a grammar that takes long to compile has a long key. `param`: the field to blame if it can't
    be enforced; `subject` describes it in the error. `answer_prefix`: the part of the answer that is in the prompt.
    `max_tokens`: the token limit of the answer.
    """

    key: bytes
    request: GrammarRequest
    param: str
    subject: str
    reasoning: ReasoningTokens | None = None
    answer_prefix: bytes = b""
    max_tokens: int | None = None


class _Compiled(Struct, frozen=True):
    """`answer_grammar`: the grammar of an answer without reasoning.

    `grammar_with_reasoning`: the same with the reasoning's tags, if the grammar must include them.
    """

    answer_grammar: CompiledGrammar
    grammar_with_reasoning: CompiledGrammar
    source: GrammarText


class Constraints:
    """The grammars for one model. `describe` and `is_compiled` are quick; `compile` may take seconds."""

    def __init__(
        self,
        tokenizer: Any,
        bytes_of: Callable[[int], bytes] | None,
        vocab_size: int,
        *,
        special_tokens: Mapping[str, int],
        write: Callable[[GrammarRequest], GrammarText | None],
    ) -> None:
        """Compile for one model: `tokenizer` is mlx-lm's wrapper, `vocab_size` the width of the logits.

        `bytes_of` returns the bytes of a token; None if tokens have no text of their own. `special_tokens`: the ids of
        tokens that a grammar must not treat as text, by their texts. `write`: see `GrammarWriter`.
        """
        self._hf = tokenizer
        self._bytes_of = bytes_of
        self._vocab_size = vocab_size
        self._eos = sorted(token for token in tokenizer.eos_token_ids if token < vocab_size)
        self._added_tokens = {token.content: id_ for id_, token in tokenizer.added_tokens_decoder.items()}
        self._special_tokens = special_tokens
        self._tags = lark.Tags(self._special_tokens)
        self._write = write
        self._compiled: OrderedDict[bytes, _Compiled | OrchardError | None] = OrderedDict()
        self._lock = threading.Lock()  # for `_compiled`, which several threads use
        self._compile_lock = threading.Lock()

    def describe(
        self, task: Generate, family: Family, prompt: str, max_tokens: int | None = None, salt: bytes = b""
    ) -> Constraint | None:
        """Return the constraint on the answer to a rendered prompt; None if there is none.

        `max_tokens`: the token limit of the answer. `salt`: see `GrammarRequest`. Raise OrchardError if this model's
        answers can't be constrained.
        """
        if not (task.grammar or task.must_call or any(tool.strict for tool in task.tools)):
            return None
        param = task.grammar.param if task.grammar else "tool_choice" if task.must_call else "tools"
        if not (self._bytes_of and self._eos):
            if not (task.grammar or task.must_call or any(tool.input_grammar is not None for tool in task.tools)):
                return None
            message = (
                "this model's tokens have no text of their own, or none ends a turn: its answers can't be constrained"
            )
            raise OrchardError("invalid_request", message, param=param)
        reasoning = self._reasoning_tokens(task, family, prompt)
        tags = (reasoning.within.decode(), reasoning.end.decode()) if reasoning and reasoning.within else None
        header = family.headers.answer if family.headers else ""
        has_begun = task.continue_last or prompt.endswith(header)
        request = GrammarRequest(
            task.grammar,
            _tool_calls(task.tools, family),
            must_call=task.must_call,
            parallel_calls=task.parallel_tool_calls,
            header="" if has_begun else header,
            reasoning=tags,
            salt=salt,
        )
        key = msgspec.msgpack.encode((request, reasoning is None))
        subject = f"the {task.grammar.kind} of `{param}`" if task.grammar else "the tools' format"
        return Constraint(key, request, param, subject, reasoning, _answer_prefix(task, prompt), max_tokens)

    def is_compiled(self, constraint: Constraint) -> bool:
        """Return whether the constraint is compiled already, so that `compile` returns at once."""
        with self._lock:
            return constraint.key in self._compiled

    def compile(self, constraint: Constraint) -> BoundGrammar | None:
        """Return the grammar; None if there is nothing to enforce. Raise OrchardError if it can't be enforced."""
        compiled = self._compile_cached(constraint)
        if compiled is None:
            return None
        if isinstance(compiled, OrchardError):
            raise compiled.with_traceback(None)  # the error is cached: tracebacks would pile up in it
        reasoning = self._limit_reasoning(constraint.reasoning, compiled, constraint.max_tokens)
        rules = compiled.grammar_with_reasoning if reasoning and reasoning.within else compiled.answer_grammar
        prefix = constraint.answer_prefix
        prefix_tokens = rules.vocabulary.tokenize_greedily(prefix)
        if prefix and rules.first.deep_copy().try_consume_tokens(prefix_tokens) != len(prefix_tokens):
            reason = "the unfinished message that the answer continues doesn't match it"
            raise _enforcement_error(constraint, reason)
        source = compiled.source
        return BoundGrammar(f"{hash(source.text):x}", rules, reasoning, source.trigger.encode(), prefix)

    def _compile_cached(self, constraint: Constraint) -> _Compiled | OrchardError | None:
        """Return the cached result of compiling, or compile."""
        with self._lock:
            if constraint.key in self._compiled:
                self._compiled.move_to_end(constraint.key)
                return self._compiled[constraint.key]
        with self._compile_lock:
            compiled = self._compile(constraint)
        with self._lock:
            self._compiled[constraint.key] = compiled
            if len(self._compiled) > _MOST_CACHED:
                self._compiled.popitem(last=False)
        return compiled

    def _compile(self, constraint: Constraint) -> _Compiled | OrchardError | None:
        try:
            source = self._write(constraint.request)
        except OrchardError as error:
            return error
        except ValueError as error:
            return _enforcement_error(constraint, str(error))
        if source is None:
            return None
        rules = CompiledGrammar(self._grammar_vocabulary, source.text, lark.LIMITS)
        with_reasoning = (
            CompiledGrammar(self._grammar_vocabulary, source.text_with_reasoning, lark.LIMITS)
            if source.text_with_reasoning
            else rules
        )
        if reason := grammar_fault(rules.first) or grammar_fault(with_reasoning.first):
            return _enforcement_error(constraint, reason)
        if constraint.reasoning and not source.trigger:
            rules.shortest = self._short_answer_length(source)
        return _Compiled(rules, with_reasoning, source)

    def _reasoning_tokens(self, task: Generate, family: Family, prompt: str) -> ReasoningTokens | None:
        """Return how to recognise reasoning before the answer; None if there can be none."""
        tags, headers = family.reasoning_tags, family.headers
        if tags is None:
            return None
        start, end = tags
        if headers:
            end = headers.between
        if family.begin(prompt).thinking:
            return ReasoningTokens(end.encode(), opened=True)
        is_closed = prompt.endswith(headers.answer) if headers else prompt.rstrip().endswith(end)
        if (
            is_closed
            or task.continue_last
            or task.prompt is not None
            or task.template_args.get("enable_thinking") is False
        ):
            return None
        if start in self._added_tokens:
            return ReasoningTokens(end.encode(), start=self._added_tokens[start])
        return ReasoningTokens(end.encode(), within=start.encode())

    def _limit_reasoning(
        self, reasoning: ReasoningTokens | None, compiled: _Compiled, max_tokens: int | None
    ) -> ReasoningTokens | None:
        """Set when reasoning must end, so that an answer can follow; return None if it must not begin.

        It must not begin if `max_tokens` has no room for both. If the grammar is only for calls, no answer is needed.
        """
        if reasoning is None:
            return None
        closing = tuple(self._tags.tokenize(reasoning.end.decode(), self._grammar_vocabulary.tokenize_greedily))
        if compiled.answer_grammar.shortest is None:
            return None if reasoning.within else replace(reasoning, closing=closing)
        reserved_tokens = MAX_NEWLINES + compiled.answer_grammar.shortest + 1  # the token that ends the turn
        opening = len(self._tags.tokenize(reasoning.within.decode(), self._grammar_vocabulary.tokenize_greedily)) or 1
        if not reasoning.opened and max_tokens is not None and max_tokens <= opening + len(closing) + reserved_tokens:
            return None
        return replace(reasoning, closing=closing, needs=reserved_tokens)

    def _short_answer_length(self, source: GrammarText) -> int:
        """Return the number of tokens of a short answer, without reasoning."""
        answer = self._short_answers.find(source.text, lark.LIMITS, source.ends)
        return _DEFAULT_ANSWER_TOKENS if answer is None else len(answer)

    @cached_property
    def _short_answers(self) -> ShortestAnswers:
        return ShortestAnswers(self._grammar_vocabulary, list(self._special_tokens.values()), self._eos)

    @cached_property
    def _grammar_vocabulary(self) -> GrammarVocabulary:
        assert self._bytes_of
        pieces = list(map(self._bytes_of, range(self._vocab_size)))
        no_text = [token for token in (*self._special_tokens.values(), *self._eos) if token < self._vocab_size]
        return GrammarVocabulary(pieces, no_text, self._eos, partial(self._hf.encode, add_special_tokens=False))


def _enforcement_error(constraint: Constraint, reason: str) -> OrchardError:
    return OrchardError("invalid_request", f"{constraint.subject} can't be enforced: {reason}", param=constraint.param)


def _tool_calls(tools: tuple[Tool, ...], family: Family) -> tuple[ToolCalls, ...]:
    """Return the grammars of these tools' calls, if the family knows them. Raise what `GrammarWriter` raises."""
    calls = []
    for tool in tools:
        loose_grammar = None if tool.strict else family.calls_grammar([replace(tool, parameters=_ANY_OBJECT)])
        try:
            grammar = family.calls_grammar([tool if tool.input_grammar is None else input_grammar.mark_input(tool)])
        except ValueError as error:
            if loose_grammar is None:
                raise strict_refusal(tool.name, str(error)) from error
            grammar = loose_grammar
        if grammar:
            calls.append(ToolCalls(tool.name, grammar, loose_grammar, tool.input_grammar))
        elif tool.input_grammar is not None:
            raise strict_refusal(tool.name, "how this model writes calls is not known", of_input=True)
    return tuple(calls)


def _answer_prefix(task: Generate, prompt: str) -> bytes:
    """Return the part of the answer that is in the prompt, if a grammar is enforced on the answer; else b""."""
    if not (task.grammar and task.continue_last):
        return b""
    text = "".join(part.text for part in task.messages[-1].parts if isinstance(part, TextPart)).lstrip()
    return (text if prompt.endswith(text) else text.rstrip()).encode()
