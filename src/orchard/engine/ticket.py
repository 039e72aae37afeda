"""What the scheduler knows about requests and about the limits that they share."""

from msgspec import Struct

from orchard.core.request import Priority, Sender

RANKS: dict[Priority, int] = {"interactive": 0, "normal": 1, "background": 2}


class Limits(Struct, frozen=True):
    """The limits that all requests share.

    `memory_bytes`: for the KV caches of all rows, for now; a request that needs more waits. `most_bytes`: what that
    would be if nothing else took memory; a request that needs more is refused. 0: the same as `memory_bytes`.
    `chunk`: the most prompt tokens that a step prefills while a row decodes; `idle_chunk`: while none does.
    `room`: how many tokens every row must be able to grow by at an admission. `pieces`: the most prompts that a step
    prefills; each may need its own forward pass.
    """

    max_rows: int
    memory_bytes: int
    chunk: int
    idle_chunk: int
    room: int = 256
    pieces: int = 4
    most_bytes: int = 0

    @property
    def most(self) -> int:
        """The bytes that a request may need."""
        return max(self.memory_bytes, self.most_bytes)


class Ticket(Struct, eq=False):
    """What the scheduler knows about a request. Once added, the ticket belongs to the scheduler.

    `prompt_tokens`: still to prefill; may be 0. `rows`: choices that have not ended.
    `max_tokens`: the most that a row may still generate since its admission, at least 1.
    `prompt_bytes`: one row's copy of the whole prompt. `bytes_per_token`: what each token adds to one row.
    `fixed_bytes`: what one row takes without tokens. `state_bytes`: the part of it that is recurrent state, which a
    pass may keep for each token that it verifies. `media_bytes`: for encoding media, until the prompt is prefilled.
    """

    id: str
    priority: Priority
    prompt_tokens: int
    rows: int
    max_tokens: int
    prompt_bytes: int
    bytes_per_token: int
    fixed_bytes: int = 0
    state_bytes: int = 0
    media_bytes: int = 0
    sender: Sender = Sender()
    # The scheduler's own notes. `generated`: tokens of each row since it was last admitted, `earlier`: before.
    generated: int = 0
    earlier: int = 0
    arrival: int = -1
    seniority: int = -1
    preemptions: int = 0
    displacements: int = 0
    overtaken: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """The order of preemption: the request with the greatest rank is preempted first."""
        return max(RANKS[self.priority] - self.preemptions, 0), self.seniority

    def bytes_with(self, tokens: int) -> int:
        """Return the bytes of all rows once each has generated `tokens` more, limited by `max_tokens`."""
        generated = min(self.generated + tokens, self.max_tokens)
        encoding = self.media_bytes if self.prompt_tokens else 0
        return encoding + self.rows * (self.fixed_bytes + self.prompt_bytes + generated * self.bytes_per_token)
