"""What a model is asked for and loaded with: requests, and what all tasks and load options share."""

from typing import ClassVar, Literal

from msgspec import Struct

from orchard.core.setting import Positive

Priority = Literal["interactive", "normal", "background"]
Overflow = Literal["error", "summarize"]


class Task(Struct, frozen=True):
    """What a model is asked for: a struct with a tag of its own, which the row of a kind in `orchard.kinds` names."""

    gives: ClassVar[str]
    """What an answer consists of, for the error of a model that has none to give."""
    addresses: ClassVar[tuple[str, ...]]
    """Where models of its kinds are asked for it, for the error of one that was asked for something else."""
    unit: ClassVar[str] = ""
    """What `Usage.units` counts besides tokens, such as texts or seconds of audio; empty: nothing."""
    option: ClassVar[str] = ""
    """The option without which a model does not do it, for kinds of models that have this option."""
    progress_unit: ClassVar[str] = ""
    """What `Progressed` counts; empty: the same as `unit`."""
    reads_prompt: ClassVar[bool] = True
    """Whether its prompt is counted among those that were read."""
    draws_tokens: ClassVar[bool] = False
    """Whether its content is tokens that are drawn one after the other: they are counted and timed."""

    @property
    def choices(self) -> int:
        """How many answers there are."""
        return 1


class LoadOptions(Struct, frozen=True, kw_only=True):
    """How a model is loaded and run; each kind of model adds what it needs."""

    memory_limit: Positive | None = None
    """What the model and its requests may take together, in bytes; None: what the device recommends."""

    def loaded_bytes(self, size_bytes: int, kept_bytes: int) -> int:
        """Return what weights take in memory that take so many bytes on the disk; `kept_bytes` of them never change."""
        return size_bytes

    @property
    def saves(self) -> bool:
        """Whether a model saves something when it is unloaded."""
        return False


class Adapter(Struct, frozen=True):
    """A LoRA adapter that a request asks for; `param` is the field that names it."""

    name: str
    param: str = "adapters"


class Request(Struct, frozen=True):
    """A piece of work for one model. `id` is unique in the gateway; it is the request id of headers and log lines.

    `priority` decides which waiting request goes first. `adapter` is a LoRA adapter that the configuration allows.
    `ttl` replaces the model's own: the model is unloaded after that many seconds without a request. `overflow` says
    what becomes of a conversation that exceeds the context window; None: as the server's settings say.
    """

    id: str
    model: str
    task: Task
    priority: Priority = "normal"
    adapter: Adapter | None = None
    ttl: float | None = None
    overflow: Overflow | None = None
