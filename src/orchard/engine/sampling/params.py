"""How a token is drawn, and what a draw returns. Nothing here touches MLX, so any thread may hold it."""

from msgspec import Struct, field


class SamplingParams(Struct, frozen=True):
    """How a job's tokens are drawn; everything is decided, nothing is None but `top_logprobs` (None: not wanted).

    `seed` is any integer; with the number of the choice and of the token it fixes every draw. A `..._context` is how
    many of the last tokens a penalty looks at (0: all). XTC (https://github.com/oobabooga/text-generation-webui/pull/6335)
    drops, with `xtc_probability`, every token likelier than `xtc_threshold` but the least likely of them, and never one
    of `xtc_keep`.
    `think_end` is the token that ends the reasoning; after `thinking_budget` tokens of it, it is forced. The reasoning
    begins with the answer; with a `think_start` it begins behind that token, where the model opens its answer with it:
    only tokens of `think_blank` may stand before it.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_context_size: int = 0
    presence_context_size: int = 0
    frequency_context_size: int = 0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    xtc_keep: tuple[int, ...] = ()
    thinking_budget: int | None = None
    think_start: int = -1
    think_end: int = -1
    think_blank: tuple[int, ...] = ()
    logit_bias: dict[int, float] = field(default_factory=dict)
    top_logprobs: int | None = None


class Sample(Struct, frozen=True):
    """A token that was drawn, or stands in a prompt.

    `logprob` and `top` (id and log-probability, likeliest first) where the job asked for them.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
