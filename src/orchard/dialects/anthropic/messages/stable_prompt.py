"""Keep the beginning of a prompt the same from turn to turn, so that it stays cached.

Coding agents write lines into their system prompt that differ in each request. Everything after the first difference
would have to be prefilled again. These whole lines of the leading system messages are known:

- `x-anthropic-billing-header: ...`: dropped, also from later system messages: it is not meant for the model.
- counters of the tokens that are left in the vendor's window (`<total_tokens>15000 tokens left</total_tokens>`,
  `Token usage: 10/200; 190 remaining`): dropped: they don't describe this model.
- a date (`Today's date is 2026-01-31.`, `Current date: ...`): moved to the beginning of the first user message. The
  system prompt and tools, which conversations share, stay cached; a new date makes only the conversation uncached.
- a date with a time of day: moved to the end of the last user message that has a text.

Only the first of these lines is dropped from later system messages, which agents resend at the same place. Leading
system messages of more than MAX_CHARS characters are not an agent's and stay unchanged.
"""

import itertools
import re
from collections.abc import Sequence

from msgspec.structs import replace

from orchard.core.tasks.generate import Message, TextPart

MAX_CHARS = 256 * 1024
"""In characters. Matching the patterns takes up to 0.1 s for this many."""

_BILLING_NAME = "x-anthropic-billing-header:"
_BILLING = re.compile(rf"^{_BILLING_NAME}[^\n]*(?:\n|\Z)", re.MULTILINE)
_COUNTER = re.compile(
    r"^[ \t]*+(?:<total_tokens>[\d,]+ tokens left</total_tokens>"
    r"|(?:<system_warning>)?Token usage: [\d,]+/[\d,]+; [\d,]+ remaining(?:</system_warning>)?)[ \t\r]*(?:\n|\Z)",
    re.MULTILINE,
)
_DATE = re.compile(
    r"^[ \t]*+(?:[-*][ \t])?(?:Today(?:['’]s date)?|(?:The )?current (?:local )?(?:date and time|date/time|date|time))"  # noqa: RUF001
    r"(?: is|:)[ \t](?=[^\n]*(?:\b(?:19|20)\d\d\b|\b\d\d?:\d\d))[^\n]{4,80}(?:\n|\Z)",
    re.MULTILINE | re.IGNORECASE,
)
_CLOCK = re.compile(r"\d:\d\d")


def stabilise_prompt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with the known volatile lines dropped or moved."""
    head = list(itertools.takewhile(lambda message: message.role == "system", messages))
    if sum(len(part.text) for message in head for part in _text_parts(message)) > MAX_CHARS:
        return tuple(messages)
    rest = [
        _drop_lines(message, _BILLING) if _has_billing_line(message) else message for message in messages[len(head) :]
    ]
    users = [place for place, message in enumerate(rest) if message.role == "user"]
    head = [_drop_lines(_drop_lines(message, _BILLING), _COUNTER) for message in head]
    if users:
        lines = [line.strip() for message in head for line in _find_lines(message, _DATE)]
        head = [_drop_lines(message, _DATE) for message in head]
        dates = [TextPart(line) for line in lines if not _CLOCK.search(line)]
        clocks = [TextPart(line) for line in lines if _CLOCK.search(line)]
        last = next((place for place in reversed(users) if _text_parts(rest[place])), users[-1])
        rest[last] = replace(rest[last], parts=(*rest[last].parts, *clocks))
        rest[users[0]] = replace(rest[users[0]], parts=(*dates, *rest[users[0]].parts))
    # Omit system messages that had only such lines.
    return tuple(message for message in (*head, *rest) if message.parts or message.role != "system")


def _text_parts(message: Message) -> list[TextPart]:
    return [part for part in message.parts if isinstance(part, TextPart)]


def _has_billing_line(message: Message) -> bool:
    return message.role == "system" and any(_BILLING_NAME in part.text for part in _text_parts(message))


def _find_lines(message: Message, lines: re.Pattern[str]) -> list[str]:
    return [match[0] for part in _text_parts(message) for match in lines.finditer(part.text)]


def _drop_lines(message: Message, lines: re.Pattern[str]) -> Message:
    """Drop lines from the message's texts, and texts that become empty."""
    if not _find_lines(message, lines):
        return message
    texts = [lines.sub("", part.text) for part in _text_parts(message)]
    return replace(message, parts=tuple(TextPart(text) for text in texts if text.strip()))
