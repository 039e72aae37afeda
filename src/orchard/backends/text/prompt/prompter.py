"""Turns requests into tokens: checks, defaults, the chat template or a raw prompt, and the context window."""

import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from orchard.backends.beginnings import read_beginning
from orchard.backends.model_folder import read_text
from orchard.backends.text.grammar.constraint import Constraint, Constraints
from orchard.backends.text.grammar.process import GrammarProcess
from orchard.backends.text.model import TextModel
from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt import special_tokens as markers
from orchard.backends.text.prompt.chat_messages import EFFORTS
from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.prompt.completion_prompt import RawPrompts
from orchard.backends.text.prompt.documents import DocumentReader
from orchard.backends.text.prompt.media import JobMedia, PromptMedia, ReadTask, mark
from orchard.backends.text.prompt.shared_prompts import SharedPrompts
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, unreadable_error
from orchard.core.tasks import generate
from orchard.core.tasks.embed import MixedInput, input_too_long
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.engine.sampling.params import SamplingParams
from orchard.formats.registry import add_hermes, choose_family

if TYPE_CHECKING:
    from orchard.backends.vision.model import VisionModel

log = logging.getLogger("orchard.worker")

_SLICE = 16_384  # characters handled at once, so that the interpreter's lock is never held for long
_COUNTED_WINDOWS = 4  # context windows; a longer prompt is rejected even if it is only counted


class Prepared(Struct, frozen=True):
    """A request that is ready for the engine. `text` is the rendered prompt, without reasoning that the answer
    continues; `max_tokens` fits into the context window.

    `boundaries`: the places, ascending and without 0, where a message begins in `tokens`. `constraint`: the grammar to
    enforce, not compiled (see `Prompter.constraints`). `prediction`: the tokens of the predicted answer.
    """

    tokens: list[int]
    text: str
    params: SamplingParams
    max_tokens: int
    boundaries: tuple[int, ...] = ()
    constraint: Constraint | None = None
    media: JobMedia = JobMedia()
    prediction: tuple[int, ...] = ()


class InputTokens(NamedTuple):
    """An input to embed: its tokens, and its media, if any."""

    tokens: list[int]
    media: JobMedia = JobMedia()


class _Rendered(NamedTuple):
    """A prompt: its text, its tokens, and its media, if any."""

    text: str
    tokens: list[int]
    media: JobMedia = JobMedia()


