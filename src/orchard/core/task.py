"""What all tasks share: what a model can be asked for, and how it is loaded for that."""

from typing import ClassVar

from msgspec import Struct

from orchard.core.setting import Positive


class Task(Struct, frozen=True):
    """What a model is asked for: a struct with a tag of its own, which the row of a kind in `orchard.kinds` names."""

    gives: ClassVar[str]
    """What an answer consists of, for the error of a model that has none to give."""
    reads_prompt: ClassVar[bool] = True
    """Whether its prompt is counted among those that were read."""
    draws_tokens: ClassVar[bool] = False
    """Whether its content is tokens that are drawn one after the other: they are counted and timed."""

    @property
    def choices(self) -> int:
        """How many answers there are."""
        return 1


class LoadOptions(Struct, frozen=True, kw_only=True):
    """How a model is loaded and run; each kind of model adds what it needs."""

    memory_limit: Positive | None = None
    """What the model and its requests may take together, in bytes; None: what the device recommends."""

    @property
    def saves(self) -> bool:
        """Whether a model saves something when it is unloaded."""
        return False
