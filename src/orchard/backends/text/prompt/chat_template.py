"""A model's chat template: finds out what it can express, and renders prompts with it."""

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace
from transformers.utils.chat_template_utils import render_jinja_template

from orchard.backends.text.prompt import bounded_jinja
from orchard.backends.text.prompt.chat_messages import TemplateCapabilities, Turn, tools_of, turns_of, variables_of
from orchard.backends.text.prompt.special_tokens import message_ends, template_source
from orchard.backends.text.prompt.template_probe import Role, block_text, message_gaps, probe_template, unread_parts
from orchard.backends.text.prompt.time_limit import run_with_time_limit
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.formats.registry import Family, template_converter

log = logging.getLogger("orchard.worker")

Arrange = Callable[[list[Turn], dict[str, Any]], tuple[list[Turn], dict[str, Any]]]
"""Changes the turns and the variables that a template gets."""

bounded_jinja.install_bounded_jinja()

_RENDER_SECONDS = 10.0
_COMMON_ARGS = {
    "enable_thinking",
    "reasoning_effort",
    "thinking_budget",
}  # requests set these by their own fields


class ChatTemplate:
    """Renders conversations for one model.

    `capabilities`: what the template can express. `message_ends`: the tokens with which messages end, as texts by
    their ids.
    `reserved_names`: the names of variables that requests can't set.
    """

    def __init__(self, tokenizer: Any, message_converter: str | None) -> None:
        """`tokenizer` is mlx-lm's wrapper.

        Raise ValueError if there is no converter of that name, OrchardError (model_failed) if the template takes too
        long.
        """
        self._tokenizer = tokenizer
        self._hf = tokenizer._tokenizer
        parameters = inspect.signature(self._hf.apply_chat_template).parameters.keys() - {"documents", "kwargs"}
        self.reserved_names = parameters | {"messages", "self"}
        self.exists = bool(tokenizer.has_chat_template)
        self.source = template_source(tokenizer)
        self._wants_blocks = False
        trial = _Trial(self._render_turns)
        self._wants_blocks = self.exists and self._drops_texts(trial)
        capabilities = probe_template(trial, self.source) if self.exists else TemplateCapabilities()
        self.message_ends = message_ends(tokenizer, message_gaps(trial, capabilities)) if self.exists else {}
        if trial.timeout:
            raise OrchardError("model_failed", trial.timeout.message) from trial.timeout
        self.capabilities = (
            capabilities
            if message_converter is None
            else replace(capabilities, **template_converter(message_converter))
        )
        log.debug("the chat template: %s", self.capabilities)

    def _drops_texts(self, render: Callable[..., str]) -> bool:
        """Return whether the template only writes contents that are lists of blocks, as those of vision models may."""

        def shows(content: Any) -> bool:
            try:
                return "Qasked" in render([{"role": "user", "content": content}], add_generation_prompt=True)
            except Exception:  # templates raise all kinds of errors to reject messages
                return False

        return not shows("Qasked") and shows(_text_block("Qasked"))

    def unread_parts(self, family: Family) -> list[str]:
        """Return the parts of answers (reasoning, tool calls) that the template writes and a family can't read."""
        return unread_parts(self._render_turns, self.capabilities, family) if self.exists else []

    def check(self) -> None:
        """Raise OrchardError (model_failed) if the chat template doesn't compile or takes too long.

        A template that runs but rejects a single user message may be made for other conversations.
        """
        if not self.exists:
            return
        try:
            self._render_task(Generate((Message("user", (TextPart("Hi"),)),)), lambda _: False)
        except Exception as error:
            # Like Python's SyntaxError, Jinja's error for a source that doesn't compile has a line number.
            if (line := getattr(error, "lineno", None)) is not None:
                reason = str(error).splitlines()[0]
                message = f"the model's chat template is broken: line {line}: {reason}"
                raise OrchardError("model_failed", message) from error
            log.info("the chat template rejects a single user message: %s", error)

    def block_text(self, block: Turn, role: Role = "user") -> str | None:
        """Return what the template writes for a block of a message's content; None: it can't write the block."""
        return block_text(self._render_turns, self.capabilities, block, role)

    def render(self, task: Generate, begins_thinking: Callable[[str], bool], arrange: Arrange | None = None) -> str:
        """Return the prompt; `begins_thinking` returns whether an answer to a prompt begins with reasoning.

        `arrange` changes what the template gets. Raise OrchardError if it rejects the request or takes too long.
        """
        try:
            return self._render_task(task, begins_thinking, arrange)
        except OrchardError:
            raise
        except Exception as error:
            # One of the caller's variables may have replaced something that the template needs.
            own_args = sorted(task.template_args.keys() - _COMMON_ARGS)
            with_args = f" with {', '.join(own_args)} set" if own_args else ""
            message = f"the model's chat template rejected these messages{with_args}: {error or type(error).__name__}"
            param = "chat_template_kwargs" if own_args else "messages"
            raise OrchardError("invalid_request", message, param=param) from error

    def _render_task(
        self, task: Generate, begins_thinking: Callable[[str], bool], arrange: Arrange | None = None
    ) -> str:
        turns = turns_of(task.messages, self.capabilities, task.tools)
        variables = variables_of(task.template_args, self.capabilities) | {
            "tools": tools_of(task.tools, self.capabilities)
        }
        if arrange:
            turns, variables = arrange(turns, variables)
        # `turns_of` leaves out an empty message of an assistant.
        if task.continue_last and turns and turns[-1]["role"] == "assistant":
            return self._render_unfinished(turns, variables, begins_thinking)
        return self._render_turns(turns, add_generation_prompt=True, **variables)

    def _render_unfinished(
        self, turns: list[Turn], variables: dict[str, Any], begins_thinking: Callable[[str], bool]
    ) -> str:
        """Render up to the end of the last turn's text, or of its reasoning if it has no text."""
        text = self._render_turns(turns, add_generation_prompt=False, continue_final_message=True, **variables)
        content = turns[-1]["content"]
        last_text = content if isinstance(content, str) else content[-1]["text"]
        if last_text:
            for ending in (last_text, last_text.strip()):
                if (place := text.rfind(ending)) >= 0:
                    return text[: place + len(ending)]
            raise ValueError("it changes the last message, so the answer can't continue it")
        earlier = self._render_turns(turns[:-1], add_generation_prompt=False, **variables) if turns[1:] else ""
        reasoning: str = turns[-1].get("reasoning_content", "")
        for ending in (reasoning, reasoning.strip()):
            place = text.rfind(ending)
            is_shown = ending and text.count(ending) > earlier.count(ending)
            if is_shown and begins_thinking(text[:place]):
                return text[: place + len(ending)]
        raise ValueError("it doesn't show the reasoning of the last message, so the answer can't continue it")

    def _render_turns(self, turns: list[Turn], **variables: Any) -> str:
        """Render turns. Raise OrchardError if that takes too long, and any error that the template raises."""
        try:
            return run_with_time_limit(_RENDER_SECONDS, partial(self._render_without_limit, turns, variables))
        except TimeoutError as error:
            message = f"the model's chat template did not finish within {_RENDER_SECONDS:g} seconds"
            raise OrchardError("invalid_request", message, param="messages") from error

    def _render_without_limit(self, turns: list[Turn], variables: dict[str, Any]) -> str:
        # Don't use mlx-lm's apply_chat_template: it sets enable_thinking if the request doesn't, but the model was made
        # for the template's own default. Don't use transformers' either: it drops values that are None, for which
        # DeepSeek's templates test.
        if template := self._tokenizer._chat_template:
            text: str = template(turns, **variables)
            return text
        if not turns:
            raise ValueError("there are none")
        if self._wants_blocks:
            turns = [
                turn | {"content": _text_block(turn["content"])} if isinstance(turn.get("content"), str) else turn
                for turn in turns
            ]
        source = self._hf.get_chat_template(tools=variables.get("tools"))
        (text,), _ = render_jinja_template([turns], chat_template=source, **self._hf.special_tokens_map | variables)
        return text


class _Trial:
    """Renders conversations with `render` until one takes too long, and then raises that error for all others.

    Probes ignore a template's errors, so `timeout` keeps the error of the conversation that took too long.
    """

    def __init__(self, render: Callable[..., str]) -> None:
        self._render = render
        self.timeout: OrchardError | None = None

    def __call__(self, turns: list[Turn], **variables: Any) -> str:
        if self.timeout:
            raise self.timeout
        try:
            return self._render(turns, **variables)
        except OrchardError as error:
            self.timeout = error
            raise


def _text_block(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]
