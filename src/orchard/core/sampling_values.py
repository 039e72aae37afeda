"""The values that say how tokens are sampled."""

from msgspec import Struct


class SamplingValues(Struct, frozen=True, kw_only=True):
    """How tokens are sampled: see `core.tasks.generate.Sampling`. The defaults are neutral: they change no logits."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    repetition_context_size: int = 0
    presence_penalty: float = 0.0
    presence_context_size: int = 0
    frequency_penalty: float = 0.0
    frequency_context_size: int = 0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1


NEUTRAL = SamplingValues()
