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
from orchard.backends.text.grammar.writer import GrammarRequest, GrammarText, ToolCalls, fault, strict_refusal
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, TextPart, Tool
from orchard.engine.sampling.grammar import (
    MOST_NEWLINES,
    BoundGrammar,
    CompiledGrammar,
    GrammarVocabulary,
    ReasoningTokens,
)
from orchard.formats.registry import Family

_CACHED = 64
_UNKNOWN = 64  # tokens that are reserved for an answer if no short one was found
_ANY_OBJECT = {"type": "object"}


class Constraint(Struct, frozen=True):
    """The grammar to enforce on one answer, before it is compiled.

    `key` identifies it; a grammar that takes long to compile has a long key. `param`: the field to blame if it can't
    be enforced; `what` describes it in the error. `begun`: the part of the answer that is in the prompt.
    `max_tokens`: the token limit of the answer.
    """

    key: bytes
    wanted: GrammarRequest
    param: str
    what: str
    reasoning: ReasoningTokens | None = None
    begun: bytes = b""
    max_tokens: int | None = None


class _Compiled(Struct, frozen=True):
    """`rules`: the grammar of an answer without reasoning; `whole`: with the reasoning's tags, if it must have them."""

    rules: CompiledGrammar
    whole: CompiledGrammar
    written: GrammarText


class Constraints:
    """The grammars for one model. `describe` and `known` are quick; `compile` may take seconds."""

    def __init__(
        self,
        tokenizer: Any,
        bytes_of: Callable[[int], bytes] | None,
        vocab_size: int,
        *,
        special: Mapping[str, int],
        write: Callable[[GrammarRequest], GrammarText | None],
    ) -> None:
        """Compile for one model: `tokenizer` is mlx-lm's wrapper, `vocab_size` the width of the logits.

        `bytes_of` returns the bytes of a token; None if tokens have no text of their own. `special`: the ids of tokens
        that a grammar must not treat as text, by their texts. `write`: see `GrammarWriter`.
        """
        self._hf = tokenizer
        self._bytes_of = bytes_of
        self._vocab_size = vocab_size
        self._eos = sorted(token for token in tokenizer.eos_token_ids if token < vocab_size)
        self._added = {token.content: id_ for id_, token in tokenizer.added_tokens_decoder.items()}
        self._special = special
        self._tags = lark.Tags(self._special)
        self._write = write
        self._compiled: OrderedDict[bytes, _Compiled | OrchardError | None] = OrderedDict()
        self._lock = threading.Lock()  # for `_compiled`, which several threads use
        self._compiling = threading.Lock()

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
        reasoning = self._reasoning(task, family, prompt)
        tags = (reasoning.within.decode(), reasoning.end.decode()) if reasoning and reasoning.within else None
        header = family.headers.answer if family.headers else ""
        begun = task.continue_last or prompt.endswith(header)
        wanted = GrammarRequest(
            task.grammar,
            _calls(task.tools, family),
            must_call=task.must_call,
            several=task.parallel_tool_calls,
            header="" if begun else header,
            reasoning=tags,
            salt=salt,
        )
        key = msgspec.msgpack.encode((wanted, reasoning is None))
        what = f"the {task.grammar.kind} of `{param}`" if task.grammar else "the tools' format"
        return Constraint(key, wanted, param, what, reasoning, _begun(task, prompt), max_tokens)

    def known(self, constraint: Constraint) -> bool:
        """Return whether the constraint is compiled already, so that `compile` returns at once."""
        with self._lock:
            return constraint.key in self._compiled

    def compile(self, constraint: Constraint) -> BoundGrammar | None:
        """Return the grammar; None if there is nothing to enforce. Raise OrchardError if it can't be enforced."""
        found = self._found(constraint)
        if found is None:
            return None
        if isinstance(found, OrchardError):
            raise found.with_traceback(None)  # the error is cached: tracebacks would pile up in it
        reasoning = self._in_time(constraint.reasoning, found, constraint.max_tokens)
        rules, begun = found.whole if reasoning and reasoning.within else found.rules, constraint.begun
        taken = rules.vocabulary.tokenize(begun)
        if begun and rules.first.deep_copy().try_consume_tokens(taken) != len(taken):
            reason = "the unfinished message that the answer continues doesn't match it"
            raise _cannot_keep(constraint, reason)
        return BoundGrammar(f"{hash(found.written.text):x}", rules, reasoning, found.written.trigger.encode(), begun)

    def _found(self, constraint: Constraint) -> _Compiled | OrchardError | None:
        """Return the cached result of compiling, or compile."""
        with self._lock:
            if constraint.key in self._compiled:
                self._compiled.move_to_end(constraint.key)
                return self._compiled[constraint.key]
        with self._compiling:
            found = self._compile(constraint)
        with self._lock:
            self._compiled[constraint.key] = found
            if len(self._compiled) > _CACHED:
                self._compiled.popitem(last=False)
        return found

    def _compile(self, constraint: Constraint) -> _Compiled | OrchardError | None:
        try:
            written = self._write(constraint.wanted)
        except OrchardError as error:
            return error
        except ValueError as error:
            return _cannot_keep(constraint, str(error))
        if written is None:
            return None
        rules = CompiledGrammar(self._letters, written.text, lark.LIMITS)
        whole = CompiledGrammar(self._letters, written.whole, lark.LIMITS) if written.whole else rules
        if reason := fault(rules.first) or fault(whole.first):
            return _cannot_keep(constraint, reason)
        if constraint.reasoning and not written.trigger:
            rules.shortest = self._shortest(written)
        return _Compiled(rules, whole, written)

    def _reasoning(self, task: Generate, family: Family, prompt: str) -> ReasoningTokens | None:
        """Return how to recognise the reasoning before the answer; None if none may come."""
        tags, headers = family.reasoning_tags, family.headers
        if tags is None:
            return None
        start, end = tags
        if headers:
            end = headers.between
        if family.begin(prompt).thinking:
            return ReasoningTokens(end.encode(), opened=True)
        closed = prompt.endswith(headers.answer) if headers else prompt.rstrip().endswith(end)
        if (
            closed
            or task.continue_last
            or task.prompt is not None
            or task.template_args.get("enable_thinking") is False
        ):
            return None
        if start in self._added:
            return ReasoningTokens(end.encode(), start=self._added[start])
        return ReasoningTokens(end.encode(), within=start.encode())

    def _in_time(
        self, reasoning: ReasoningTokens | None, compiled: _Compiled, max_tokens: int | None
    ) -> ReasoningTokens | None:
        """Add to `reasoning` when it must end, so that an answer can follow; return None if it must not begin.

        It must not begin if `max_tokens` has no room for both. If the grammar is only for calls, no answer is needed.
        """
        if reasoning is None:
            return None
        closing = tuple(self._tags.cut(reasoning.end.decode(), self._letters.tokenize))
        if compiled.rules.shortest is None:
            return None if reasoning.within else replace(reasoning, closing=closing)
        needs = MOST_NEWLINES + compiled.rules.shortest + 1  # the token that ends the turn
        opening = len(self._tags.cut(reasoning.within.decode(), self._letters.tokenize)) or 1
        if not reasoning.opened and max_tokens is not None and max_tokens <= opening + len(closing) + needs:
            return None
        return replace(reasoning, closing=closing, needs=needs)

    def _shortest(self, written: GrammarText) -> int:
        """Return the number of tokens of a short answer, without reasoning."""
        found = self._short_answers.find(written.text, lark.LIMITS, written.ends)
        return _UNKNOWN if found is None else len(found)

    @cached_property
    def _short_answers(self) -> ShortestAnswers:
        return ShortestAnswers(self._letters, list(self._special.values()), self._eos)

    @cached_property
    def _letters(self) -> GrammarVocabulary:
        assert self._bytes_of
        pieces = list(map(self._bytes_of, range(self._vocab_size)))
        special = [token for token in (*self._special.values(), *self._eos) if token < self._vocab_size]
        return GrammarVocabulary(pieces, special, self._eos, partial(self._hf.encode, add_special_tokens=False))