class Prompter:
    """Prepares requests for one model. Call `prepare` outside the event loop, since it may take long.

    A `max_tokens` that exceeds the context window is not an error: the answer ends at the window, with the reason
    "length".
    """

    def __init__(
        self,
        model: "TextModel | VisionModel",
        vocabulary: Vocabulary,
        options: TextOptions,
        media: "Callable[[TextModel | VisionModel, ChatTemplate], PromptMedia | tuple[()] | None]" = lambda *_: None,
    ) -> None:
        """Prepare for a model, which is not kept; the options override its generation_config.json.

        `media` returns the object that puts media into prompts; (): the model is served for text only, though it is a
        vision model; None: it isn't one.
        Raise OrchardError (model_failed) if the options name an unknown parser or converter.
        """
        self._tokenizer = tokenizer = model.tokenizer
        self._vocabulary = vocabulary
        self._window = model.context_window
        self._defaults = _given(model.defaults) | _given(options.defaults)
        self._max_tokens = options.max_tokens or model.max_new_tokens
        self._options = options
        self._longest, self._most_words = (max(bound, 1) for bound in vocabulary.bounds())
        # XTC never drops the tokens that end a line or a turn, as in mlx-lm.
        self._xtc_keep = (*self._encode("\n"), *sorted(tokenizer.eos_token_ids))
        self._raw = RawPrompts(tokenizer, model.vocab_size)
        try:
            self.template = ChatTemplate(tokenizer, options.message_converter)
            family = choose_family(
                self.template.source,
                frozenset(token.content for token in tokenizer.added_tokens_decoder.values()),
                tool_call_parser=options.tool_call_parser,
                reasoning_parser=options.reasoning_parser,
            )
        except ValueError as error:
            raise OrchardError("model_failed", str(error)) from error
        takes = self.template.takes
        # If the template can't show tools, the prompt describes them as Hermes does. Calls in the model's own format
        # are recognised, too.
        self.family = family if takes.tools and takes.calls else add_hermes(family, described=not takes.tools)
        self._tell_unknown()
        texts = [read_text(Path(file), "a shared prompt") for file in options.prompt_cache_shared]
        self.shared = SharedPrompts(texts, lambda task: self.template.render(task, self._begins_thinking), self._encode)
        self._thinking = markers.thinking(tokenizer, self.family)
        self._media = media(model, self.template)
        special = markers.special_tokens(tokenizer)
        self._documents = DocumentReader()
        self.grammars = GrammarProcess(special)
        self.constraints = Constraints(
            tokenizer,
            vocabulary.bytes_of if vocabulary.exact else None,
            model.vocab_size,
            special=special,
            write=self.grammars.write,
        )
        log.info("reasoning and tool calls are parsed in the format '%s'", self.family.name)

    @property
    def takes(self) -> tuple[MediaKind, ...]:
        """The kinds of media that the model takes."""
        return self._media.takes if self._media else ()

    def _tell_unknown(self) -> None:
        """Say in the log which parts of an answer the chat template writes in no format that is known."""
        chosen = {"reasoning": self._options.reasoning_parser, "tool calls": self._options.tool_call_parser}
        options = {"reasoning": "--reasoning-parser", "tool calls": "--tool-call-parser"}
        for part in self.template.unread(self.family):
            if not chosen[part]:
                log.warning(
                    "the chat template writes %s in no format that is known, so they may stay in the text of answers; "
                    "if the format is that of another model, choose it with %s",
                    part,
                    options[part],
                )

    def close(self) -> None:
        """End the processes that work on untrusted data. Any thread may call this."""
        for helper in (self.grammars, self._documents, self._media):
            if helper:
                helper.close()

    def read(self, task: generate.Generate, param: str = "messages", salt: bytes = b"") -> ReadTask:
        """Read a conversation's media, which may take long. Raise OrchardError if one of them can't be read.

        `salt`: that of the request's `CacheScope`. The error blames `param` if they have many times too many tokens for
        the context window.
        """
        found = list(generate.task_media(task))
        for medium in found:
            if medium.kind not in (*self.takes, "document"):
                raise unreadable_error(medium, None if self._media is None else self.takes)
        marked = mark(task, self._documents) if found else ReadTask(task)
        if not (self._media and marked.parts):
            return marked
        refuse = partial(self._refuse_beyond, _COUNTED_WINDOWS * self._window, param=param, at_least=True)
        return self._media.read(marked, refuse, salt)

    def prepare(self, given: generate.Generate | ReadTask, salt: bytes = b"") -> Prepared:
        """Render, tokenise and check a request; `salt`: as in `read`. Raise OrchardError if it is wrong or too long."""
        read = self._checked(given)
        task = read.task
        text, tokens, placed = self._tokens(read, self._window)
        left = self._window - len(tokens)
        wanted = self._max_tokens if task.max_tokens is None else task.max_tokens
        max_tokens = left if wanted is None else min(left, wanted)
        params = self._params(task, text)
        if _open_thought(task):  # the prompt has nothing of the answer itself
            task = replace(task, continue_last=False)
        constraint = self.constraints.describe(task, self.family, text, max_tokens, salt)
        opener = self.template.opener if task.prompt is None else None
        boundaries = tuple(place for place, token in enumerate(tokens) if token == opener and place)
        predicted = self._predicted(task.prediction) if task.prediction else ()
        return Prepared(tokens, text, params, max_tokens, boundaries, constraint, placed, predicted)

    def _predicted(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a prediction. Raise OrchardError if it is longer than the context window."""

        def refuse(limit: int, count: int, param: str, *, at_least: bool = False) -> None:
            if count > limit:
                raise self._beyond_window(count, param, at_least)

        return tuple(self._tokenize(text, "prediction", self._window, refuse=refuse))

    def count(self, given: generate.Generate | ReadTask, *, must_fit: bool = False) -> int:
        """Count a prompt's tokens. Raise OrchardError beyond four context windows, or beyond one if it `must_fit`."""
        limit = self._window if must_fit else _COUNTED_WINDOWS * self._window
        return len(self._tokens(self._checked(given), limit).tokens)

    def input_tokens(self, given: str | tuple[int, ...], param: str, *, truncate: bool) -> InputTokens:
        """Return the tokens of an input to embed: a text is tokenised like a raw prompt, tokens stay as they are.

        Raise OrchardError if it is longer than the context window; with `truncate`, cut off its end instead.
        """
        limit = self._window + 1
        if not isinstance(given, str):
            self._raw.check(given, param)
            tokens = list(given)
        elif truncate:
            tokens = read_beginning(given, limit, limit * self._longest, self._raw.encode).tokens
        else:
            tokens = self._tokenize(given, param, limit, raw=True, refuse=_refuse_input)
        if not truncate:
            _refuse_input(limit, len(tokens), param)
        return InputTokens(tokens[: self._window])

    def conversation_tokens(self, given: generate.Generate | ReadTask) -> InputTokens:
        """Return the tokens of a conversation up to the answer's beginning. Raise OrchardError as `prepare` does."""
        rendered = self._tokens(self._checked(given), self._window)
        return InputTokens(rendered.tokens, rendered.media)

    def read_mixed(self, given: MixedInput, salt: bytes = b"") -> ReadTask:
        """Read the media of an input of texts and media. Raise OrchardError if one of them can't be read."""
        return self.read(generate.Generate((generate.Message("user", given.parts),)), "input", salt)

    def mixed_tokens(self, read: ReadTask, param: str) -> InputTokens:
        """Return the tokens of texts and media, one after the other, without a chat template.

        Raise OrchardError that blames `param` if they are longer than the context window.
        """
        assert self._media, "media were read for a model that takes none"
        (message,) = read.task.messages
        text = "".join(part.text for part in message.parts if isinstance(part, generate.TextPart))
        expanded, found = self._media.expanded(read, self._media.joined(read, text))
        refuse = partial(_refuse_input, mixed=True)
        tokens = self._tokenize(expanded, param, self._window + 1, raw=True, refuse=refuse)
        return InputTokens(tokens, self._media.of_job(tokens, read, found, param))

    def _checked(self, given: generate.Generate | ReadTask) -> ReadTask:
        read = given if isinstance(given, ReadTask) else self.read(given)
        self._check(read.task)
        return replace(read, task=self._with_defaults(read.task))

    def _with_defaults(self, task: generate.Generate) -> generate.Generate:
        """Apply the model's options for thinking if the request doesn't set them. A budget of 0 turns thinking off."""
        if task.prompt is not None:
            return task
        given = dict(task.template_args)
        if switch := self.template.takes.switch:
            own = given.get(switch.name)
            # A value that is an effort doesn't turn thinking on or off.
            if own is not None and own in (switch.on, switch.off) and own not in EFFORTS:
                given["enable_thinking"] = own == switch.on
        if self._options.enable_thinking is not None:
            given.setdefault("enable_thinking", self._options.enable_thinking)
        budget, thinks = task.thinking_budget, given.get("enable_thinking")
        known = self._options.thinking_budget
        # A request that turns thinking on doesn't get a budget of 0.
        if budget is None and known is not None and thinks is not False and (known or not thinks):
            budget = given.setdefault("thinking_budget", known)
            given.setdefault("enable_thinking", known > 0)
        return replace(task, template_args=given, thinking_budget=budget)

    def _tokens(self, read: ReadTask, limit: int) -> _Rendered:
        """Render and tokenise the prompt. Raise OrchardError if it has `limit` tokens or more."""
        task = read.task
        if task.prompt is not None:
            if isinstance(task.prompt, str):
                text, tokens = task.prompt, self._tokenize(task.prompt, "prompt", limit, raw=True)
            else:
                self._refuse_beyond(limit, len(task.prompt), "prompt")
                self._raw.check(task.prompt, "prompt")
                text, tokens = self._vocabulary.decode(task.prompt), self._raw.opened(task.prompt)
            if task.suffix is not None:
                after = self._tokenize(task.suffix, "suffix", limit)
                tokens = self._raw.around(tokens, after)
            self._refuse_beyond(limit, len(tokens), "prompt")
            return _Rendered(text, tokens)
        if not self.template.exists:
            raise _invalid(
                "messages",
                "this model has no chat template, so it takes raw prompts (/v1/completions) and no conversations, "
                "unless the server is started with `--chat-template-file FILE`",
            )
        self._refuse_beyond(limit, self._fewest_of(task.messages, limit), "messages", at_least=True)
        render = partial(self.template.render, task, self._begins_thinking)
        text = self._media.rendered(read, render) if self._media and read.parts else render()
        expanded, found = self._media.expanded(read, text) if self._media and read.parts else (text, [])
        tokens = self._tokenize(expanded, "messages", limit)
        media = JobMedia()
        if self._media and read.parts:
            media, text = self._media.of_job(tokens, read, found), self._media.shown(read, text)
        if thought := _open_thought(task):
            text = text.removesuffix(thought if text.endswith(thought) else thought.strip())
        if not tokens:
            raise _invalid("messages", "the model's chat template made an empty prompt of these messages")
        return _Rendered(text, tokens, media)

    def _check(self, task: generate.Generate) -> None:
        self._raw.check(tuple(task.sampling.logit_bias), "logit_bias")
        for token, bias in task.sampling.logit_bias.items():
            if not math.isfinite(bias):
                raise _invalid("logit_bias", f"the bias of token {token} is not a number")
        if not 1 <= task.n <= self._options.decode_concurrency:
            raise _invalid("n", f"n must be from 1 to {self._options.decode_concurrency}")
        least = 1 if task.prompt is None else 0
        if task.max_tokens is not None and task.max_tokens < least:
            raise _invalid("max_tokens", f"max_tokens must be at least {least}")
        for name in task.template_args:
            if name in self.template.reserved:
                raise _invalid("chat_template_kwargs", f"'{name}' can't be set for the chat template")

    def _budget(self, task: generate.Generate, text: str) -> int | None:
        """Return the budget of the reasoning that the prompt has opened or the model may open; None if there is none.

        There is none if the template has ended the reasoning or the caller turned it off. A model whose reasoning
        doesn't end with a single token only gets the budget as a variable of its template.
        """
        if task.prompt is not None or task.thinking_budget is None or self._thinking is None:
            return None
        if task.continue_last and not _open_thought(task):
            return None
        tail = text.rstrip()
        ended = tail.endswith(self._thinking.end) or task.template_args.get("enable_thinking") is False
        return None if ended and not tail.endswith(self._thinking.start) else task.thinking_budget

    def _params(self, task: generate.Generate, text: str) -> SamplingParams:
        """Return the sampling parameters: the request's, else the model's defaults, else neutral ones."""
        opened = task.prompt is None and self._begins_thinking(text)
        return SamplingParams(
            **{"seed": int.from_bytes(os.urandom(8))} | self._defaults | _given(task.sampling),
            xtc_keep=self._xtc_keep,
            thinking_budget=self._budget(task, text),
            think_start=self._thinking.start_id if self._thinking and not opened else -1,
            think_end=self._thinking.end_id if self._thinking else -1,
            think_blank=self._thinking.blank if self._thinking else (),
            logit_bias=task.sampling.logit_bias,
            top_logprobs=task.top_logprobs,
        )

    def _begins_thinking(self, prompt: str) -> bool:
        return self.family.begin(prompt).thinking

    def _tokenize(
        self, text: str, param: str, limit: int, *, raw: bool = False, refuse: Callable[..., None] | None = None
    ) -> list[int]:
        """Tokenise a text; call `refuse`, which raises, before tokenising all of a text that can't fit."""
        refuse = refuse or self._refuse_beyond
        refuse(limit, self._fewest_tokens([text], limit), param, at_least=True)
        found = read_beginning(text, limit, len(text), self._raw.encode if raw else self._encode)
        refuse(limit, found.certain, param, at_least=not found.whole)
        return found.tokens

    def _encode(self, text: str) -> list[int]:
        # The template has written the special tokens. verbose=False: don't warn of the length, which is checked here.
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens

    def _fewest_of(self, messages: tuple[generate.Message, ...], limit: int) -> int:
        """Return a lower bound of a prompt's tokens without rendering it. It leaves out what a template may leave out.

        Every template writes at least one token for a message, a call and a result. It writes texts of users and tools
        in full, except for the space around them. It may drop an assistant's text and all but one system message.
        """
        turns = 0
        for message in messages:
            kinds = Counter(map(type, message.parts))
            turns += kinds[generate.ToolCallPart] + max(1, kinds[generate.ToolResultPart])
        if turns >= limit:
            return turns
        told = (part for message in messages if message.role in ("user", "tool") for part in message.parts)
        texts = [piece.text for part in told for piece in _pieces(part) if isinstance(piece, generate.TextPart)]
        return max(turns, self._fewest_tokens((text.strip() for text in texts), limit))

    def _fewest_tokens(self, texts: Iterable[str], limit: int) -> int:
        """Return a cheap lower bound of tokens: by the longest token, and by the token with the most words.

        It holds whatever comes between the texts.
        """
        texts = list(texts)
        chars = sum(map(len, texts))
        if chars < limit:
            return 0
        if (bound := chars // self._longest) >= limit:
            return bound
        words = 0
        for text in texts:
            for start in range(0, len(text), _SLICE):
                words += len(text[start : start + _SLICE].split()) - 1  # a cut may make two words of one
            if words // self._most_words >= limit:
                break
        return max(0, words) // self._most_words

    def _refuse_beyond(self, limit: int, count: int, param: str, *, at_least: bool = False) -> None:
        if count >= limit:
            raise self._beyond_window(count, param, at_least, ", and the answer needs one more")

    def _beyond_window(self, count: int, param: str, at_least: bool, besides: str = "") -> OrchardError:
        # The first sentence is OpenAI's, since clients search for it.
        return OrchardError(
            "context_length_exceeded",
            f"This model's maximum context length is {self._window} tokens. However, your {param} resulted in "
            f"{'at least ' if at_least else ''}{count} tokens{besides}. Please reduce the length of the {param}.",
            param=param,
        )


def _refuse_input(limit: int, count: int, param: str, *, at_least: bool = False, mixed: bool = False) -> None:
    if count >= limit:
        raise input_too_long(param, count, limit - 1, at_least=at_least, mixed=mixed)


def _given(sampling: generate.Sampling | SamplingDefaults) -> dict[str, Any]:
    """Return the sampling parameters that are set and that a model may have defaults for."""
    found = {name: getattr(sampling, name) for name in SamplingDefaults.__struct_fields__}
    return {name: value for name, value in found.items() if value is not None}


def _invalid(param: str, message: str) -> OrchardError:
    return OrchardError("invalid_request", message, param=param)


def _open_thought(task: generate.Generate) -> str:
    """Return the reasoning that the answer continues: that of the last message, if it has no text; else ""."""
    parts = task.messages[-1].parts if task.continue_last and task.messages else ()
    if any(isinstance(part, generate.TextPart) and part.text for part in parts):
        return ""
    return "\n".join(part.text for part in parts if isinstance(part, generate.ReasoningPart))


def _pieces(part: generate.Part) -> tuple[generate.Part, ...]:
    return part.parts if isinstance(part, generate.ToolResultPart) else (part,)
