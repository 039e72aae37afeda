"""What goes into the engine and what comes out of it. Nothing here touches MLX, so any thread may hold it."""

from typing import Literal

from msgspec import Struct, field

EndReason = Literal["stop", "length"]


class SamplingParams(Struct, frozen=True):
    """How a job's tokens are drawn; everything is decided, nothing is None but `top_logprobs` (None: not wanted).

    `seed` is any integer; with the number of the choice and of the token it fixes every draw.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = field(default_factory=dict)
    top_logprobs: int | None = None


class Job(Struct, frozen=True):
    """A request for the engine: continue `prompt` (token ids, at least one) `choices` times by up to `max_tokens`."""

    id: str
    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    choices: int = 1


class Sample(Struct, frozen=True):
    """A drawn token; `logprob` and `top` (id and log-probability, likeliest first) where the job asked for them."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Drawn(Struct, frozen=True):
    """The next token of one choice of a job; `reason` is set on its last one ("stop": it is an end-of-turn token)."""

    job: str
    choice: int
    sample: Sample
    reason: EndReason | None = None


class Broken(Struct, frozen=True):
    """A job whose step raised; all its choices are gone from the engine."""

    job: str
    message: str


class Step(Struct, frozen=True):
    """What one engine step brought, and how many jobs are being worked on and are waiting after it."""

    drawn: list[Drawn]
    broken: list[Broken]
    running: int
    waiting: int
