"""What every dialect turns its body into."""

from typing import Literal

from msgspec import Struct

from orchard.core.task import Task

Priority = Literal["interactive", "normal", "background"]
Overflow = Literal["error", "summarize"]


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
