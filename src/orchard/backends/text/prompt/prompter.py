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
from orchard.backends.text.prompt.media import JobMedia, MediaTask, PromptMedia, mark_media
from orchard.backends.text.prompt.message_boundaries import choose_boundaries
from orchard.backends.text.prompt.sections import SectionTokenizer
from orchard.backends.text.prompt.shared_prompts import SharedPrompts
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, unreadable_error
from orchard.core.stopwatch import Stopwatch
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


class PreparedPrompt(Struct, frozen=True):
    """A request that is ready for the engine. `text` is the rendered prompt, without reasoning that the answer
    continues; `max_tokens` fits into the context window.

    `boundaries`: places in `tokens`, ascending and without 0, where a message ends. `constraint`: the grammar to
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


class _TokenizedPrompt(NamedTuple):
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
        self._defaults = _sampling_values(model.defaults) | _sampling_values(options.defaults)
        self._max_tokens = options.max_tokens or model.max_new_tokens
        self._options = options
        self._longest_token, self._most_words = (max(bound, 1) for bound in vocabulary.bounds())
        # XTC never drops the tokens that end a line or a turn, as in mlx-lm.
        self._xtc_keep = (*self._encode("\n"), *sorted(tokenizer.eos_token_ids))
        self._raw_prompts = RawPrompts(tokenizer, model.vocab_size)
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
        self._sections = SectionTokenizer(tokenizer, self.template.source, self._encode)
        capabilities = self.template.capabilities
        shows_calls = capabilities.tools and capabilities.calls
        # If the template can't show tools, the prompt describes them as Hermes does. Calls in the model's own format
        # are recognised, too.
        self.family = family if shows_calls else add_hermes(family, described=not capabilities.tools)
        self._warn_of_unread_parts()
        texts = [read_text(Path(file), "a shared prompt") for file in options.prompt_cache_shared]
        self.shared = SharedPrompts(texts, lambda task: self.template.render(task, self._begins_thinking), self._encode)
        self._thinking_tags = markers.thinking_tags(tokenizer, self.family)
        self._media = media(model, self.template)
        special_tokens = markers.special_tokens(tokenizer)
        self._documents = DocumentReader()
        self.grammars = GrammarProcess(special_tokens)
        self.constraints = Constraints(
            tokenizer,
            vocabulary.bytes_of if vocabulary.exact else None,
            model.vocab_size,
            special_tokens=special_tokens,
            write=self.grammars.write,
        )
        log.info("reasoning and tool calls are parsed in the format '%s'", self.family.name)

    @property
    def media_kinds(self) -> tuple[MediaKind, ...]:
        """The kinds of media that the model takes."""
        return self._media.media_kinds if self._media else ()

    def _warn_of_unread_parts(self) -> None:
        """Warn of parts of answers that the chat template writes in no known format."""
        parsers = {"reasoning": self._options.reasoning_parser, "tool calls": self._options.tool_call_parser}
        options = {"reasoning": "--reasoning-parser", "tool calls": "--tool-call-parser"}
        for part in self.template.unread_parts(self.family):
            if not parsers[part]:
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

    def read_media(self, task: generate.Generate, param: str = "messages", salt: bytes = b"") -> MediaTask:
        """Read a conversation's media, which may take long. Raise OrchardError if one of them can't be read.

        `salt`: that of the request's `CacheScope`. Blame `param` if they have far too many tokens for the context
        window.
        """
        parts = list(generate.task_media(task))
        for part in parts:
            if part.kind not in (*self.media_kinds, "document"):
                raise unreadable_error(part, None if self._media is None else self.media_kinds)
        media_task = mark_media(task, self._documents) if parts else MediaTask(task)
        if not (self._media and media_task.parts):
            return media_task
        refuse = partial(self._refuse_beyond, _COUNTED_WINDOWS * self._window, param=param, at_least=True)
        return self._media.read(media_task, refuse, salt)

    def prepare(
        self, task_or_media: generate.Generate | MediaTask, salt: bytes = b"", stopwatch: Stopwatch | None = None
    ) -> PreparedPrompt:
        """Render, tokenise and check a request. Raise OrchardError if it is wrong or too long.

        `salt`: as in `read_media`.
        """
        stopwatch = stopwatch or Stopwatch()
        stopwatch.lap("queue")
        media_task = self._complete_task(task_or_media)
        task = media_task.task
        window = self._window_of(task)
        text, tokens, media = self._tokenize_prompt(media_task, window, salt, stopwatch)
        stopwatch.lap("tokenise")
        room = window - len(tokens)
        limit = self._max_tokens if task.max_tokens is None else task.max_tokens
        max_tokens = room if limit is None else min(room, limit)
        params = self._sampling_params(task, text)
        if _continued_reasoning(task):  # the prompt has only reasoning, and no part of the answer itself
            task = replace(task, continue_last=False)
        constraint = self.constraints.describe(task, self.family, text, max_tokens, salt)
        end_tokens = self.template.message_ends if task.prompt is None else {}
        ends = [place for place, token in enumerate(tokens) if token in end_tokens]
        boundaries = choose_boundaries(ends, text, end_tokens.values(), task.messages)
        prediction = self._tokenize_prediction(task.prediction) if task.prediction else ()
        return PreparedPrompt(tokens, text, params, max_tokens, boundaries, constraint, media, prediction)

    def _window_of(self, task: generate.Generate) -> int:
        """Return the most tokens of a request's prompt and answer together."""
        return self._window if task.window is None else min(self._window, task.window)

    def _tokenize_prediction(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a prediction. Raise OrchardError if it is longer than the context window."""

        def refuse(limit: int, count: int, param: str, *, at_least: bool = False) -> None:
            if count > limit:
                raise self._window_error(limit, count, param, at_least)

        return tuple(self._tokenize(text, "prediction", self._window, refuse=refuse))

    def count_tokens(
        self, task_or_media: generate.Generate | MediaTask, salt: bytes = b"", *, must_fit: bool = False
    ) -> int:
        """Count a prompt's tokens. Raise OrchardError beyond four context windows, or beyond one if it `must_fit`.

        `salt`: as in `read_media`.
        """
        media_task = self._complete_task(task_or_media)
        limit = self._window_of(media_task.task) if must_fit else _COUNTED_WINDOWS * self._window
        return len(self._tokenize_prompt(media_task, limit, salt).tokens)

    def input_tokens(self, prompt: str | tuple[int, ...], param: str, *, truncate: bool) -> InputTokens:
        """Return the tokens of an input to embed: a text is tokenised like a raw prompt, tokens stay as they are.

        Raise OrchardError if it is longer than the context window; with `truncate`, cut off its end instead.
        """
        limit = self._window + 1
        if not isinstance(prompt, str):
            self._raw_prompts.check_tokens(prompt, param)
            tokens = list(prompt)
        elif truncate:
            tokens = read_beginning(prompt, limit, limit * self._longest_token, self._raw_prompts.encode).tokens
        else:
            tokens = self._tokenize(prompt, param, limit, raw=True, refuse=_refuse_input)
        if not truncate:
            _refuse_input(limit, len(tokens), param)
        return InputTokens(tokens[: self._window])

    def conversation_tokens(self, task_or_media: generate.Generate | MediaTask, salt: bytes = b"") -> InputTokens:
        """Return the tokens of a conversation up to the answer's beginning. Raise OrchardError as `prepare` does.

        `salt`: as in `read_media`.
        """
        rendered = self._tokenize_prompt(self._complete_task(task_or_media), self._window, salt)
        return InputTokens(rendered.tokens, rendered.media)

    def read_mixed(self, mixed_input: MixedInput, salt: bytes = b"") -> MediaTask:
        """Read the media of an input of texts and media. Raise OrchardError if one of them can't be read."""
        return self.read_media(generate.Generate((generate.Message("user", mixed_input.parts),)), "input", salt)

    def mixed_tokens(self, media_task: MediaTask, param: str) -> InputTokens:
        """Return the tokens of texts and media, one after the other, without a chat template.

        Raise OrchardError that blames `param` if they are longer than the context window.
        """
        assert self._media, "media were read for a model that takes none"
        (message,) = media_task.task.messages
        text = "".join(part.text for part in message.parts if isinstance(part, generate.TextPart))
        expanded, numbers = self._media.expand_markers(media_task, self._media.surround_markers(media_task, text))
        refuse = partial(_refuse_input, mixed=True)
        tokens = self._tokenize(expanded, param, self._window + 1, raw=True, refuse=refuse)
        return InputTokens(tokens, self._media.job_media(tokens, media_task, numbers, param))

    def _complete_task(self, task_or_media: generate.Generate | MediaTask) -> MediaTask:
        media_task = task_or_media if isinstance(task_or_media, MediaTask) else self.read_media(task_or_media)
        self._check_task(media_task.task)
        return replace(media_task, task=self._add_thinking_defaults(media_task.task))

    def _add_thinking_defaults(self, task: generate.Generate) -> generate.Generate:
        """Apply the model's options for thinking if the request doesn't set them. A budget of 0 turns thinking off."""
        if task.prompt is not None:
            return task
        args = dict(task.template_args)
        if switch := self.template.capabilities.switch:
            value = args.get(switch.name)
            # A value that is an effort doesn't turn thinking on or off.
            if value is not None and value in (switch.on, switch.off) and value not in EFFORTS:
                args["enable_thinking"] = value == switch.on
        if self._options.enable_thinking is not None:
            args.setdefault("enable_thinking", self._options.enable_thinking)
        budget, thinking = task.thinking_budget, args.get("enable_thinking")
        default = self._options.thinking_budget
        # A request that turns thinking on doesn't get a budget of 0.
        if budget is None and default is not None and thinking is not False and (default or not thinking):
            budget = args.setdefault("thinking_budget", default)
            args.setdefault("enable_thinking", default > 0)
        return replace(task, template_args=args, thinking_budget=budget)

    def _tokenize_prompt(
        self, media_task: MediaTask, limit: int, salt: bytes, stopwatch: Stopwatch | None = None
    ) -> _TokenizedPrompt:
        """Render and tokenise the prompt. Raise OrchardError if it has `limit` tokens or more."""
        task = media_task.task
        if task.prompt is not None:
            if isinstance(task.prompt, str):
                text, tokens = task.prompt, self._tokenize(task.prompt, "prompt", limit, raw=True)
            else:
                self._refuse_beyond(limit, len(task.prompt), "prompt")
                self._raw_prompts.check_tokens(task.prompt, "prompt")
                text, tokens = self._vocabulary.decode(task.prompt), self._raw_prompts.ensure_start(task.prompt)
            if task.suffix is not None:
                suffix = self._tokenize(task.suffix, "suffix", limit)
                tokens = self._raw_prompts.fill_in_middle(tokens, suffix)
            self._refuse_beyond(limit, len(tokens), "prompt")
            return _TokenizedPrompt(text, tokens)
        if not self.template.exists:
            raise _param_error(
                "messages",
                "this model has no chat template, so it takes raw prompts (/v1/completions) and no conversations, "
                "unless the server is started with `--chat-template-file FILE`",
            )
        self._refuse_beyond(limit, self._fewest_prompt_tokens(task.messages, limit), "messages", at_least=True)
        render = partial(self.template.render, task, self._begins_thinking)
        text = self._media.render(media_task, render) if self._media and media_task.parts else render()
        expanded, numbers = (
            self._media.expand_markers(media_task, text) if self._media and media_task.parts else (text, [])
        )
        if stopwatch:
            stopwatch.lap("render")
        tokens = self._tokenize(expanded, "messages", limit, salt=salt)
        media = JobMedia()
        if self._media and media_task.parts:
            media = self._media.job_media(tokens, media_task, numbers)
            text = self._media.show_placeholders(media_task, text)
        if reasoning := _continued_reasoning(task):
            text = text.removesuffix(reasoning if text.endswith(reasoning) else reasoning.strip())
        if not tokens:
            raise _param_error("messages", "the model's chat template made an empty prompt of these messages")
        return _TokenizedPrompt(text, tokens, media)

    def _check_task(self, task: generate.Generate) -> None:
        self._raw_prompts.check_tokens(tuple(task.sampling.logit_bias), "logit_bias")
        for token, bias in task.sampling.logit_bias.items():
            if not math.isfinite(bias):
                raise _param_error("logit_bias", f"the bias of token {token} is not a number")
        if not 1 <= task.n <= self._options.decode_concurrency:
            raise _param_error("n", f"n must be from 1 to {self._options.decode_concurrency}")
        least = 1 if task.prompt is None else 0
        if task.max_tokens is not None and task.max_tokens < least:
            raise _param_error("max_tokens", f"max_tokens must be at least {least}")
        for name in task.template_args:
            if name in self.template.reserved_names:
                raise _param_error("chat_template_kwargs", f"'{name}' can't be set for the chat template")

    def _thinking_budget(self, task: generate.Generate, text: str) -> int | None:
        """Return the budget of the reasoning that the prompt has opened or the model may open; None if there is none.

        There is none if the template has ended the reasoning or the caller turned it off. A model whose reasoning
        doesn't end with a single token only gets the budget as a variable of its template.
        """
        if task.prompt is not None or task.thinking_budget is None or self._thinking_tags is None:
            return None
        if task.continue_last and not _continued_reasoning(task):
            return None
        tail = text.rstrip()
        has_ended = tail.endswith(self._thinking_tags.end) or task.template_args.get("enable_thinking") is False
        return None if has_ended and not tail.endswith(self._thinking_tags.start) else task.thinking_budget

    def _sampling_params(self, task: generate.Generate, text: str) -> SamplingParams:
        """Return the sampling parameters: the request's, else the model's defaults, else neutral ones."""
        is_open = task.prompt is None and self._begins_thinking(text)
        return SamplingParams(
            **{"seed": int.from_bytes(os.urandom(8))} | self._defaults | _sampling_values(task.sampling),
            xtc_keep=self._xtc_keep,
            thinking_budget=self._thinking_budget(task, text),
            think_start=self._thinking_tags.start_id if self._thinking_tags and not is_open else -1,
            think_end=self._thinking_tags.end_id if self._thinking_tags else -1,
            think_blank=self._thinking_tags.blank if self._thinking_tags else (),
            logit_bias=task.sampling.logit_bias,
            top_logprobs=task.top_logprobs,
        )

    def _begins_thinking(self, prompt: str) -> bool:
        return self.family.begin(prompt).thinking

    def _tokenize(
        self,
        text: str,
        param: str,
        limit: int,
        *,
        raw: bool = False,
        salt: bytes | None = None,
        refuse: Callable[..., None] | None = None,
    ) -> list[int]:
        """Tokenise a text; call `refuse`, which raises, before tokenising all of a text that can't fit.

        `salt`: that of a rendered prompt, whose sections are remembered; None: remember nothing of the text.
        """
        refuse = refuse or self._refuse_beyond
        refuse(limit, self._fewest_text_tokens([text], limit), param, at_least=True)
        if salt is None:
            beginning = read_beginning(text, limit, len(text), self._raw_prompts.encode if raw else self._encode)
        else:
            beginning = self._sections.read(text, limit, salt)
        refuse(limit, beginning.least_tokens, param, at_least=not beginning.is_whole)
        return beginning.tokens

    def _encode(self, text: str) -> list[int]:
        # The template has written the special tokens. verbose=False: don't warn of the length, which is checked here.
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens

    def _fewest_prompt_tokens(self, messages: tuple[generate.Message, ...], limit: int) -> int:
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
        parts = (part for message in messages if message.role in ("user", "tool") for part in message.parts)
        texts = [piece.text for part in parts for piece in _nested_parts(part) if isinstance(piece, generate.TextPart)]
        return max(turns, self._fewest_text_tokens((text.strip() for text in texts), limit))

    def _fewest_text_tokens(self, texts: Iterable[str], limit: int) -> int:
        """Return a cheap lower bound of tokens: by the longest token, and by the token with the most words.

        It holds whatever comes between the texts.
        """
        texts = list(texts)
        chars = sum(map(len, texts))
        if (bound := chars // self._longest_token) >= limit:
            return bound
        if chars < 2 * limit * self._most_words:  # a word and the space after it have two characters
            return 0
        words = 0
        for text in texts:
            for start in range(0, len(text), _SLICE):
                words += len(text[start : start + _SLICE].split()) - 1  # a cut may make two words of one
            if words // self._most_words >= limit:
                break
        return max(0, words) // self._most_words

    def _refuse_beyond(self, limit: int, count: int, param: str, *, at_least: bool = False) -> None:
        if count >= limit:
            raise self._window_error(limit, count, param, at_least, ", and the answer needs one more")

    def _window_error(self, limit: int, count: int, param: str, at_least: bool, addition: str = "") -> OrchardError:
        window = min(limit, self._window)
        # The first sentence is OpenAI's, since clients search for it.
        return OrchardError(
            "context_length_exceeded",
            f"This model's maximum context length is {window} tokens. However, your {param} resulted in "
            f"{'at least ' if at_least else ''}{count} tokens{addition}. Please reduce the length of the {param}.",
            param=param,
        )


def _refuse_input(limit: int, count: int, param: str, *, at_least: bool = False, mixed: bool = False) -> None:
    if count >= limit:
        raise input_too_long(param, count, limit - 1, at_least=at_least, mixed=mixed)


def _sampling_values(sampling: generate.Sampling | SamplingDefaults) -> dict[str, Any]:
    """Return the sampling parameters that are set and that a model may have defaults for."""
    values = {name: getattr(sampling, name) for name in SamplingDefaults.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}


def _param_error(param: str, message: str) -> OrchardError:
    return OrchardError("invalid_request", message, param=param)


def _continued_reasoning(task: generate.Generate) -> str:
    """Return the reasoning that the answer continues: that of the last message, if it has no text; else ""."""
    parts = task.messages[-1].parts if task.continue_last and task.messages else ()
    if any(isinstance(part, generate.TextPart) and part.text for part in parts):
        return ""
    return "\n".join(part.text for part in parts if isinstance(part, generate.ReasoningPart))


def _nested_parts(part: generate.Part) -> tuple[generate.Part, ...]:
    return part.parts if isinstance(part, generate.ToolResultPart) else (part,)
