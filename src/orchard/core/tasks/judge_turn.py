"""Turn detection: whether somebody who has paused has finished speaking."""

from typing import ClassVar

from msgspec import Struct

from orchard.core.request import LoadOptions, Task

JUDGED_SECONDS = 8
"""The end of a turn that models hear; what comes before it need not be sent."""


class JudgeTurn(Task, frozen=True, tag="judge_turn"):
    """Judge whether a turn is over. `sound`: its end, up to a pause, in samples of 16 bits, `rate` a second."""

    gives: ClassVar[str] = "turn detection"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/realtime",)
    unit: ClassVar[str] = "pauses"

    sound: bytes
    rate: int


class TurnJudgement(Struct, frozen=True, array_like=True):
    """Whether a turn is over: its probability, from 0 to 1, and whether that is more than the model's own threshold."""

    probability: float
    is_over: bool


class TurnDetectionOptions(LoadOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a model of turn detection is run."""
