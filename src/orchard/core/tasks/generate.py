"""Answers in text: what a model is asked to continue, and how."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from orchard.core.media import MediaPart
from orchard.core.request import Request, Task
from orchard.core.tasks.text_options import SamplingDefaults

# The user's, as all templates take that at the beginning; it must not read as what the user says now.
_SHOWN = (
    "[The earlier part of this conversation was too long to be kept. This summary of it takes its place; "
    "it tells what was said and done so far.]\n\n{summary}"
)

Role = Literal["system", "user", "assistant", "tool"]


class TextPart(Struct, frozen=True, tag="text"):
    """Plain text."""

    text: str


class ReasoningPart(Struct, frozen=True, tag="reasoning"):
    """What an assistant thought in an earlier turn; the chat template decides whether the model sees it again."""

    text: str


class ToolCallPart(Struct, frozen=True, tag="tool_call"):
    """A call that an assistant made in an earlier turn; `arguments` is a JSON object as text."""

    id: str
    name: str
    arguments: str


class ToolResultPart(Struct, frozen=True, tag="tool_result"):
    """What the call `call_id` returned, or, as an error, why it could not."""

    call_id: str
    parts: tuple[TextPart | MediaPart, ...]
    is_error: bool = False


Part = TextPart | MediaPart | ReasoningPart | ToolCallPart | ToolResultPart


class Message(Struct, frozen=True):
    """One turn of a conversation. `name` tells speakers of one role apart, where the chat template shows it."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None


class Tool(Struct, frozen=True):
    """A function that the model may call; `parameters` is a JSON schema of its arguments.

    `strict`: the arguments of every call of it keep that schema. `input_grammar`: a grammar in llguidance's Lark that
    the string `input`, its only argument, keeps; such a tool is strict.
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False
    input_grammar: str | None = None


class Grammar(Struct, frozen=True):
    """What the answer, without its reasoning, must look like.

    `value` is a JSON schema (a dict or a bool), None for any JSON object, a regular expression, a grammar in
    llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md), or a list of texts one of
    which it is. `param` is the field that a caller is to blame where it can't be enforced. `strict`: all of it is kept;
    else keywords of a JSON schema that can't be enforced say nothing.
    """

    kind: Literal["json_schema", "json_object", "regex", "lark", "choice"]
    value: Any
    param: str
    strict: bool = True


class Sampling(SamplingDefaults, frozen=True, kw_only=True):
    """How the next token is drawn. None: as the model's options or its generation_config.json say, else neutral.

    `temperature` 0 is greedy. `top_k` 0 and `min_p` 0 are off. Penalties are OpenAI's (`presence_penalty`,
    `frequency_penalty`: over the generated text) and CTRL's (`repetition_penalty`: over prompt and generated text,
    https://arxiv.org/abs/1909.05858). `logit_bias` adds to the logits of token ids. `seed` None draws a fresh one.
    A `..._context_size` is how many of the last tokens its penalty looks at (0: all). With `xtc_probability` the likely
    tokens, those of at least `xtc_threshold`, are dropped but for the least likely of them.
    """

    logit_bias: dict[int, float] = field(default_factory=dict)


class Generate(Task, frozen=True, tag="generate"):
    """Continue a conversation, or a raw prompt.

    `prompt`: text or tokens that are continued as they are, in place of messages; with `suffix` the answer is what
    stands between the two. `echo`: the answer begins with the prompt, whose tokens have log-probabilities, too, where
    those of the answer have. `continue_last`: the last message, the
    assistant's, is not complete, and the answer goes on with it.
    `tools` are those that may be called; `must_call`: the answer is at least one call. `parallel_tool_calls` False: an
    answer ends with its first call. `grammar` binds an answer's text; it doesn't go with `must_call`.
    `max_tokens` None: until the context window is full; 0 only with a raw prompt. `stop`: texts that end the answer and
    are not part of it. `n`: how many answers. `top_logprobs` None: no log-probabilities; k: of the drawn token and the
    k likeliest. `template_args`: extra variables for the model's chat template. `thinking_budget`: after so many tokens
    of reasoning the answer must begin. `hide_reasoning`: no `Reasoning` events.
    `speculates` False: each token takes a step of its own. `prediction`: what the caller expects in the answer, which
    makes it quicker where it is right.
    """

    gives: ClassVar[str] = "text"
    addresses: ClassVar[tuple[str, ...]] = (
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
    )
    draws_tokens: ClassVar[bool] = True

    messages: tuple[Message, ...] = ()
    prompt: str | tuple[int, ...] | None = None
    suffix: str | None = None
    echo: bool = False
    continue_last: bool = False
    tools: tuple[Tool, ...] = ()
    must_call: bool = False
    parallel_tool_calls: bool = True
    grammar: Grammar | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    top_logprobs: int | None = None
    template_args: dict[str, Any] = field(default_factory=dict)
    thinking_budget: int | None = None
    hide_reasoning: bool = False
    speculates: bool = True
    prediction: str = ""

    @property
    def choices(self) -> int:
        """How many answers there are."""
        return self.n


class Count(Task, frozen=True, tag="count"):
    """Count the tokens of the prompt that `of` would have; answered by `Started` and a `Finished` without choices.

    `must_fit`: fail where `of` would be too long for the context window; else a prompt may be some times as long.
    """

    gives: ClassVar[str] = "text"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/messages/count_tokens", "/v1/responses/input_tokens")
    reads_prompt: ClassVar[bool] = False

    of: Generate
    must_fit: bool = False


def generation(request: Request) -> Generate:
    """Return what a request asks to be generated, or whose prompt it asks to be counted."""
    task = request.task.of if isinstance(request.task, Count) else request.task
    assert isinstance(task, Generate), f"a text model is asked for {task.gives}"
    return task


def media_of(task: Generate) -> Iterator[MediaPart]:
    """Yield the media of a conversation, in order."""
    for message in task.messages:
        for part in message.parts:
            for piece in part.parts if isinstance(part, ToolResultPart) else (part,):
                if isinstance(piece, MediaPart):
                    yield piece


def changed_media(task: Generate, found: Iterator[MediaPart | TextPart]) -> Generate:
    """Return a task with something else in place of each of its media, in the order of `media_of`."""

    def changed(part: Part) -> Part:
        if isinstance(part, ToolResultPart):
            pieces = (next(found) if isinstance(piece, MediaPart) else piece for piece in part.parts)
            return replace(part, parts=tuple(pieces))
        return next(found) if isinstance(part, MediaPart) else part

    messages = (replace(message, parts=tuple(map(changed, message.parts))) for message in task.messages)
    return replace(task, messages=tuple(messages))


def summary_message(summary: str) -> Message:
    """Return the message that tells the model of a summary."""
    return Message("user", (TextPart(_SHOWN.format(summary=summary)),))
