"""Sampling parameters, and what a draw returns. None of it holds MLX arrays, so any thread may use it."""

from msgspec import Struct, field

from orchard.core.sampling_values import SamplingValues


class SamplingParams(SamplingValues, frozen=True, kw_only=True):
    """How a job's tokens are drawn. All defaults are resolved; `top_logprobs` None: no logprobs.

    `seed` is any integer; together with the choice's number and the token's number it determines every draw. A
    `..._context_size` is how many of the last tokens a penalty counts (0: all). XTC
    (https://github.com/oobabooga/text-generation-webui/pull/6335) drops, with `xtc_probability`, all tokens of a
    probability above `xtc_threshold` except the least likely of them and those in `xtc_keep`.
    `think_end` ends the reasoning; it is forced after `thinking_budget` tokens of reasoning (None: no budget). With a
    `think_start` the reasoning begins after that token, if only tokens of `think_blank` come before it; else it begins
    with the answer.
    """

    seed: int
    xtc_keep: tuple[int, ...] = ()
    thinking_budget: int | None = None
    think_start: int = -1
    think_end: int = -1
    think_blank: tuple[int, ...] = ()
    logit_bias: dict[int, float] = field(default_factory=dict)
    top_logprobs: int | None = None


class Sample(Struct, frozen=True):
    """A token that was drawn, or one of a prompt that was scored.

    `logprob` and `top` (ids and logprobs, the most likely first) are set if the job asked for them.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
