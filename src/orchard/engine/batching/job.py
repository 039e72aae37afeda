"""What goes into the engine and what comes out of it. Nothing here touches MLX, so any thread may hold it."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.request import Priority
from orchard.engine.batching.model import Embedded
from orchard.engine.prefix_cache.cache import Miss
from orchard.engine.sampling.grammar import BoundGrammar
from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.speculation.proposal import Source

EndReason = Literal["stop", "length"]


class MediaSpan(Struct, frozen=True):
    """The tokens of a prompt, from `start` to `stop`, that stand for a medium: an image, a sound or a film.

    `digest`: of the medium's decoded content and of how it was resized; where it is the same, so are the embeddings.
    What stands between the medium's tokens (row ends, timestamps) belongs to the span. `divisible` False: prefill must
    not cut within it (its tokens attend to each other in both directions).
    """

    start: int
    stop: int
    digest: bytes
    divisible: bool = True

    def splits_at(self, place: int) -> bool:
        """Return whether what ends or begins at a place has only a part of the span."""
        return self.start < place < self.stop


class Job(Struct, frozen=True):
    """A request for the engine: continue `prompt` (token ids, at least one) `choices` times by up to `max_tokens`.

    `boundaries`: places in the prompt, ascending, where a message ends; a later prompt may part from this one there.
    `spans`: the tokens that stand for media, in ascending order; the prompt's last token is none of them.
    `embed`: called in the engine's thread with the number of the prompt's first tokens that have been read or were
    cached; returns the `Embedded` for those from there on. It is called again where that ends before the prompt, and
    where a row that was preempted is read again. The number is never within a span. It evaluates what it encodes: lazy
    arrays would keep all that the encoder has computed.
    `media_bytes`: what encoding takes at most at any time, in bytes, the `Embedded` among it.
    `grammar`: what each answer keeps. `prompt_logprobs`: the prompt's own tokens are scored, too, each with so many of
    the likeliest at its place.
    `speculates`: proposed tokens may be verified several at a time. `prediction`: tokens that the caller expects in the
    answer, to be proposed.
    `hidden`: the last hidden state of the prompt's last token is wanted, and no answer; nothing is cached.
    """

    id: str
    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    choices: int = 1
    priority: Priority = "normal"
    boundaries: tuple[int, ...] = ()
    spans: tuple[MediaSpan, ...] = ()
    embed: Callable[[int], Embedded] | None = None
    media_bytes: int = 0
    grammar: BoundGrammar | None = None
    prompt_logprobs: int | None = None
    speculates: bool = True
    prediction: tuple[int, ...] = ()
    hidden: bool = False


class Verified(Struct, frozen=True):
    """How many tokens a source proposed for a row in a step, and how many of them were right."""

    source: Source
    proposed: int
    accepted: int


class Drawn(Struct, frozen=True):
    """The next token of one choice of a job; `reason` is set on its last one ("stop": it is an end-of-turn token).

    A step may bring several of a choice, in their order. `verified` is set on the last of them where some had been
    proposed.
    """

    job: str
    choice: int
    sample: Sample
    reason: EndReason | None = None
    verified: Verified | None = None


class Begun(Struct, frozen=True):
    """A job whose prompt is being read, but for the `cached_tokens` at its head that were known."""

    job: str
    cached_tokens: int
    miss: Miss | None = None


class JobFailed(Struct, frozen=True):
    """A job that failed; all its choices are gone from the engine. `too_large`: it needs more memory than there is.
    `by_grammar`: its grammar can't go on; the caller's grammar is at fault, not the model. `refusal`: what `embed`
    raised to tell the caller."""

    job: str
    message: str
    too_large: bool = False
    by_grammar: bool = False
    refusal: OrchardError | None = None


class Scored(Struct, frozen=True):
    """The next tokens of a job's prompt, from its second one on. All of them come before the first token is drawn."""

    job: str
    samples: list[Sample]


class HiddenState(Struct, frozen=True):
    """The last hidden state of a job that wanted it, float32 (width,); the job has ended."""

    job: str
    vector: np.ndarray[Any, np.dtype[np.float32]]


class EngineStep(Struct, frozen=True):
    """What one engine step brought, and how many jobs are being worked on and are waiting after it."""

    begun: list[Begun]
    drawn: list[Drawn]
    broken: list[JobFailed]
    running: int
    waiting: int
    scored: list[Scored] = []
    hidden: list[HiddenState] = []