def _cannot_keep(constraint: Constraint, reason: str) -> OrchardError:
    return OrchardError("invalid_request", f"{constraint.what} can't be enforced: {reason}", param=constraint.param)


def _calls(tools: tuple[Tool, ...], family: Family) -> tuple[ToolCalls, ...]:
    """Return the grammars of these tools' calls, if the family knows them. Raise what `GrammarWriter` raises."""
    found = []
    for tool in tools:
        loose = None if tool.strict else family.calls_grammar([replace(tool, parameters=_ANY_OBJECT)])
        try:
            grammar = family.calls_grammar([tool if tool.input_grammar is None else input_grammar.marked(tool)])
        except ValueError as error:
            if loose is None:
                raise strict_refusal(tool.name, str(error)) from error
            grammar = loose
        if grammar:
            found.append(ToolCalls(tool.name, grammar, loose, tool.input_grammar))
        elif tool.input_grammar is not None:
            raise strict_refusal(tool.name, "how this model writes calls is not known", of_input=True)
    return tuple(found)


def _begun(task: Generate, prompt: str) -> bytes:
    """Return the part of the answer that is in the prompt, if a grammar is enforced on the answer; else b""."""
    if not (task.grammar and task.continue_last):
        return b""
    text = "".join(part.text for part in task.messages[-1].parts if isinstance(part, TextPart)).lstrip()
    return (text if prompt.endswith(text) else text.rstrip()).encode()
