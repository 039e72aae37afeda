"""The format of Qwen3, Hermes and their relatives: `<think>…</think>`, text, and `<tool_call>{JSON}</tool_call>`.

https://huggingface.co/Qwen/Qwen3-8B/blob/main/tokenizer_config.json (the chat template)

- Reasoning is recognised at the start of the answer only, where the prompt or the model opened it; a `<think>` later
  on is text. Newlines around it are not part of it.
- Newlines after `</think>`, directly before a call and between calls are not content.
- What stands in call tags and is no call comes back as content, tags and newlines included. So does a call that the
  end cut off, unless its JSON is complete. Reasoning that the end cut off stays reasoning.
"""

import json
from enum import Enum, auto
from typing import Any

from orchard.formats.pieces import CallArguments, CallEnd, CallStart, Content, Piece, Thought

_THINK, _END_THINK = "<think>", "</think>"
_CALL, _END_CALL = "<tool_call>", "</tool_call>"


class _State(Enum):
    START = auto()  # nothing but white space so far: the model may open its reasoning
    THINK = auto()
    TEXT = auto()
    CALL = auto()


class Qwen3:
    """One answer's state machine. `_text` is what has been fed and not yet given out; `_start` is its position."""

    def __init__(self, *, thinking: bool = False, may_think: bool = True, may_call: bool = False) -> None:
        """`thinking`: the prompt ends within the reasoning. `may_call`: the request has tools."""
        self._state = _State.THINK if thinking else _State.START if may_think else _State.TEXT
        self._may_call = may_call
        self._text = ""
        self._start = 0
        self._searched = 0  # in CALL: no end tag begins before this place of _text
        self._skip_newlines = thinking
        self._final = False

    @property
    def thinking(self) -> bool:
        """Whether the text fed next belongs to the reasoning, as far as is known."""
        return self._state is _State.THINK

    def feed(self, text: str) -> list[Piece]:
        """Take the next characters; gives what is certain by now."""
        self._text += text
        return self._drain()

    def finish(self) -> list[Piece]:
        """Say that nothing follows; gives what was held back."""
        self._final = True
        return self._drain()

    def _drain(self) -> list[Piece]:
        steps = {
            _State.START: self._begin,
            _State.THINK: self._think,
            _State.TEXT: self._answer,
            _State.CALL: self._call,
        }
        pieces: list[Piece] = []
        while self._text:
            if self._skip_newlines:
                self._consume(len(self._text) - len(self._text.lstrip("\n")))
                self._skip_newlines = not self._text
            before = self._state, len(self._text)
            steps[self._state](pieces)
            if before == (self._state, len(self._text)):
                break
        return pieces

    def _consume(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        self._start += count
        return taken

    def _enter(self, state: _State, *, skip_newlines: bool) -> None:
        self._state = state
        self._skip_newlines = skip_newlines

    def _begin(self, pieces: list[Piece]) -> None:
        opening = self._text.lstrip()
        if opening.startswith(_THINK):
            self._consume(len(self._text) - len(opening) + len(_THINK))
            self._enter(_State.THINK, skip_newlines=True)
        elif self._final or not _THINK.startswith(opening):
            self._enter(_State.TEXT, skip_newlines=False)

    def _think(self, pieces: list[Piece]) -> None:
        end = self._text.find(_END_THINK)
        if end >= 0:
            thought = self._consume(end).rstrip("\n")
            self._consume(len(_END_THINK))
            self._enter(_State.TEXT, skip_newlines=True)
        else:
            thought = self._consume(len(self._text) - self._held(_END_THINK))
        if thought:
            pieces.append(Thought(thought))

    def _answer(self, pieces: list[Piece]) -> None:
        begin = self._text.find(_CALL) if self._may_call else -1
        if begin >= 0:
            self._content(pieces, len(self._text[:begin].rstrip("\n")))
            self._state = _State.CALL
            self._searched = 0
        else:
            self._content(pieces, len(self._text) - (self._held(_CALL) if self._may_call else 0))

    def _call(self, pieces: list[Piece]) -> None:
        """`_text` begins with the call's tag, or with the newlines before it."""
        body = self._text.index(_CALL) + len(_CALL)
        while (end := self._text.find(_END_CALL, max(body, self._searched))) >= 0:
            try:
                self._close(pieces, _parse(self._text[body:end]), end + len(_END_CALL))
            except _UnterminatedString:
                # This end tag stands in a string of the arguments: the call goes on.
                self._searched = end + 1
            else:
                return
        self._searched = len(self._text) - len(_END_CALL) + 1
        if self._final:
            try:
                self._close(pieces, _parse(self._text[body:]), len(self._text))
            except _UnterminatedString:
                self._close(pieces, None, len(self._text))

    def _close(self, pieces: list[Piece], call: list[Piece] | None, length: int) -> None:
        if call:
            self._consume(length)
            pieces += call
        else:
            self._content(pieces, length)
        self._enter(_State.TEXT, skip_newlines=call is not None)

    def _content(self, pieces: list[Piece], count: int) -> None:
        start = self._start
        if text := self._consume(count):
            pieces.append(Content(text, start))

    def _held(self, tag: str) -> int:
        """Count the last characters that may not be given out: newlines and the beginning of a tag."""
        if self._final:
            return 0
        cut = next((n for n in range(min(len(tag) - 1, len(self._text)), 0, -1) if self._text.endswith(tag[:n])), 0)
        return len(self._text) - len(self._text[: len(self._text) - cut].rstrip("\n"))


class _UnterminatedString(ValueError):
    """The JSON ends within a string."""


def _parse(body: str) -> list[Piece] | None:
    """Read a call's JSON; None where it is none. Raises _UnterminatedString."""
    try:
        # Not strict: models write newlines into strings as they are.
        found = json.loads(body, strict=False, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            raise _UnterminatedString from error
        return None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(name := found.get("name"), str) or not name:
        return None
    arguments = _arguments(found.get("arguments"))
    if arguments is None or not _encodable(name):
        return None
    return [CallStart(name), CallArguments(arguments), CallEnd()]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _arguments(found: Any) -> str | None:
    """Give the arguments as the text of a JSON object. Some models write that text itself, as a string."""
    if isinstance(found, str) and found:
        try:
            found = json.loads(found, strict=False, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return None
    if found is None or found == "":
        return "{}"
    if not isinstance(found, dict):
        return None
    try:
        text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    except ValueError:  # 1e999 is read as infinity
        return None
    return text if _encodable(text) else json.dumps(found)


def _encodable(text: str) -> bool:
    """Whether the text is UTF-8: JSON escapes can name half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
