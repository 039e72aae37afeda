"""Texts that the prompts of all callers may share in the prompt cache, such as a system prompt.

Only the tokens that follow from the text alone are shared, never those of anything else in a request.
"""

from collections.abc import Callable, Sequence

from orchard.backends.text.prompt.template_probe import common_prefix_length
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, Message, TextPart

_QUESTIONS = ("1", "Q")  # two questions that begin differently


class SharedPrompts:
    """The texts with which prompts may begin, for one model."""

    def __init__(
        self, texts: Sequence[str], render: Callable[[Generate], str], encode: Callable[[str], list[int]]
    ) -> None:
        """`render` returns a conversation's prompt, and may raise OrchardError; `encode` returns a text's tokens."""
        self._texts = tuple(filter(None, map(str.strip, texts)))
        self._render = render
        self._encode = encode
        self._tokens: dict[str, tuple[str, list[int]]] = {}  # by text: the rendered text and its tokens

    def count(self, task: Generate, tokens: Sequence[int]) -> int:
        """Return how many of a prompt's first tokens are those of a shared text; 0 if it begins with none of them."""
        start = task.prompt if task.prompt is not None else _first_text(task.messages)
        if not isinstance(start, str):
            return 0
        matches = [text for text in self._texts if start.lstrip().startswith(text)]
        return max((common_prefix_length(self._shared_tokens(task, text), tokens) for text in matches), default=0)

    def _shared_tokens(self, task: Generate, text: str) -> list[int]:
        """Return the tokens that begin every such prompt with a text, whatever follows the text."""
        rendered = text if task.prompt is not None else self._render_start(task.messages[0], text)
        if text not in self._tokens or self._tokens[text][0] != rendered:  # a template may write the date
            self._tokens[text] = rendered, self._encode(rendered)
        return self._tokens[text][1]

    def _render_start(self, first: Message, text: str) -> str:
        head = Message(first.role, (TextPart(text),))
        try:
            first_prompt, second_prompt = (
                self._render(Generate((head, Message("user", (TextPart(question),))))) for question in _QUESTIONS
            )
        except OrchardError:  # the template wants other conversations
            return ""
        return first_prompt[: common_prefix_length(first_prompt, second_prompt)]


def _first_text(messages: Sequence[Message]) -> str:
    first = messages[0].parts[:1] if messages else ()
    return "".join(part.text for part in first if isinstance(part, TextPart))
