"""Turns tokens into events: bytes, characters, the model's format, stop strings, in this order; echoes prompts."""

import codecs
import json
import secrets
import string
from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from transformers.convert_slow_tokenizer import bytes_to_unicode

from orchard.core.events import Event, FinishReason, Logprob, Reasoning, Text, TokenLogprob, ToolArgs, ToolStart
from orchard.core.tasks.generate import Generate
from orchard.engine.batching.job import DrawnToken
from orchard.engine.sampling.params import Sample
from orchard.formats.format import CallArguments, CallEnd, CallStart, Content, Format, Piece, Thought

_ID_ALPHABET = string.ascii_letters + string.digits
# GPT-2's byte-level alphabet: the byte that each character stands for.
_BYTE_OF = {character: byte for byte, character in bytes_to_unicode().items()}


class Vocabulary:
    """The bytes of each token of a tokenizer.

    `exact`: the tokens' bytes, joined, are the text (byte-level BPE, SentencePiece with byte fallback). Otherwise
    (WordPiece and the like) a token's text depends on its neighbours, and only `decode` gives the text.
    """

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer`: any Hugging Face tokenizer, or mlx-lm's wrapper of one."""
        self._tokenizer = tokenizer
        # A cache: it begins with added tokens; others are added when they are needed.
        self._bytes = {id_: token.content.encode() for id_, token in tokenizer.added_tokens_decoder.items()}
        decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
        state = json.loads(decoder.__getstate__()) if decoder else {"decoders": []}
        # The parts of the tokenizer's decoder by type, as in tokenizer.json.
        parts: dict[str, dict[str, Any]] = {part["type"]: part for part in state.get("decoders", [state])}
        self._byte_level = "ByteLevel" in parts
        self._space = None if self._byte_level or not parts.keys() & {"ByteFallback", "Metaspace"} else "▁"
        self.exact = self._byte_level or self._space is not None
        strips = parts.get("Strip", {}).get("start", 0) > 0
        self.drops_first_space = strips or parts.get("Metaspace", {}).get("prepend_scheme", "never") != "never"

    def bytes_of(self, token: int) -> bytes:
        """Return a token's bytes; b"" for an id that the tokenizer doesn't know, as padded vocabularies have."""
        if (data := self._bytes.get(token)) is None:
            piece = self._tokenizer.convert_ids_to_tokens(token)
            data = self._bytes[token] = b"" if piece is None else self._piece_bytes(piece, token)
        return data

    def logprob(self, sample: Sample, *, prompt: bool = False) -> Logprob:
        """Return the logprobs of a token and of the most likely ones at its place; `prompt`: it is in an echo."""
        top = tuple(self._logprob_of(*token) for token in sample.top)
        return Logprob(self._logprob_of(sample.token, sample.logprob), top, prompt)

    def _logprob_of(self, token: int, logprob: float | None) -> TokenLogprob:
        data = self.bytes_of(token)
        return TokenLogprob(data.decode("utf-8", "replace"), data, logprob)

    def bounds(self) -> tuple[int, int]:
        """Return the greatest numbers of characters and of words in a token."""
        # Get all tokens at once: one by one would take seconds.
        pieces = self._tokenizer.get_vocab().items()
        all_bytes = (self._bytes[id_] if id_ in self._bytes else self._piece_bytes(piece, id_) for piece, id_ in pieces)
        texts = [data.decode("utf-8", "replace") for data in all_bytes]
        return max(map(len, texts), default=1), max(map(len, map(str.split, texts)), default=1)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a sequence, special tokens included."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _piece_bytes(self, piece: str, token: int) -> bytes:
        """Return the bytes of a token that is `piece` in the vocabulary and was not added to it."""
        if self._byte_level:
            # As in the tokenizers library, a token with a character outside the alphabet is plain text.
            return bytes(_BYTE_OF[char] for char in piece) if all(c in _BYTE_OF for c in piece) else piece.encode()
        if self._space is None:
            return self.decode([token]).encode()
        if len(piece) == 6 and piece.startswith("<0x"):
            return bytes([int(piece[3:5], 16)])
        return bytes(piece.replace(self._space, " "), "utf-8")


class Detokenizer:
    """Decodes one answer's tokens in linear time: returns characters once they are certain, never a part of one."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = vocabulary.drops_first_space
        self._tokens: list[int] = []  # the last returned tokens, which influence the next text, and those held back
        self._returned_count = 0  # how many of _tokens have been returned as text
        self.position = 0  # how many characters have been returned

    def feed(self, token: int) -> str:
        """Take the next token; return the characters that are certain now."""
        if not self._vocabulary.exact:
            return self._advance(self._decode_in_context(token))
        data = self._vocabulary.bytes_of(token)
        if self._first and data:
            data, self._first = data.removeprefix(b" "), False
        return self._advance(self._utf8.decode(data))

    def finish(self) -> str:
        """Return the last characters; incomplete ones become U+FFFD."""
        if self._vocabulary.exact:
            return self._advance(self._utf8.decode(b"", final=True))
        known_text = self._vocabulary.decode(self._tokens[: self._returned_count])
        return self._advance(self._vocabulary.decode(self._tokens)[len(known_text) :])

    def _advance(self, text: str) -> str:
        self.position += len(text)
        return text

    def _decode_in_context(self, token: int) -> str:
        """Decode the new tokens together with those before them; return the new text."""
        self._tokens.append(token)
        known_text = self._vocabulary.decode(self._tokens[: self._returned_count])
        new_text = self._vocabulary.decode(self._tokens)
        if len(new_text) <= len(known_text) or new_text.endswith("\ufffd"):
            return ""
        del self._tokens[: self._returned_count]
        self._returned_count = len(self._tokens)
        return new_text[len(known_text) :]


class StopFilter:
    """Ends a text before the first stop string that is complete (the longest one if several end at the same place).

    It holds back text that may be the beginning of a stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self.held_text = ""
        self.stopped_by: str | None = None

    def feed(self, text: str) -> str:
        """Take the next characters; return those that certainly don't belong to a stop string."""
        if not self._stops:
            return text
        if self.stopped_by:
            return ""
        text = self.held_text + text
        ends = {stop: text.index(stop) + len(stop) for stop in self._stops if stop in text}
        if ends:
            self.held_text, self.stopped_by = "", min(ends, key=lambda stop: (ends[stop], -len(stop)))
            return text[: ends[self.stopped_by] - len(self.stopped_by)]
        begin = max(0, len(text) - self._longest + 1)
        while not any(stop.startswith(text[begin:]) for stop in self._stops):
            begin += 1
        self.held_text = text[begin:]
        return text[:begin]

    def flush(self) -> str:
        """Return the text that was held back, because the text ends or no stop string can continue after it."""
        text, self.held_text = self.held_text, ""
        return text


class ChoiceOutput:
    """Turns the tokens of one choice of a request into events.

    Stop strings are only searched in the answer's text: in reasoning or in a call's arguments they would end the
    request before it has an answer. A token's logprob comes with the text that has the token's first character; tokens
    of tags, calls, reasoning and stop strings have none. Blank text beside a call is dropped with its logprobs, since
    some agents take it for an answer.
    `completion_tokens` counts all tokens, `reasoning_tokens` those of the reasoning and its tags, even if hidden.
    """

    def __init__(self, vocabulary: Vocabulary, format_: Format, task: Generate, choice: int = 0) -> None:
        """Read the answer to `task` in this format. If only one call is allowed, the answer ends after it."""
        self._vocabulary = vocabulary
        self._detokenizer = Detokenizer(vocabulary)
        self._format = format_
        self._task = task
        self.stops = StopFilter(task.stop)
        self._choice = choice
        self._logprobs: deque[tuple[int, Logprob]] = deque()
        self._position = 0  # of the first character that the stop filter has not returned
        self._calls = 0
        self._has_call = False  # whether a call is complete
        self._blank_text: Text | None = None  # held back: the text since the last call or thought, while it is blank
        self._has_text = False  # whether that text is not blank
        self._follows_call = False  # whether that text follows a call
        self.completion_tokens = 0
        self.reasoning_tokens = 0
        self.reason: FinishReason | None = None

    def feed(self, drawn: DrawnToken) -> list[Event]:
        """Take the next token; return events. Set `reason` if a stop string, a call or the token ends the choice."""
        self.completion_tokens += 1
        events: list[Event] = []
        if drawn.sample.logprob is not None:
            logprob = self._vocabulary.logprob(drawn.sample)
            if drawn.reason == "stop":  # an end-of-turn token has a name, but no text
                logprob = replace(logprob, token=replace(logprob.token, bytes=b""))
            self._logprobs.append((self._detokenizer.position, logprob))
        if drawn.reason != "stop":
            thinking = self._format.thinking
            events = self._read_pieces(self._format.feed(self._detokenizer.feed(drawn.sample.token)))
            self.reasoning_tokens += thinking or self._format.thinking
        if drawn.reason and not self._is_complete:
            events += self._read_pieces(self._format.feed(self._detokenizer.finish()))
            events += self._read_pieces(self._format.finish(cut_off=drawn.reason == "length"))
            events += self._text_events(self.stops.flush())
            # Logprobs of the last tokens, if they have no text and follow the answer's text.
            last = tuple(logprob for place, logprob in self._logprobs if place >= self._position)
            if last and not (self._is_complete or self._format.thinking or self._position < self._detokenizer.position):
                events += self._hold_blank_text(Text("", self._choice, last))
        if self._is_complete or drawn.reason:
            events += self._end_text()
        if self.stops.stopped_by is not None:
            self.reason = "stop"
        elif self._is_complete:
            self.reason = "tool_calls"
        elif drawn.reason:
            self.reason = "tool_calls" if drawn.reason == "stop" and self._calls else drawn.reason
        return events

    def notes(self) -> list[str]:
        """Return why texts that look like calls are no calls, or broken ones; only news since the last time."""
        notes = self._format.notes.copy()
        self._format.notes.clear()
        return notes

    @property
    def _is_complete(self) -> bool:
        """Whether the choice has ended: nothing that the model writes from now on counts."""
        return self.stops.stopped_by is not None or (self._has_call and not self._task.parallel_tool_calls)

    def _read_pieces(self, pieces: list[Piece]) -> list[Event]:
        events: list[Event] = []
        for piece in pieces:
            if self._is_complete:
                break
            match piece:
                case Content(text, start):
                    if not self.stops.held_text:
                        self._position = start
                    events += self._text_events(self.stops.feed(text))
                case Thought(text):
                    events += [*self._text_events(self.stops.flush()), *self._end_text()]
                    if not self._task.hide_reasoning:
                        events.append(Reasoning(text, self._choice))
                case CallStart():
                    events += [*self._text_events(self.stops.flush()), *self._end_text(call=True)]
                    id_ = piece.id or "call_" + "".join(secrets.choice(_ID_ALPHABET) for _ in range(24))
                    events.append(ToolStart(self._calls, id_, piece.name, self._choice))
                    self._calls += 1
                case CallArguments(text):
                    events.append(ToolArgs(self._calls - 1, text, self._choice))
                case CallEnd():
                    self._has_call = True
        return events

    def _text_events(self, text: str) -> list[Event]:
        if not text:
            return []
        self._position += len(text)
        logprobs = []
        while self._logprobs and self._logprobs[0][0] < self._position:
            place, logprob = self._logprobs.popleft()
            if place >= self._position - len(text):
                logprobs.append(logprob)
        return self._hold_blank_text(Text(text, self._choice, tuple(logprobs)))

    def _hold_blank_text(self, event: Text) -> list[Event]:
        """Return a text; hold it back while it is blank and a call may follow."""
        if self._blank_text:
            event = Text(self._blank_text.text + event.text, self._choice, self._blank_text.logprobs + event.logprobs)
        self._has_text |= not self._task.tools or bool(event.text.strip())
        self._blank_text = None if self._has_text else event
        return [event] if self._has_text else []

    def _end_text(self, *, call: bool = False) -> list[Event]:
        """End a text before a call, a thought or the end; drop a blank text beside a call."""
        blank, beside_call = self._blank_text, call or self._follows_call
        self._blank_text, self._has_text, self._follows_call = None, False, call
        return [] if blank is None or beside_call else [blank]


class Echo:
    """The echo that begins each choice: the prompt's text, and its tokens' logprobs if they are wanted."""

    def __init__(
        self, vocabulary: Vocabulary, text: str, tokens: Sequence[int], choices: int, top_logprobs: int | None
    ) -> None:
        """`text` is the prompt as the caller gave it; `tokens` may begin with a BOS token that is not in it."""
        self._vocabulary = vocabulary
        self._text = text
        self._tokens = tokens
        self._choices = range(choices)
        self._head = 2  # how many of the first tokens may differ from the text
        self.top_logprobs = top_logprobs
        """How many of the most likely tokens to report for each prompt token; None: don't score the prompt."""

    def begin(self) -> list[Event]:
        """Return the prompt's text, with the first token, which has no logprob."""
        first = () if self.top_logprobs is None else (self._logprob(Sample(self._tokens[0])),)
        return [Text(self._text, choice, first) for choice in self._choices if self._text or first]

    def score(self, samples: Sequence[Sample]) -> list[Event]:
        """Return the logprobs of the prompt's next tokens."""
        logprobs = tuple(map(self._logprob, samples))
        return [Text("", choice, logprobs) for choice in self._choices]

    def _logprob(self, sample: Sample) -> Logprob:
        """Return a token's logprob, with those of its bytes that are in the text.

        A BOS token has none of its bytes there, and some tokenizers put a space before the first word.
        """
        logprob = self._vocabulary.logprob(sample, prompt=True)
        if not self._head:
            return logprob
        self._head -= 1
        data = logprob.token.bytes
        text_bytes = next(
            (part for part in (data, data.removeprefix(b" ")) if self._text.encode().startswith(part)), b""
        )
        self._head = 0 if text_bytes else self._head
        return replace(logprob, token=replace(logprob.token, bytes=text_bytes))
