"""Turn tokens into events: bytes, characters, the model's format, stop strings, in this order, after the echo."""

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
from orchard.engine.batching.job import Drawn
from orchard.engine.sampling.params import Sample
from orchard.formats.format import CallArguments, CallEnd, CallStart, Content, Format, Piece, Thought

_ID_ALPHABET = string.ascii_letters + string.digits
# GPT-2's alphabet: the byte that each character stands for.
_BYTE_OF = {character: byte for byte, character in bytes_to_unicode().items()}


class Vocabulary:
    """The bytes behind each token of a tokenizer.

    `exact`: the bytes of tokens, one after the other, are the text (byte-level BPE, SentencePiece with byte fallback).
    Otherwise (WordPiece and the like) a token's text depends on its neighbours, and `decode` must be asked.
    """

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer`: any Hugging Face tokenizer, or mlx-lm's wrapper of one."""
        self._tokenizer = tokenizer
        # Those that are known: of added tokens from the beginning, of others once they are asked for.
        self._bytes = {id_: token.content.encode() for id_, token in tokenizer.added_tokens_decoder.items()}
        decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
        state = json.loads(decoder.__getstate__()) if decoder else {"decoders": []}
        # The parts of its decoder by type, as in tokenizer.json.
        parts: dict[str, dict[str, Any]] = {part["type"]: part for part in state.get("decoders", [state])}
        self._byte_level = "ByteLevel" in parts
        self._space = None if self._byte_level or not parts.keys() & {"ByteFallback", "Metaspace"} else "▁"
        self.exact = self._byte_level or self._space is not None
        strips = parts.get("Strip", {}).get("start", 0) > 0
        self.drops_first_space = strips or parts.get("Metaspace", {}).get("prepend_scheme", "never") != "never"

    def bytes_of(self, token: int) -> bytes:
        """Return a token's bytes; none for an id that the tokenizer doesn't know, as padded vocabularies have."""
        if (known := self._bytes.get(token)) is None:
            piece = self._tokenizer.convert_ids_to_tokens(token)
            known = self._bytes[token] = b"" if piece is None else self._spelled(piece, token)
        return known

    def logprob(self, sample: Sample, *, prompt: bool = False) -> Logprob:
        """Return a token with its log-probability and the likeliest ones; `prompt`: it stands in an echoed prompt."""
        top = tuple(self._logprob_of(*token) for token in sample.top)
        return Logprob(self._logprob_of(sample.token, sample.logprob), top, prompt)

    def _logprob_of(self, token: int, logprob: float | None) -> TokenLogprob:
        data = self.bytes_of(token)
        return TokenLogprob(data.decode("utf-8", "replace"), data, logprob)

    def bounds(self) -> tuple[int, int]:
        """Return upper bounds of the characters and of the words in a token."""
        # All names at once: to ask for them one by one would take seconds.
        pieces = self._tokenizer.get_vocab().items()
        spelled = (self._bytes[id_] if id_ in self._bytes else self._spelled(piece, id_) for piece, id_ in pieces)
        texts = [data.decode("utf-8", "replace") for data in spelled]
        return max(map(len, texts), default=1), max(map(len, map(str.split, texts)), default=1)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a sequence, special tokens included."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _spelled(self, piece: str, token: int) -> bytes:
        """Return the bytes of a token that is `piece` in the vocabulary and was not added to it."""
        if self._byte_level:
            # Like tokenizers: a token with a character outside the alphabet stands for itself.
            return bytes(_BYTE_OF[char] for char in piece) if all(c in _BYTE_OF for c in piece) else piece.encode()
        if self._space is None:
            return self.decode([token]).encode()
        if len(piece) == 6 and piece.startswith("<0x"):
            return bytes([int(piece[3:5], 16)])
        return bytes(piece.replace(self._space, " "), "utf-8")


class Detokenizer:
    """One answer's characters, as early as they are certain: never half a character, none lost. Cost is linear."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = vocabulary.drops_first_space
        self._tokens: list[int] = []  # the last tokens given out, for their influence on the next, and those held back
        self._given = 0  # how many of _tokens have been given out
        self.position = 0  # how many characters have been given out

    def feed(self, token: int) -> str:
        """Read the next token. Return the characters that are certain by now."""
        if not self._vocabulary.exact:
            return self._count(self._in_context(token))
        data = self._vocabulary.bytes_of(token)
        if self._first and data:
            data, self._first = data.removeprefix(b" "), False
        return self._count(self._utf8.decode(data))

    def finish(self) -> str:
        """Return the last characters; bytes that never became a character are U+FFFD."""
        if self._vocabulary.exact:
            return self._count(self._utf8.decode(b"", final=True))
        before = self._vocabulary.decode(self._tokens[: self._given])
        return self._count(self._vocabulary.decode(self._tokens)[len(before) :])

    def _count(self, text: str) -> str:
        self.position += len(text)
        return text

    def _in_context(self, token: int) -> str:
        """Decode the new tokens together with those before them, and give the difference."""
        self._tokens.append(token)
        before = self._vocabulary.decode(self._tokens[: self._given])
        after = self._vocabulary.decode(self._tokens)
        if len(after) <= len(before) or after.endswith("\ufffd"):
            return ""
        del self._tokens[: self._given]
        self._given = len(self._tokens)
        return after[len(before) :]


class StopFilter:
    """Cuts a text before the stop string that is completed first (the longest, where several end at one place).

    What may be the beginning of a stop string is held back, however the text is cut.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self.held = ""
        self.stopped_by: str | None = None

    def feed(self, text: str) -> str:
        """Read the next characters. Return those that certainly don't belong to a stop string."""
        if not self._stops:
            return text
        if self.stopped_by:
            return ""
        text = self.held + text
        ends = {stop: text.index(stop) + len(stop) for stop in self._stops if stop in text}
        if ends:
            self.held, self.stopped_by = "", min(ends, key=lambda stop: (ends[stop], -len(stop)))
            return text[: ends[self.stopped_by] - len(self.stopped_by)]
        begin = max(0, len(text) - self._longest + 1)
        while not any(stop.startswith(text[begin:]) for stop in self._stops):
            begin += 1
        self.held = text[begin:]
        return text[:begin]

    def flush(self) -> str:
        """Return what was held back: the text ends here, or no stop string can reach beyond this place."""
        held, self.held = self.held, ""
        return held


class ChoiceOutput:
    """One choice of a request, token by token.

    Stop strings are looked for in the answer's text alone: within reasoning or a call's arguments they would end the
    request before it has an answer. A token's log-probability travels with the text that has the first of the token's
    characters; tokens of tags, calls, reasoning and stop strings have none. Nor have those of blank text beside a call,
    which is dropped: some agents take it for an answer.
    `completion_tokens` counts every token fed, `reasoning_tokens` those in the reasoning, its tags included; it may
    be hidden.
    """

    def __init__(self, vocabulary: Vocabulary, format_: Format, task: Generate, choice: int = 0) -> None:
        """Read the answer to `task` with its format. Where only one call is wanted, the answer ends with the first."""
        self._vocabulary = vocabulary
        self._detokenizer = Detokenizer(vocabulary)
        self._format = format_
        self._task = task
        self.stops = StopFilter(task.stop)
        self._choice = choice
        self._logprobs: deque[tuple[int, Logprob]] = deque()
        self._position = 0  # of the first character that the stop filter has not given out yet
        self._calls = 0
        self._called = False  # a call is over
        self._blank: Text | None = None  # held back: the text since the last call or thought, as long as it is blank
        self._spoken = False  # that text is not blank
        self._beside_call = False  # that text follows a call
        self.completion_tokens = 0
        self.reasoning_tokens = 0
        self.reason: FinishReason | None = None

    def feed(self, drawn: Drawn) -> list[Event]:
        """Read the next token; set `reason` once a stop string or the token itself ends the choice."""
        self.completion_tokens += 1
        events: list[Event] = []
        if drawn.sample.logprob is not None:
            found = self._vocabulary.logprob(drawn.sample)
            if drawn.reason == "stop":  # what ends a turn has a name, but no text
                found = replace(found, token=replace(found.token, bytes=b""))
            self._logprobs.append((self._detokenizer.position, found))
        if drawn.reason != "stop":
            thinking = self._format.thinking
            events = self._events(self._format.feed(self._detokenizer.feed(drawn.sample.token)))
            self.reasoning_tokens += thinking or self._format.thinking
        if drawn.reason and not self._complete:
            events += self._events(self._format.feed(self._detokenizer.finish()))
            events += self._events(self._format.finish(cut_off=drawn.reason == "length"))
            events += self._text(self.stops.flush())
            # Log-probabilities of the last tokens, where these have no text and follow the answer's.
            last = tuple(logprob for place, logprob in self._logprobs if place >= self._position)
            if last and not (self._complete or self._format.thinking or self._position < self._detokenizer.position):
                events += self._said(Text("", self._choice, last))
        if self._complete or drawn.reason:
            events += self._end_text()
        if self.stops.stopped_by is not None:
            self.reason = "stop"
        elif self._complete:
            self.reason = "tool_calls"
        elif drawn.reason:
            self.reason = "tool_calls" if drawn.reason == "stop" and self._calls else drawn.reason
        return events

    @property
    def _complete(self) -> bool:
        """Whether nothing may follow, whatever the model goes on to write."""
        return self.stops.stopped_by is not None or (self._called and not self._task.parallel_tool_calls)

    def _events(self, pieces: list[Piece]) -> list[Event]:
        events: list[Event] = []
        for piece in pieces:
            if self._complete:
                break
            match piece:
                case Content(text, start):
                    if not self.stops.held:
                        self._position = start
                    events += self._text(self.stops.feed(text))
                case Thought(text):
                    events += [*self._text(self.stops.flush()), *self._end_text()]
                    if not self._task.hide_reasoning:
                        events.append(Reasoning(text, self._choice))
                case CallStart():
                    events += [*self._text(self.stops.flush()), *self._end_text(call=True)]
                    id_ = piece.id or "call_" + "".join(secrets.choice(_ID_ALPHABET) for _ in range(24))
                    events.append(ToolStart(self._calls, id_, piece.name, self._choice))
                    self._calls += 1
                case CallArguments(text):
                    events.append(ToolArgs(self._calls - 1, text, self._choice))
                case CallEnd():
                    self._called = True
        return events

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        self._position += len(text)
        logprobs = []
        while self._logprobs and self._logprobs[0][0] < self._position:
            place, logprob = self._logprobs.popleft()
            if place >= self._position - len(text):
                logprobs.append(logprob)
        return self._said(Text(text, self._choice, tuple(logprobs)))

    def _said(self, event: Text) -> list[Event]:
        """Return a text, unless a call may follow that it would be blank beside."""
        if self._blank:
            event = Text(self._blank.text + event.text, self._choice, self._blank.logprobs + event.logprobs)
        self._spoken |= not self._task.tools or bool(event.text.strip())
        self._blank = None if self._spoken else event
        return [event] if self._spoken else []

    def _end_text(self, *, call: bool = False) -> list[Event]:
        """End a text before a call, a thought or the end; one that is blank is dropped beside a call."""
        blank, beside = self._blank, call or self._beside_call
        self._blank, self._spoken, self._beside_call = None, False, call
        return [] if blank is None or beside else [blank]


class Echo:
    """What each choice of a request begins with: the prompt's text, and its tokens' log-probabilities if wanted."""

    def __init__(
        self, vocabulary: Vocabulary, text: str, tokens: Sequence[int], choices: int, top_logprobs: int | None
    ) -> None:
        """`text` is the prompt as the caller gave it; in `tokens` the beginning of a document may stand before it."""
        self._vocabulary = vocabulary
        self._text = text
        self._tokens = tokens
        self._choices = range(choices)
        self._head = 2  # tokens that may be written otherwise than they stand in the text
        self.top_logprobs = top_logprobs
        """As many of the likeliest tokens are told for each of the prompt's own; None: nothing is scored."""

    def begin(self) -> list[Event]:
        """Return the text, with the token that nothing stands before."""
        first = () if self.top_logprobs is None else (self._logprob(Sample(self._tokens[0])),)
        return [Text(self._text, choice, first) for choice in self._choices if self._text or first]

    def score(self, samples: Sequence[Sample]) -> list[Event]:
        """Return the log-probabilities of the prompt's next tokens."""
        logprobs = tuple(map(self._logprob, samples))
        return [Text("", choice, logprobs) for choice in self._choices]

    def _logprob(self, sample: Sample) -> Logprob:
        """Return a token's log-probability, with those of its bytes that are in the text.

        A beginning of a document has none, and some tokenizers put a space before the first word.
        """
        found = self._vocabulary.logprob(sample, prompt=True)
        if not self._head:
            return found
        self._head -= 1
        data = found.token.bytes
        taken = next((some for some in (data, data.removeprefix(b" ")) if self._text.encode().startswith(some)), b"")
        self._head = 0 if taken else self._head
        return replace(found, token=replace(found.token, bytes=taken))
