"""Answers in text: what a model is asked to continue, and how."""

import hashlib
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from orchard.core.media import MediaPart
from orchard.core.request import JSON_BODY, Request, Task
from orchard.core.tasks.text_options import SamplingDefaults

# A user message, which every template accepts first. It must not look like what the user says now.
_SUMMARY_TEXT = (
    "[The earlier part of this conversation was too long to be kept. This summary of it takes its place; "
    "it tells what was said and done so far.]\n\n{summary}"
)

# How much of a conversation's beginning identifies it. Digesting long texts would hold up the event loop.
_BEGINNING, _FIRST_MESSAGES, _FIRST_PARTS = 1024, 8, 8

Role = Literal["system", "user", "assistant", "tool"]


class TextPart(Struct, frozen=True, tag="text"):
    """Plain text."""

    text: str


class ReasoningPart(Struct, frozen=True, tag="reasoning"):
    """An assistant's reasoning in an earlier turn; the chat template decides whether the model sees it."""

    text: str


class ToolCallPart(Struct, frozen=True, tag="tool_call"):
    """A tool call of an earlier turn; `arguments` is a JSON object as text."""

    id: str
    name: str
    arguments: str


class ToolResultPart(Struct, frozen=True, tag="tool_result"):
    """What the call `call_id` returned, or the error that it ended with."""

    call_id: str
    parts: tuple[TextPart | MediaPart, ...]
    is_error: bool = False


Part = TextPart | MediaPart | ReasoningPart | ToolCallPart | ToolResultPart


class Message(Struct, frozen=True):
    """One turn of a conversation. `name` distinguishes speakers of the same role, if the chat template shows it."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None


class Tool(Struct, frozen=True):
    """A function that the model may call; `parameters` is a JSON schema of its arguments.

    `strict`: the schema is enforced for the arguments of every call. `input_grammar`: a grammar in llguidance's Lark
    that is enforced for the string `input`, the only argument; such a tool is strict.
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False
    input_grammar: str | None = None


class Grammar(Struct, frozen=True):
    """What the answer, without its reasoning, must match.

    `value` is a JSON schema (a dict or a bool), None for any JSON object, a regular expression, a grammar in
    llguidance's Lark (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md), or a list of texts to
    choose from. `param` is the field to blame if it can't be enforced. `strict`: reject a JSON schema with a keyword
    that can't be enforced; else ignore such keywords.
    """

    kind: Literal["json_schema", "json_object", "regex", "lark", "choice"]
    value: Any
    param: str
    strict: bool = True


class Sampling(SamplingDefaults, frozen=True, kw_only=True):
    """How the next token is sampled. None: as the model's options or its generation_config.json say, else neutral.

    `temperature` 0 is greedy. `top_k` 0 and `min_p` 0 are off. Penalties are OpenAI's (`presence_penalty`,
    `frequency_penalty`: over the generated text) and CTRL's (`repetition_penalty`: over prompt and generated text,
    https://arxiv.org/abs/1909.05858). `logit_bias` adds to the logits of token ids. `seed` None: a random one.
    A `..._context_size` is how many of the last tokens its penalty covers (0: all). With the chance `xtc_probability`,
    all tokens whose probability exceeds `xtc_threshold`, except the least likely of them, are dropped.
    """

    logit_bias: dict[int, float] = field(default_factory=dict)


