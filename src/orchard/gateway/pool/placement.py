"""Which models may be in memory together, who makes room for whom, and who waits. Pure: no clock, no process.

Models that wait are served in the order in which they came, and none overtakes another: whoever waits for room gets it
once those who have it have finished what they had begun.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

Phase = Literal["waiting", "loading", "ready", "leaving"]


class ResidentModel(Struct, frozen=True, kw_only=True):
    """A model as placement sees it; what it needs is in bytes.

    `phase`: a leaving one still takes its memory. `busy`: it has requests. `used`: when it was last used, the higher
    the later. `modest`: it takes room that is free, and makes nobody go. `bundled`: it does not count as one of the
    models in memory, and goes when it is idle and another model is loaded. `resident`: it was loaded with the server,
    and goes only where those that were loaded on demand make too little room.
    """

    id: str
    need: int
    phase: Phase
    busy: bool = False
    pinned: bool = False
    used: float = 0.0
    modest: bool = False
    bundled: bool = False
    resident: bool = False


class PlacementPlan(Struct):
    """What is to be done. `hold`: models that get no new requests, so that they can go once theirs are done."""

    load: list[str] = field(default_factory=list)
    evict: dict[str, str] = field(default_factory=dict)
    """Models that go, and for whom."""
    hold: set[str] = field(default_factory=set)
    refuse: dict[str, str] = field(default_factory=dict)
    """Models that can never be loaded beside the pinned ones, and why."""
    drop: list[str] = field(default_factory=list)
    """Modest ones that find no room."""


def plan(
    waiting: Sequence[ResidentModel], placed: Sequence[ResidentModel], most: int, budget: int | None
) -> PlacementPlan:
    """Plan for the models that wait, first come first, and those that take memory.

    At most `most` may be in memory, within `budget` bytes; None: that is not known until one has started.
    """
    made = PlacementPlan()
    seats = list(placed)
    for seat in waiting:
        if why := _never(seat, seats, most, budget):
            made.refuse[seat.id] = why
    for seat in waiting:
        if seat.id in made.refuse:
            continue
        if budget is None and seats:
            break
        if _fits(seat, seats, most, budget):
            made.load.append(seat.id)
            seats.append(seat)
            if not seat.bundled:
                asides = {one.id: seat.id for one in placed if one.bundled and _may_go(one) and not one.busy}
                made.evict |= asides
                made.hold |= asides.keys()
        elif seat.modest:
            # Room that is about to be free is as good as free.
            if not _fits(seat, [one for one in seats if one.phase != "leaving"], most, budget):
                made.drop.append(seat.id)
        else:
            _make_room(made, seat, seats, most, budget)
            break
    return made


def need(weights_bytes: int, budget: int | None) -> int:
    """Give the bytes that a model is to have at least: an eighth beside its weights, unless there isn't that much."""
    wanted = weights_bytes + weights_bytes // 8
    return wanted if budget is None else max(weights_bytes, min(wanted, budget))


def allowances(needs: Sequence[int], budget: int) -> list[int]:
    """Divide the budget between models: to each what it needs, and an equal share of what is left."""
    total = sum(needs)
    if total > budget:  # some take more than was known before they were loaded
        return [max(1, budget * one // total) for one in needs]
    return [one + (budget - total) // len(needs) for one in needs]


def _fits(seat: ResidentModel, seats: Sequence[ResidentModel], most: int, budget: int | None) -> bool:
    if not seat.bundled and _count(seats) >= most:
        return False
    return budget is None or sum(one.need for one in seats) + seat.need <= budget


def _never(seat: ResidentModel, seats: Sequence[ResidentModel], most: int, budget: int | None) -> str | None:
    stay = [one for one in seats if one.pinned and one.phase != "leaving"]
    if _fits(seat, stay, most, budget):
        return None
    if _count(stay) >= most and not seat.bundled:
        return f"{most} may be in memory at once, and as many are pinned"
    return too_large(seat.need, budget or 0, sum(one.need for one in stay))


def too_large(need_bytes: int, budget: int, pinned_bytes: int = 0) -> str:
    """Say that a model is too large."""
    beside = f"; pinned models take {pinned_bytes:,} of them" if pinned_bytes else ""
    return f"it needs {need_bytes:,} bytes of memory, and all models may take {budget:,}{beside}"


def _make_room(
    made: PlacementPlan, seat: ResidentModel, seats: Sequence[ResidentModel], most: int, budget: int | None
) -> None:
    """Choose who goes for a model that does not fit: residents last, idle ones and those used long ago first."""
    stay = [one for one in seats if one.phase != "leaving"]
    candidates = sorted(filter(_may_go, stay), key=_worth)
    victims: list[ResidentModel] = []
    while candidates and not _fits(seat, stay, most, budget):
        victims.append(candidates.pop(0))
        stay.remove(victims[-1])
    if not _fits(seat, stay, most, budget):
        return  # those that load now must have served first
    for victim in reversed(victims):
        if _fits(seat, [*stay, victim], most, budget):  # one that came later is so large that this one may stay
            stay.append(victim)
            continue
        made.hold.add(victim.id)
        if not victim.busy:
            made.evict[victim.id] = seat.id


def _count(seats: Sequence[ResidentModel]) -> int:
    return sum(not seat.bundled for seat in seats)


def _may_go(seat: ResidentModel) -> bool:
    return seat.phase == "ready" and not seat.pinned


def _worth(seat: ResidentModel) -> tuple[bool, bool, float]:
    return seat.resident, seat.busy, seat.used
