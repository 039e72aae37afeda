"""A request becomes tokens: messages for the chat template, the template, the tokenizer, and what may be refused."""

import functools
import inspect
import json
import logging
import math
import os
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from orchard.backends.text import GenerationDefaults
from orchard.core.errors import OrchardError
from orchard.core.request import (
    Generate,
    Message,
    Part,
    ReasoningPart,
    Sampling,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
)
from orchard.engine.job import SamplingParams
from orchard.worker import markers
from orchard.worker.output import Vocabulary

log = logging.getLogger("orchard.worker")

_SLICE = 16_384  # characters handled at once: the interpreter's lock is never held for long
_LONG_CHARS_PER_TOKEN = 6  # more than prose has, so a text with more characters hardly fits
_COMMON_ARGS = {
    "enable_thinking",
    "reasoning_effort",
    "thinking_budget",
}  # what requests can set by fields of their own


class Prepared(Struct, frozen=True):
    """A request that the engine can take. `text` is the rendered prompt, `max_tokens` what the window leaves.

    `boundaries`: the places but the first where a message begins in `tokens`, ascending.
    """

    tokens: list[int]
    text: str
    params: SamplingParams
    max_tokens: int
    boundaries: tuple[int, ...] = ()


class Prompter:
    """Prepares requests for one model. `prepare` takes as long as the prompt needs: call it off the event loop.

    A `max_tokens` beyond what the context window leaves is not an error: the answer ends at the window, with the
    reason "length".
    """

    def __init__(
        self,
        tokenizer: Any,
        vocabulary: Vocabulary,
        context_window: int,
        vocab_size: int,
        defaults: GenerationDefaults,
        *,
        max_rows: int,
    ) -> None:
        """`tokenizer` is mlx-lm's wrapper, `vocab_size` the width of the logits, `max_rows` the most choices."""
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._window = context_window
        self._vocab_size = vocab_size
        self._defaults = defaults
        self._max_rows = max_rows
        self._hf = tokenizer._tokenizer
        own = inspect.signature(self._hf.apply_chat_template).parameters.keys() - {"documents", "kwargs"}
        self._reserved = own | {"messages", "self"}
        pieces = [vocabulary.bytes_of(token).decode("utf-8", "replace") for token in tokenizer.get_vocab().values()]
        self._longest = max(map(len, pieces), default=1)
        self._most_words = max((len(piece.split()) for piece in pieces), default=1)
        self._xtc_keep = markers.xtc_keep(tokenizer)
        self._thinking = markers.thinking(tokenizer)
        self._opener = markers.turn_opener(tokenizer, self._fill)

    def check_template(self) -> None:
        """Raise OrchardError (model_failed) where the chat template is broken in itself.

        One that runs and refuses a lone user message may be made for other conversations.
        """
        try:
            self._apply(Generate((Message("user", (TextPart("Hi"),)),)))
        except Exception as error:
            # Like Python's, Jinja's error of a source that does not compile has the number of the line.
            if (line := getattr(error, "lineno", None)) is not None:
                reason = str(error).splitlines()[0]
                message = f"the model's chat template is broken: line {line}: {reason}"
                raise OrchardError("model_failed", message) from error
            log.info("the chat template refuses a lone user message: %s", error)

    def prepare(self, task: Generate) -> Prepared:
        """Render, tokenise and check. Raises OrchardError on what the caller did wrong."""
        self._check(task)
        self._refuse_beyond_window(self._fewest_of(task.messages), at_least=True)
        text, budget = self._budget(task, self._render(task))
        params = self._params(task.sampling, task.top_logprobs, budget)
        tokens = self._tokenize(text)
        if not tokens:
            message = "the model's chat template made an empty prompt of these messages"
            raise OrchardError("invalid_request", message, param="messages")
        left = self._window - len(tokens)
        return Prepared(
            tokens,
            text,
            params,
            left if task.max_tokens is None else min(left, task.max_tokens),
            tuple(place for place, token in enumerate(tokens) if token == self._opener and place),
        )

    def _check(self, task: Generate) -> None:
        for token, bias in task.sampling.logit_bias.items():
            if not 0 <= token < self._vocab_size:
                raise OrchardError(
                    "invalid_request",
                    f"{token} is no token id of this model: they go from 0 to {self._vocab_size - 1}",
                    param="logit_bias",
                )
            if not math.isfinite(bias):
                raise OrchardError("invalid_request", f"the bias of token {token} is not a number", param="logit_bias")
        if not 1 <= task.n <= self._max_rows:
            raise OrchardError("invalid_request", f"n must be from 1 to {self._max_rows}", param="n")
        if task.max_tokens is not None and task.max_tokens < 1:
            raise OrchardError("invalid_request", "max_tokens must be at least 1", param="max_tokens")
        if task.thinking_budget is not None and self._thinking is None:
            message = "this model has no token of its own that ends its reasoning, so thinking_budget can't be kept"
            raise OrchardError("invalid_request", message, param="thinking_budget")
        for name in task.template_args:
            if name in self._reserved:
                raise OrchardError(
                    "invalid_request", f"'{name}' can't be set for the chat template", param="chat_template_kwargs"
                )

    def _budget(self, task: Generate, text: str) -> tuple[str, int | None]:
        """Give the prompt and the budget of an answer that begins within the reasoning, else None.

        The engine counts from the answer's first token, so where the template leaves it to the model to open its
        reasoning, that is done here. Where the template has ended it, or the caller turned it off, there is none.
        """
        if task.thinking_budget is None or self._thinking is None:
            return text, None
        tail = text.rstrip()
        if tail.endswith(self._thinking.start):
            return text, task.thinking_budget
        if tail.endswith(self._thinking.end) or task.template_args.get("enable_thinking") is False:
            return text, None
        return text + self._thinking.start, task.thinking_budget

    def _params(self, sampling: Sampling, top_logprobs: int | None, thinking_budget: int | None) -> SamplingParams:
        defaults = self._defaults

        def known(wanted: float | None, default: float) -> float:
            return default if wanted is None else wanted

        return SamplingParams(
            seed=int.from_bytes(os.urandom(8)) if sampling.seed is None else sampling.seed,
            temperature=known(sampling.temperature, defaults.temperature),
            top_p=known(sampling.top_p, defaults.top_p),
            top_k=defaults.top_k if sampling.top_k is None else sampling.top_k,
            min_p=known(sampling.min_p, defaults.min_p),
            repetition_penalty=known(sampling.repetition_penalty, defaults.repetition_penalty),
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_context=sampling.repetition_context,
            presence_context=sampling.presence_context,
            frequency_context=sampling.frequency_context,
            xtc_probability=sampling.xtc_probability,
            xtc_threshold=sampling.xtc_threshold,
            xtc_keep=self._xtc_keep,
            thinking_budget=thinking_budget,
            think_end=self._thinking.end_id if self._thinking else -1,
            logit_bias=sampling.logit_bias,
            top_logprobs=top_logprobs,
        )

    def _render(self, task: Generate) -> str:
        try:
            return self._apply(task)
        except Exception as error:
            # A variable of the caller's may have taken the place of something that the template needs.
            own = sorted(task.template_args.keys() - _COMMON_ARGS)
            given = f" with {', '.join(own)} set" if own else ""
            message = f"the model's chat template refused these messages{given}: {error or type(error).__name__}"
            param = "chat_template_kwargs" if own else "messages"
            raise OrchardError("invalid_request", message, param=param) from error

    def _apply(self, task: Generate) -> str:
        return self._fill(
            _conversation(task.messages),
            tools=[_tool(tool) for tool in task.tools] or None,
            add_generation_prompt=True,
            **task.template_args,
        )

    def _fill(self, conversation: list[dict[str, Any]], **variables: Any) -> str:
        # Not mlx-lm's apply_chat_template: it sets enable_thinking where the request says nothing, and the template's
        # own default is what the model was made for.
        template = self._tokenizer._chat_template
        render = template or functools.partial(self._hf.apply_chat_template, tokenize=False)
        text: str = render(conversation, **variables)
        return text

    def _tokenize(self, text: str) -> list[int]:
        """Tokenise; a text that can't fit is refused before the work of tokenising all of it."""
        self._refuse_beyond_window(self._fewest_tokens([text]), at_least=True)
        if len(text) > _LONG_CHARS_PER_TOKEN * self._window:
            count = 0
            for start in range(0, len(text), _SLICE):
                count += len(self._encode(text[start : start + _SLICE]))
                if count > 2 * self._window:
                    # A cut changes only the tokens around it, so half of these is certain.
                    self._refuse_beyond_window(count // 2, at_least=True)
        tokens = self._encode(text)
        self._refuse_beyond_window(len(tokens), at_least=False)
        return tokens

    def _encode(self, text: str) -> list[int]:
        # The template wrote the special tokens itself. verbose=False: no warning of a length that is checked here.
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens

    def _fewest_of(self, messages: tuple[Message, ...]) -> int:
        """Give a lower bound without rendering: what a template may leave out does not count.

        Every template writes at least one token for a message, a call and a result. Texts of users and tools are
        written in full, but for the space around them; what assistants said may have been thinking, and only one
        system message may be kept.
        """
        turns = sum(map(_turns, messages))
        if turns >= self._window:
            return turns
        told = (part for message in messages if message.role in ("user", "tool") for part in message.parts)
        texts = [piece.text for part in told for piece in _pieces(part) if isinstance(piece, TextPart)]
        return max(turns, self._fewest_tokens(text.strip() for text in texts))

    def _fewest_tokens(self, texts: Iterable[str]) -> int:
        """Give a cheap lower bound: from the longest token, and from the token with the most words in it.

        The texts may stand next to each other, or with anything between them.
        """
        texts = list(texts)
        chars = sum(map(len, texts))
        if chars < self._window:
            return 0
        if (bound := chars // self._longest) >= self._window:
            return bound
        words = 0
        for text in texts:
            for start in range(0, len(text), _SLICE):
                words += len(text[start : start + _SLICE].split()) - 1  # a cut may make two words of one
            if words // self._most_words >= self._window:
                break
        return max(0, words) // self._most_words

    def _refuse_beyond_window(self, count: int, *, at_least: bool) -> None:
        if count < self._window:
            return
        # The first sentence is OpenAI's: clients look for it.
        raise OrchardError(
            "context_length_exceeded",
            f"This model's maximum context length is {self._window} tokens. However, your messages resulted in "
            f"{'at least ' if at_least else ''}{count} tokens, and the answer needs one more. "
            "Please reduce the length of the messages.",
            param="messages",
        )


def _pieces(part: Part) -> tuple[Part, ...]:
    return part.parts if isinstance(part, ToolResultPart) else (part,)


def _turns(message: Message) -> int:
    calls = sum(isinstance(part, ToolCallPart) for part in message.parts)
    results = sum(isinstance(part, ToolResultPart) for part in message.parts)
    return calls + max(1, results)


def _conversation(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Give messages the form that Hugging Face's chat templates expect.

    Several text parts are joined by a newline: they are blocks, and their last and first words must not run together.
    """
    names: dict[str, str] = {}
    turns: list[dict[str, Any]] = []
    for message in messages:
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        names |= {call.id: call.name for call in calls}
        results = [part for part in message.parts if isinstance(part, ToolResultPart)]
        turns += [_result(part, names) for part in results]
        if results and len(results) == len(message.parts):
            continue
        turn: dict[str, Any] = {"role": message.role, "content": _joined(message, TextPart)}
        if message.name:
            turn["name"] = message.name
        if reasoning := _joined(message, ReasoningPart):
            turn["reasoning_content"] = reasoning
        if calls:
            turn["tool_calls"] = [_call(call) for call in calls]
        turns.append(turn)
    return turns


def _joined(message: Message, kind: type[TextPart] | type[ReasoningPart]) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, kind))


def _result(part: ToolResultPart, names: dict[str, str]) -> dict[str, Any]:
    content = "\n".join(piece.text for piece in part.parts if isinstance(piece, TextPart))
    turn = {"role": "tool", "content": content, "tool_call_id": part.call_id}
    return turn | ({"name": names[part.call_id]} if part.call_id in names else {})


def _call(part: ToolCallPart) -> dict[str, Any]:
    """Templates write arguments with `tojson`, so they get the object; what is no JSON object stays text."""
    try:
        arguments = json.loads(part.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    function = {"name": part.name, "arguments": arguments if isinstance(arguments, dict) else part.arguments}
    return {"id": part.id, "type": "function", "function": function}


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}
