"""What the scheduler knows about requests and about the limits that they share."""

from msgspec import Struct

from orchard.core.request import Priority, Sender

LEAST_CHUNK = 16
"""How many tokens of a prompt a step can always read: chunks get smaller when memory is short, but not smaller."""
FEW_TOKENS = 64
"""A pass of more tokens may be computed in another way: see `StepWork.wide`."""
_UNLIMITED = 2**62
RANKS: dict[Priority, int] = {"interactive": 0, "normal": 1, "background": 2}


class StepWork(Struct, frozen=True):
    """The bytes that a step takes beside weights and rows, at most.

    `row`: of each token that is drawn: its logits, and what is computed from them. `token`: of each token in a pass.
    `place`: of each prompt token for each place that it attends to, if attention keeps its scores. `wide`: of a pass of
    more than `FEW_TOKENS` tokens beside these, as for weights that it unpacks. `copies`: the part of all rows that is
    copied at once when rows join a batch or a batch grows.
    """

    row: int = 0
    token: int = 0
    place: int = 0
    wide: int = 0
    copies: float = 0.0

    def chunk(self, tokens: int, length: int) -> int:
        """Return the bytes of reading `tokens` tokens of a prompt of `length` tokens."""
        return tokens * (self.token + self.place * length) + (self.wide if tokens > FEW_TOKENS else 0)

    def tokens(self, nbytes: int, length: int) -> int:
        """Return how many tokens of a prompt of `length` tokens can be read with `nbytes` bytes."""
        if not (each := self.token + self.place * length):
            return _UNLIMITED if nbytes >= self.wide else FEW_TOKENS
        few = min(max(nbytes, 0) // each, FEW_TOKENS)
        return max(few, (nbytes - self.wide) // each)


class Limits(Struct, frozen=True):
    """The limits that all requests share.

    `memory_bytes`: for all rows and a step, for now; a request that needs more waits. `most_bytes`: what that
    would be if nothing else took memory; a request that needs more is refused. 0: the same as `memory_bytes`.
    `chunk`: how many prompt tokens a step usually prefills while a row decodes; `idle_chunk`: the most at any time.
    `room`: how many tokens every row must be able to grow by at an admission. `pieces`: the most prompts that a step
    prefills; each may need its own forward pass. `work`: what a step takes beside the rows.
    """

    max_rows: int
    memory_bytes: int
    chunk: int
    idle_chunk: int
    room: int = 256
    pieces: int = 4
    most_bytes: int = 0
    work: StepWork = StepWork()

    @property
    def max_request_bytes(self) -> int:
        """The bytes that a request may need."""
        return max(self.memory_bytes, self.most_bytes)


class Ticket(Struct, eq=False):
    """What the scheduler knows about a request. Once added, the ticket belongs to the scheduler.

    `prompt_tokens`: still to prefill; may be 0. `rows`: choices that have not ended.
    `max_tokens`: the most that a row may still generate since its admission, at least 1.
    `prompt_bytes`: one row's copy of the whole prompt. `bytes_per_token`: what each token adds to one row.
    `fixed_bytes`: what one row takes without tokens. `state_bytes`: the part of it that is recurrent state, which a
    pass may keep for each token that it verifies. `media_bytes`: for encoding media, until the prompt is prefilled.
    `length`: the tokens of the prompt, and of one answer up to its last admission. `least`: the fewest tokens that a
    pass can read of the prompt; 0: it must be read whole.
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
    length: int = 0
    least: int = LEAST_CHUNK
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

    @property
    def least_tokens(self) -> int:
        """The fewest tokens that a pass can read of the prompt."""
        return min(self.least or self.length, self.length)

    def chunk_bytes(self, work: StepWork, tokens: int = 0) -> int:
        """Return the bytes of reading `tokens` tokens of the prompt, or the least that a pass can read of it."""
        return work.chunk(max(self.least_tokens, min(tokens, self.length)), self.length)

    def needed_bytes(self, tokens: int, work: StepWork) -> int:
        """Return the bytes of all rows once each has generated `tokens` more, and of drawing and copying them."""
        return int(self.bytes_with(tokens) * (1 + work.copies)) + self.rows * (
            work.row + work.token + work.place * self.length
        )

    def needed_bytes_alone(self, tokens: int, work: StepWork) -> int:
        """Return the bytes that it takes alone: `needed_bytes`, and the least that a pass can read of its prompt."""
        return self.needed_bytes(tokens, work) + self.chunk_bytes(work)

    def bytes_with(self, tokens: int) -> int:
        """Return the bytes of all rows once each has generated `tokens` more, limited by `max_tokens`."""
        generated = min(self.generated + tokens, self.max_tokens)
        encoding = self.media_bytes if self.prompt_tokens else 0
        return encoding + self.rows * (self.fixed_bytes + self.prompt_bytes + generated * self.bytes_per_token)
