"""What goes into the engine and what comes out of it. None of it holds MLX arrays, so any thread may use it."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field

from orchard.core.errors import OrchardError
from orchard.core.request import Priority, Sender
from orchard.core.stopwatch import Stopwatch
from orchard.engine.batching.model import PromptEmbeddings
from orchard.engine.prefix_cache.cache import Miss
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.grammar import BoundGrammar
from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.speculation.proposal import Source

EndReason = Literal["stop", "length"]


class MediaSpan(Struct, frozen=True):
    """The tokens of a prompt, from `start` to `stop`, that stand for a medium: an image, audio or a video.

    `digest`: a hash of the medium's decoded content and of its resizing; equal digests mean equal embeddings.
    Tokens between those of the medium (row ends, timestamps) belong to the span. `divisible` False: prefill must not
    split it, since its tokens attend to each other in both directions.
    """

    start: int
    stop: int
    digest: bytes
    divisible: bool = True

    def splits_at(self, place: int) -> bool:
        """Return whether `place` lies inside the span, so that a cut there would split it."""
        return self.start < place < self.stop


class Job(Struct, frozen=True):
    """A request for the engine: continue `prompt` (token ids, at least one) `choices` times by up to `max_tokens`.

    `boundaries`: places in the prompt, ascending, where messages end; later prompts may differ from there on.
    `spans`: the tokens that stand for media, in ascending order; the prompt's last token is none of them.
    `embed`: called in the engine's thread with the number of prompt tokens that are already in the cache, which is
    never inside a span; returns the `PromptEmbeddings` of the tokens from there on. It is called again if that ends
    before the prompt does, and after a preemption. It must evaluate what it encodes: lazy arrays would keep the
    encoder's intermediate results in memory.
    `media_bytes`: the most bytes that encoding takes at any time, including the `PromptEmbeddings`.
    `grammar`: enforced on each answer. `prompt_logprobs`: score the prompt's tokens, too, and report this
    many of the most likely tokens at each place; None: don't. `speculates`: proposed tokens may be verified.
    `prediction`: tokens that the caller expects in the answer; they are proposed.
    `wants_hidden_state`: return the last hidden state of the prompt's last token, and no answer; nothing is cached.
    `cache_scope`: whose cached prompts and recent answers it may use, and who may use its own. `sender`: who gets a
    fair share with it. `stopwatch`: counts the time to the first token.
    """

    id: str
    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    choices: int = 1
    priority: Priority = "normal"
    boundaries: tuple[int, ...] = ()
    spans: tuple[MediaSpan, ...] = ()
    embed: Callable[[int], PromptEmbeddings] | None = None
    media_bytes: int = 0
    grammar: BoundGrammar | None = None
    prompt_logprobs: int | None = None
    speculates: bool = True
    prediction: tuple[int, ...] = ()
    wants_hidden_state: bool = False
    cache_scope: CacheScope = EVERYBODY
    sender: Sender = Sender()
    stopwatch: Stopwatch = field(default_factory=Stopwatch)


class Verification(Struct, frozen=True):
    """How many tokens a source proposed for a row in a step, and how many of them were accepted."""

    source: Source
    proposed: int
    accepted: int


class DrawnToken(Struct, frozen=True):
    """The next token of one choice of a job; `reason` is set on its last one ("stop": it is an end-of-turn token).

    A step may produce several of a choice, in order. `verified` is set on the last of them if tokens were proposed.
    """

    job: str
    choice: int
    sample: Sample
    reason: EndReason | None = None
    verified: Verification | None = None


class JobStart(Struct, frozen=True):
    """A job whose prefill has begun; the prefix cache had the first `cached_tokens` of its prompt."""

    job: str
    cached_tokens: int
    miss: Miss | None = None


class JobFailure(Struct, frozen=True):
    """A job that failed; the engine has forgotten all its choices. `too_large`: it needs more memory than there is.
    `by_grammar`: its grammar can't be enforced further; the caller's grammar is the cause, not the model. `refusal`:
    the error that `embed` raised for the caller."""

    job: str
    message: str
    too_large: bool = False
    by_grammar: bool = False
    refusal: OrchardError | None = None


class PromptScores(Struct, frozen=True):
    """The logprobs of a job's next prompt tokens, from the second token on. All precede the first generated token."""

    job: str
    samples: list[Sample]


class HiddenState(Struct, frozen=True):
    """The last hidden state of a job with `wants_hidden_state`, float32 (width,); the job has ended."""

    job: str
    vector: np.ndarray[Any, np.dtype[np.float32]]


class EngineStep(Struct, frozen=True):
    """What one engine step produced, and how many jobs are running and waiting after it.

    `starved_jobs`: the waiting jobs that need more memory than there is for now, even alone.
    A job in `failures` may have `tokens`, too, which come first.
    """

    starts: list[JobStart]
    tokens: list[DrawnToken]
    failures: list[JobFailure]
    running: int
    waiting: int
    scores: list[PromptScores] = []
    hidden_states: list[HiddenState] = []
    starved_jobs: list[str] = []
