"""What every dialect turns its body into."""

from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["system", "user", "assistant", "tool"]
Priority = Literal["interactive", "normal", "background"]


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
    """What the call `call_id` returned."""

    call_id: str
    text: str


Part = TextPart | ReasoningPart | ToolCallPart | ToolResultPart


class Message(Struct, frozen=True):
    """One turn of a conversation. `name` tells speakers of one role apart, where the chat template shows it."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None


class Tool(Struct, frozen=True):
    """A function that the model may call; `parameters` is a JSON schema of its arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Sampling(Struct, frozen=True):
    """How the next token is drawn. None: what the model's own generation_config.json says, else the neutral value.

    `temperature` 0 is greedy. `top_k` 0 and `min_p` 0 are off. Penalties are OpenAI's (`presence_penalty`,
    `frequency_penalty`: over the generated text) and CTRL's (`repetition_penalty`: over prompt and generated text,
    https://arxiv.org/abs/1909.05858). `logit_bias` adds to the logits of token ids. `seed` None draws a fresh one.
    A `..._context` is how many of the last tokens its penalty looks at (0: all). With `xtc_probability` the likely
    tokens, those of at least `xtc_threshold`, are dropped but for the least likely of them.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = field(default_factory=dict)
    seed: int | None = None
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repetition_context: int = 0
    presence_context: int = 0
    frequency_context: int = 0


class Generate(Struct, frozen=True, tag="generate"):
    """Continue a conversation.

    `max_tokens` None: until the context window is full. `stop`: texts that end the answer and are not part of it.
    `parallel_tool_calls` False: an answer ends with its first call. `n`: how many answers. `top_logprobs` None: no
    log-probabilities; k: of the drawn token and the k likeliest.
    `template_args`: extra variables for the model's chat template. `thinking_budget`: after so many tokens of reasoning
    the answer must begin.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    parallel_tool_calls: bool = True
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    top_logprobs: int | None = None
    template_args: dict[str, Any] = field(default_factory=dict)
    thinking_budget: int | None = None


class Request(Struct, frozen=True):
    """A piece of work for one model. `id` is unique in the gateway; it is the request id of headers and log lines.

    `priority`: who goes first where requests wait for room.
    """

    id: str
    model: str
    task: Generate
    priority: Priority = "normal"
