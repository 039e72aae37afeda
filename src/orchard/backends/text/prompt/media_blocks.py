"""Media as blocks of a conversation's contents, for a chat template that writes placeholders for them."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from orchard.backends.text.prompt.chat_messages import Turn
from orchard.backends.text.prompt.template_probe import Role
from orchard.core.media import MediaKind

if TYPE_CHECKING:
    from orchard.backends.text.prompt.media import MediaTask


class Placeholder(NamedTuple):
    """What stands for a medium in a prompt: `core`, which the model's processor expands, between two texts."""

    prefix: str
    core: str
    suffix: str

    def surround(self, text: str) -> str:
        """Return a text in the place of the core."""
        return self.prefix + text + self.suffix


def placeholder_cores(text: str, tokens: Iterable[str]) -> list[str]:
    """Return the possible cores of a placeholder's text, the likeliest first.

    `tokens` are the tokenizer's added tokens. The rest may depend on the place, such as the number of an image or the
    space between a medium and a text.
    """
    matches = list(_alternation_pattern(filter(str.strip, tokens)).finditer(text))
    core_text = text[matches[0].start() : matches[-1].end()].strip() if matches else ""
    return [core for core in (core_text, text.strip()) if core and text.count(core) == 1]


class MediaBlocks:
    """Replaces markers by blocks before a template is rendered, and the template's placeholders by markers after it.

    If a caller's text spells a placeholder, the template gets another text instead. So all placeholders that are found
    are the template's own.
    """

    def __init__(
        self, placeholders: Mapping[MediaKind, Placeholder], blocks: Mapping[tuple[Role, MediaKind], Turn]
    ) -> None:
        """`blocks`: those that the template takes, by the role of their message."""
        self._placeholders = placeholders
        self._blocks = blocks
        self._core_pattern = _alternation_pattern({placeholder.core for placeholder in placeholders.values()})

    def arrange(self, media_task: "MediaTask", turns: list[Turn], variables: Turn) -> tuple[list[Turn], Turn]:
        """Return turns and variables for the template, with media as blocks and without callers' placeholders."""
        safe_turns: list[Turn] = self._hide_placeholders(media_task, turns)
        blocks = [self._split_into_blocks(media_task, turn) for turn in safe_turns]
        return blocks, self._hide_placeholders(media_task, variables)

    def _hide_placeholders(self, media_task: "MediaTask", value: Any) -> Any:
        if isinstance(value, str):
            return self._core_pattern.sub(lambda match: f"{media_task.nonce}h{match[0].encode().hex()}h", value)
        if isinstance(value, dict):
            return {
                self._hide_placeholders(media_task, key): self._hide_placeholders(media_task, item)
                for key, item in value.items()
            }
        return (
            [self._hide_placeholders(media_task, item) for item in value] if isinstance(value, list | tuple) else value
        )

    def _split_into_blocks(self, media_task: "MediaTask", turn: Turn) -> Turn:
        content = turn.get("content")
        if not isinstance(content, str):
            return turn
        blocks: list[Turn] = []
        text = ""
        for piece in media_task.pieces(content):
            block = None if isinstance(piece, str) else self._blocks.get((turn["role"], media_task.parts[piece].kind))
            if not block:
                text += piece if isinstance(piece, str) else media_task.marker(piece)
                continue
            blocks += [{"type": "text", "text": text}, block] if text else [block]
            text = ""
        if not blocks:
            return turn
        return turn | {"content": [*blocks, {"type": "text", "text": text}] if text else blocks}

    def restore_markers(self, media_task: "MediaTask", text: str) -> str | None:
        """Return the rendered text of arranged turns, with a marker for the core of each placeholder.

        Return None if the template didn't write one placeholder for each medium.
        """
        as_text = {piece for piece in media_task.pieces(text) if isinstance(piece, int)}
        waiting: dict[str, deque[int]] = {}
        for number, part in enumerate(media_task.parts):
            if number not in as_text:
                waiting.setdefault(self._placeholders[part.kind].core, deque()).append(number)
        if Counter(self._core_pattern.findall(text)) != {core: len(numbers) for core, numbers in waiting.items()}:
            return None
        # Templates keep the order of media of one kind.
        text = self._core_pattern.sub(
            lambda match: media_task.marker(waiting[match[0]].popleft()), self.surround_markers(media_task, text)
        )
        return re.sub(rf"{media_task.nonce}h([0-9a-f]+)h", lambda match: bytes.fromhex(match[1]).decode(), text)

    def surround_markers(self, media_task: "MediaTask", text: str) -> str:
        """Return a text whose markers stand for whole placeholders as one whose markers stand for their cores."""
        pieces = (
            piece
            if isinstance(piece, str)
            else self._placeholders[media_task.parts[piece].kind].surround(media_task.marker(piece))
            for piece in media_task.pieces(text)
        )
        return "".join(pieces)


def _alternation_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of these texts, of which none is empty."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
