"""Requests, and what all tasks and load options share."""

from typing import ClassVar, Literal

from msgspec import Struct

from orchard.core.setting import Positive

Priority = Literal["interactive", "normal", "background"]
Overflow = Literal["error", "summarize"]
LongInput = Overflow | Literal["drop"]

JSON_BODY = "-H 'content-type: application/json' -d"
"""The arguments of `curl` before a body in JSON."""

_LEAST_TOKENS = 32  # in a pass; fewer would hardly save memory


class Task(Struct, frozen=True):
    """What a request wants from a model. Each task is a struct with its own tag; rows of `orchard.kinds` list tasks."""

    gives: ClassVar[str]
    """What an answer consists of, for the error message of a model that can't do the task."""
    addresses: ClassVar[tuple[str, ...]]
    """The URL paths for the task, for the error message when a request asks such a model for another task."""
    example: ClassVar[str] = ""
    """The arguments of `curl`, after the first of the addresses, that try the task; `{name}`: the model's, as JSON.
    Empty: none does."""
    unit: ClassVar[str] = ""
    """What `Usage.units` counts besides tokens, such as texts or seconds of audio; empty: nothing."""
    option: ClassVar[str] = ""
    """The load option that must be set for the task, for kinds of models that have this option."""
    progress_unit: ClassVar[str] = ""
    """What `Progressed` counts; empty: the same as `unit`."""
    reads_prompt: ClassVar[bool] = True
    """Whether the metrics count its prompt."""
    draws_tokens: ClassVar[bool] = False
    """Whether its content is sampled tokens, which are counted and timed."""

    @property
    def choices(self) -> int:
        """How many answers there are."""
        return 1

    @property
    def conversation(self) -> str:
        """A text that identifies the conversation from turn to turn; empty: it has no turns."""
        return ""


class LoadOptions(Struct, frozen=True, kw_only=True):
    """How a model is loaded and run; each kind of model adds what it needs."""

    memory_limit: Positive | None = None
    """The most bytes that the model and its requests may take together; None: what the device recommends."""
    halvings: int = 0
    """How often the token limit of a pass is halved, because memory ran out in an earlier process."""

    def loaded_bytes(self, size_bytes: int, kept_bytes: int, *, on_device: bool = False) -> int:
        """Return the bytes in memory of weights of `size_bytes` on disk, of which `kept_bytes` are never quantised.

        `on_device`: on one device, if devices have memory of their own; else in this machine's memory.
        """
        return size_bytes

    def halve_tokens(self, tokens: int) -> int:
        """Return the token limit of a pass; `tokens`: its limit as long as memory has not run out."""
        return max(min(tokens, _LEAST_TOKENS), tokens >> self.halvings)

    @property
    def saves_files(self) -> bool:
        """Whether a model writes files when it is unloaded."""
        return False

    @property
    def ends_process(self) -> bool:
        """Whether the process can load no other model after this one."""
        return False


class Adapter(Struct, frozen=True):
    """A LoRA adapter that a request asks for; `param` is the field that names it."""

    name: str
    param: str = "adapters"


class Sender(Struct, frozen=True):
    """Who sends a request: callers share a model fairly, and so do a caller's connections and their conversations.

    `caller`: a digest of the API key, or the client's address if the server needs no keys; "": the server itself.
    `conversation`: see `Task.conversation`.
    """

    caller: str = ""
    connection: str = ""
    conversation: str = ""


class Request(Struct, frozen=True):
    """A piece of work for one model. `id` is unique in the gateway; headers and log lines show it.

    `priority` decides which waiting request goes first. `adapter` is a LoRA adapter that the configuration allows.
    `ttl` replaces the model's own: the model is unloaded after that many seconds without a request. `overflow` says
    how to treat a conversation that exceeds the context window; None: as the server's settings say; "drop": its oldest
    messages are dropped. What a model caches
    of a request is only used for requests with the same `cache_scope`. `cache_salt` is the request's part of this.
    """

    id: str
    model: str
    task: Task
    priority: Priority = "normal"
    adapter: Adapter | None = None
    ttl: float | None = None
    overflow: LongInput | None = None
    sender: Sender = Sender()
    cache_scope: str = ""
    cache_salt: str | None = None


class RequestProgress(Struct, frozen=True, array_like=True):
    """A worker's report on how far a request is.

    `prompt_tokens` is 0 until the prompt is tokenised. `read_tokens` of them are prefilled or came from the cache
    (`cached_tokens`). `generated_tokens`: of all its choices.
    """

    id: str
    prompt_tokens: int = 0
    read_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
