"""What a check is, and what it found.

A check is an async function of a `Subject` that returns a `Proof`, with the decorator `check` on it. To add one, write
it into one of the files that `checks.py` imports.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from orchard.cli.verify.subject import Subject

Part = Literal["right", "fast", "safe"]
Stage = Literal["first", "restarted", "stopped"]
Status = Literal["ok", "rounding", "problem", "left out"]

LANGUAGE = ("text", "vision")


class Proof(Struct, kw_only=True):
    """What a check found. "rounding": answers differ only by rounding; "left out": not looked at, and why.

    `seen` is one sentence, without a final stop. `advice`: what to set so that the model is right at once; `settings`:
    those of it that the configuration file can keep for the model. `figures` are rates in tokens per second, times in
    seconds or milliseconds, or bytes, as their names say.
    """

    status: Status
    seen: str
    advice: str = ""
    settings: dict[str, str | int] = field(default_factory=dict)
    figures: dict[str, float | None] = field(default_factory=dict)
    model: str = ""
    part: Part = "right"
    check: str = ""
    seconds: float = 0.0


class Remedy(Struct, frozen=True):
    """What to set if a check finds something wrong: see `Proof`."""

    advice: str
    settings: dict[str, str | int] = field(default_factory=dict)

    def problem(self, seen: str, figures: dict[str, float | None] | None = None) -> Proof:
        """Return what was found wrong."""
        return Proof(status="problem", seen=seen, advice=self.advice, settings=self.settings, figures=figures or {})


class Check(Struct, frozen=True):
    """A check: for which kinds of models, at which start of the server or after its end. `long`: only with --long."""

    name: str
    part: Part
    kinds: Collection[str]
    stage: Stage
    long: bool
    run: "Callable[[Subject], Awaitable[Proof]]"


CHECKS: list[Check] = []
"""All checks, in the order in which they run."""


def check(
    name: str, part: Part, kinds: Collection[str] = LANGUAGE, *, stage: Stage = "first", long: bool = False
) -> "Callable[[Callable[[Subject], Awaitable[Proof]]], Callable[[Subject], Awaitable[Proof]]]":
    """Add the function to `CHECKS`."""

    def add(run: "Callable[[Subject], Awaitable[Proof]]") -> "Callable[[Subject], Awaitable[Proof]]":
        CHECKS.append(Check(name, part, kinds, stage, long, run))
        return run

    return add
