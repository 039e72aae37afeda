"""Fields that Chat Completions and Responses share: the chat template's variables, and how long the model thinks."""

from typing import Any, Literal

from orchard.dialects.common.fields import Natural
from orchard.dialects.common.json_body import FreeForm, invalid
from orchard.dialects.openai.grammar import GrammarFields

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ThinkingFields(GrammarFields, kw_only=True):
    """The chat template's variables and thinking, beside sampling and the form of the answer."""

    enable_thinking: bool | None = None
    thinking_budget: Natural | None = None
    chat_template_kwargs: dict[str, Any] | None = None


def template_args(
    body: ThinkingFields,
    free_form: FreeForm,
    *,
    effort: Effort | None,
    thinking: bool | None,
    budget: int | None,
) -> dict[str, Any]:
    """Return the variables for the chat template.

    `effort`, `thinking` and `budget` are what the request asks for, by whichever field. Effort and budget turn thinking
    on or off where the request does not. Raise OrchardError where `chat_template_kwargs` contradicts them.
    """
    args = body.chat_template_kwargs or {}
    free_form.check(args, "chat_template_kwargs")
    for name, value in {"enable_thinking": thinking, "reasoning_effort": effort, "thinking_budget": budget}.items():
        if value is not None and args.setdefault(name, value) != value:
            raise invalid(name, "and `chat_template_kwargs` contradict each other.")
    if effort is not None:
        args.setdefault("enable_thinking", effort != "none")
    if budget is not None:
        args.setdefault("enable_thinking", budget > 0)
    return args