class Generate(Task, frozen=True, tag="generate"):
    """Continue a conversation, or a raw prompt.

    `prompt`: text or tokens that are continued unchanged, in place of messages; with `suffix` the answer is the text
    between the two. `echo`: the answer begins with the prompt, whose tokens have log-probabilities if the answer's
    tokens do. `continue_last`: the answer continues the last message, which is the assistant's.
    `tools`: the functions that may be called; `must_call`: the answer is at least one call. `parallel_tool_calls`
    False: an answer ends with its first call. `grammar` is enforced for an answer's text; it can't be combined with
    `must_call`. `max_tokens` None: until the context window is full; 0 only with a raw prompt. `window`: the most
    tokens of prompt and answer together, if fewer than the model's context window. `stop`: texts that end the answer
    and are not part of it. `n`: how many answers. `top_logprobs` None: no log-probabilities; k: those of the sampled
    token and of the k likeliest. `template_args`: extra variables for the model's chat template.
    `thinking_budget`: after this many tokens of reasoning the answer must begin. `hide_reasoning`: no `Reasoning`
    events.
    `speculates` False: no tokens are guessed and verified together. `prediction`: text that the caller expects in the
    answer; correct parts make the answer faster.
    """

    gives: ClassVar[str] = "text"
    addresses: ClassVar[tuple[str, ...]] = (
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
    )
    example: ClassVar[str] = JSON_BODY + """ '{"model": {name}, "messages": [{"role": "user", "content": "Hello"}]}'"""
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
    window: int | None = None

    @property
    def choices(self) -> int:
        """How many answers there are."""
        return self.n

    @property
    def conversation(self) -> str:
        """A digest of the first messages, up to the user's first, or of the beginning of a raw prompt."""
        said = [str(self.prompt[:_BEGINNING])] if self.prompt else []
        for message in self.messages[:_FIRST_MESSAGES]:
            texts = [part.text for part in message.parts[:_FIRST_PARTS] if isinstance(part, TextPart)]
            said += [message.role, *(f"{len(text)} {text[:_BEGINNING]}" for text in texts)]
            if message.role == "user":
                break
        return hashlib.blake2b("\0".join(said).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Count(Task, frozen=True, tag="count"):
    """Count the tokens of the prompt of the task `of`. The answer is `Started` and a `Finished` without choices.

    `must_fit`: fail if the prompt exceeds the context window; else it may be several times as long.
    """

    gives: ClassVar[str] = "text"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/messages/count_tokens", "/v1/responses/input_tokens")
    reads_prompt: ClassVar[bool] = False

    of: Generate
    must_fit: bool = False


def generate_task(request: Request) -> Generate:
    """Return the task of a request to generate text, or the task whose prompt a request counts."""
    task = request.task.of if isinstance(request.task, Count) else request.task
    assert isinstance(task, Generate), f"a text model is asked for {task.gives}"
    return task


def task_media(task: Generate) -> Iterator[MediaPart]:
    """Yield the media of a conversation, in order."""
    for message in task.messages:
        for part in message.parts:
            for piece in part.parts if isinstance(part, ToolResultPart) else (part,):
                if isinstance(piece, MediaPart):
                    yield piece


def replace_task_media(task: Generate, found: Iterator[MediaPart | TextPart]) -> Generate:
    """Return a task with its media, in the order of `task_media`, replaced by `found`."""

    def replace_in(part: Part) -> Part:
        if isinstance(part, ToolResultPart):
            pieces = (next(found) if isinstance(piece, MediaPart) else piece for piece in part.parts)
            return replace(part, parts=tuple(pieces))
        return next(found) if isinstance(part, MediaPart) else part

    messages = (replace(message, parts=tuple(map(replace_in, message.parts))) for message in task.messages)
    return replace(task, messages=tuple(messages))


def count_droppable_messages(task: Generate) -> int:
    """Return how many of the oldest messages may be dropped if a conversation doesn't fit.

    System messages and the last turn are always kept.
    """
    last = max((i for i, message in enumerate(task.messages) if message.role != "tool"), default=0)
    return sum(message.role != "system" for message in task.messages[:last])


def drop_oldest(task: Generate, count: int) -> Generate:
    """Return a task without its `count` oldest non-system messages, and without the results of their calls."""
    kept: list[Message] = []
    calls: set[str] = set()
    for message in task.messages:
        if message.role != "system" and count > 0:
            count -= 1
            continue
        parts = tuple(part for part in message.parts if not isinstance(part, ToolResultPart) or part.call_id in calls)
        if parts or not message.parts:
            kept.append(replace(message, parts=parts))
        calls |= {part.id for part in message.parts if isinstance(part, ToolCallPart)}
    return replace(task, messages=tuple(kept))


def summary_message(summary: str) -> Message:
    """Return the message that gives the model a summary."""
    return Message("user", (TextPart(_SUMMARY_TEXT.format(summary=summary)),))
