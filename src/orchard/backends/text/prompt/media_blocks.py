"""Media as blocks of a conversation's contents, for a chat template that writes placeholders for them."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from orchard.backends.text.prompt.chat_messages import Turn
from orchard.backends.text.prompt.template_probe import Role
from orchard.core.media import MediaKind

if TYPE_CHECKING:
    from orchard.backends.text.prompt.media import ReadTask


class Placeholder(NamedTuple):
    """What stands for a medium in a prompt: `core`, which the model's processor expands, between two texts."""

    before: str
    core: str
    after: str

    def around(self, text: str) -> str:
        """Return a text in the place of the core."""
        return self.before + text + self.after


def cores(text: str, tokens: Iterable[str]) -> list[str]:
    """Return what may be the core of a placeholder's text, the likeliest first.

    `tokens` are the tokenizer's added ones. The rest may depend on the place: the number of an image, the space between
    a medium and a text.
    """
    found = list(_any_of(filter(str.strip, tokens)).finditer(text))
    bounded = text[found[0].start() : found[-1].end()].strip() if found else ""
    return [core for core in (bounded, text.strip()) if core and text.count(core) == 1]


class MediaBlocks:
    """Replaces markers by blocks before a template is rendered, and the template's placeholders by markers after it.

    Where a caller's text spells a placeholder, the template gets another text in its place, so that what is found are
    the template's own placeholders only.
    """

    def __init__(
        self, placeholders: Mapping[MediaKind, Placeholder], blocks: Mapping[tuple[Role, MediaKind], Turn]
    ) -> None:
        """`blocks`: those that the template takes, by the role of their message."""
        self._placeholders = placeholders
        self._blocks = blocks
        self._spelled = _any_of({one.core for one in placeholders.values()})

    def arranged(self, read: "ReadTask", turns: list[Turn], variables: Turn) -> tuple[list[Turn], Turn]:
        """Return turns and variables as the template shall get them."""
        hidden: list[Turn] = self._hidden(read, turns)
        return [self._in_blocks(read, turn) for turn in hidden], self._hidden(read, variables)

    def _hidden(self, read: "ReadTask", value: Any) -> Any:
        if isinstance(value, str):
            return self._spelled.sub(lambda found: f"{read.nonce}h{found[0].encode().hex()}h", value)
        if isinstance(value, dict):
            return {self._hidden(read, key): self._hidden(read, one) for key, one in value.items()}
        return [self._hidden(read, one) for one in value] if isinstance(value, list | tuple) else value

    def _in_blocks(self, read: "ReadTask", turn: Turn) -> Turn:
        content = turn.get("content")
        if not isinstance(content, str):
            return turn
        blocks: list[Turn] = []
        text = ""
        for piece in read.pieces(content):
            block = None if isinstance(piece, str) else self._blocks.get((turn["role"], read.parts[piece].kind))
            if not block:
                text += piece if isinstance(piece, str) else read.marker(piece)
                continue
            blocks += [{"type": "text", "text": text}, block] if text else [block]
            text = ""
        if not blocks:
            return turn
        return turn | {"content": [*blocks, {"type": "text", "text": text}] if text else blocks}

    def marked(self, read: "ReadTask", text: str) -> str | None:
        """Return what the template wrote of arranged turns, with a marker for the core of each placeholder.

        None: it didn't write one placeholder for each medium.
        """
        as_text = {piece for piece in read.pieces(text) if isinstance(piece, int)}
        left: dict[str, deque[int]] = {}
        for number, part in enumerate(read.parts):
            if number not in as_text:
                left.setdefault(self._placeholders[part.kind].core, deque()).append(number)
        if Counter(self._spelled.findall(text)) != {core: len(numbers) for core, numbers in left.items()}:
            return None
        # Templates keep the order of media of one kind.
        text = self._spelled.sub(lambda found: read.marker(left[found[0]].popleft()), self.surrounded(read, text))
        return re.sub(rf"{read.nonce}h([0-9a-f]+)h", lambda found: bytes.fromhex(found[1]).decode(), text)

    def surrounded(self, read: "ReadTask", text: str) -> str:
        """Return a text whose markers stand for whole placeholders as one whose markers stand for their cores."""
        pieces = (
            piece if isinstance(piece, str) else self._placeholders[read.parts[piece].kind].around(read.marker(piece))
            for piece in read.pieces(text)
        )
        return "".join(pieces)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of these texts, of which none is empty."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
